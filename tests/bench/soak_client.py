#!/usr/bin/env python3
"""A client of soak.py: soak_client.py ADDRESS. Each line of standard input is a request in JSON, of which a line of standard
output says how it ended. Some are cancelled in the middle of their stream; in the middle of others this process kills itself."""
import hashlib
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

LONGEST = 300  # seconds; then this process ends, and its request has no end


def ask(api, order):
    """The name of the status, and a digest of the pictures."""
    digest = hashlib.sha256()
    events = api.stream(api.request(request_id=order["id"], **order["fields"]))
    try:
        for number, event in enumerate(events):
            if event.HasField("image_chunk"):
                digest.update(event.image_chunk.data)
            if number == order["leaves_after"]:
                if order["dies"]:
                    os.kill(os.getpid(), signal.SIGKILL)
                events.cancel()
    except grpc.RpcError as error:
        return error.code().name, ""
    return "OK", digest.hexdigest()


def main():
    api = Api(sys.argv[1])
    for line in sys.stdin:
        start = time.monotonic()
        signal.alarm(LONGEST)
        code, digest = ask(api, json.loads(line))
        signal.alarm(0)
        print(json.dumps({"code": code, "digest": digest, "seconds": time.monotonic() - start}), flush=True)
    api.close()


if __name__ == "__main__":
    main()
