#!/usr/bin/env python3
"""A client of soak.py: soak_client.py ADDRESS [HTTP-ADDRESS]. Each line of standard input is a request in JSON, of which a line of
standard output says how it ended. Some are cancelled in the middle of their stream, or broken off and resumed; in the middle of
others this process kills itself."""
import base64
import hashlib
import http.client
import json
import os
import pathlib
import signal
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
import run  # noqa: E402

sys.path.insert(0, str(run.install_client()))
os.environ["no_proxy"] = "*"
import grpc  # noqa: E402
from server_process import Api  # noqa: E402
from test_video import image  # noqa: E402

LONGEST = 300  # seconds; then this process ends, and its request has no end
POLL = 0.05  # seconds
IMAGES = {"good": image(), "garbage": b"\x89PNG\r\n\x1a\nno more", "none": b""}


def leave(order):
    """True where it leaves by a call; a client that dies does not return."""
    if order["dies"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return True


def fields_of(order):
    fields = {**order["fields"], "request_id": order["id"]}
    if "image" in fields:
        fields["image"] = IMAGES[fields["image"]]
    return fields


def data_of(event):
    """Bytes of images, frames and files."""
    return b"".join(getattr(event, field.name).data for field, _ in event.ListFields() if field.name.endswith("_chunk"))


def read(events, order, digest):
    """The bytes that came; it leaves where the order says so."""
    size = 0
    for number, event in enumerate(events):
        data = data_of(event)
        digest.update(data)
        size += len(data)
        if number == order["leaves_after"] and leave(order):
            events.cancel()
            if order["resumes"]:
                return size
    return size


class Client:
    def __init__(self, address, http_address=None):
        self.api = Api(address)
        self._http = http_address

    def ask(self, order):
        """The name of the status, and a digest of what was drawn."""
        try:
            return getattr(self, "_ask_" + order["kind"])(order)
        except grpc.RpcError as error:
            return error.code().name, ""
        except (OSError, http.client.HTTPException):
            return "UNAVAILABLE", ""

    def _ask_image(self, order):
        digest = hashlib.sha256()
        read(self.api.stream(self.api.request(**fields_of(order))), order, digest)
        return "OK", digest.hexdigest()

    def _video(self, method, request):
        call = self.api.channel.unary_stream(
            f"/latent.v1.VideoGeneration/{method}", request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=self.api.type("latent.v1.VideoEvent").FromString)
        return call(request)

    def _ask_video(self, order):
        digest = hashlib.sha256()
        request = self.api.type("latent.v1.GenerateVideoRequest")(resumable=order["resumes"], **fields_of(order))
        size = read(self._video("GenerateVideo", request), order, digest)
        if order["resumes"]:
            request = self.api.type("latent.v1.ResumeVideoRequest")(request_id=order["id"], received_bytes=size)
            read(self._video("ResumeVideo", request), {**order, "leaves_after": -1}, digest)
        return "OK", digest.hexdigest()

    def _ask_job(self, order):
        """By /v1/videos: the file is fetched, and deleted then. Who leaves deletes it before."""
        fields = fields_of(order)
        fields["image"] = base64.b64encode(fields["image"]).decode()
        code, answer = self._call("POST", "", json.dumps(fields))
        if code != 200:
            return json.loads(answer)["error"]["type"].upper(), ""
        path = "/" + json.loads(answer)["id"]
        looks = 0
        while (state := json.loads(self._call("GET", path)[1]))["status"] in ("queued", "in_progress"):
            if looks == order["leaves_after"] and leave(order):
                self._call("DELETE", path)
                return "CANCELLED", ""
            looks += 1
            time.sleep(POLL)
        code, file = self._call("GET", path + "/content")
        self._call("DELETE", path)
        return ("OK", hashlib.sha256(file).hexdigest()) if code == 200 else (str(state["error"]), "")

    def _call(self, method, path, body=None):
        connection = http.client.HTTPConnection(self._http, timeout=LONGEST)
        try:
            connection.request(method, "/v1/videos" + path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def main():
    client = Client(*sys.argv[1:])
    for line in sys.stdin:
        start = time.monotonic()
        signal.alarm(LONGEST)
        code, digest = client.ask(json.loads(line))
        signal.alarm(0)
        print(json.dumps({"code": code, "digest": digest, "seconds": time.monotonic() - start}), flush=True)
    client.api.close()


if __name__ == "__main__":
    main()
