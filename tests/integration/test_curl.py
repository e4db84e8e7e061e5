"""curl as it is on Debian: a stream without buffering, HTTP/1.0, a body that is announced first, and forms."""

import base64
import io
import json
import pathlib
import random
import subprocess
import tempfile
import unittest
import urllib.request

import PIL.Image
import png
from server_process import DEADLINE
from shared_server import SharedServerTestCase

PROMPT = "a red circle on a blue background"


class CurlTest(SharedServerTestCase):
    ARGUMENTS = ("--http-listen=127.0.0.1:0",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        line = cls.server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"]
        cls.url = "http://" + line.removeprefix("http on ")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def command(self, path, *options, **fields):
        """curl's command line; the fields are the body, from a file."""
        command = ["curl", "--silent", "--show-error", "--max-time", str(DEADLINE), *options, self.url + path]
        if fields:
            body = self.folder / "body.json"
            body.write_text(json.dumps({"prompt": PROMPT, "size": "64x64", "num_inference_steps": 2, "seed": 7, **fields}))
            command += ["--header", "Content-Type: application/json", "--data-binary", f"@{body}"]
        return command

    def curl(self, path, *options, **fields):
        """(first line of each head, body) that came; `told` has what it says of the exchange."""
        done = subprocess.run(self.command(path, "--verbose", *options, **fields), capture_output=True, check=True)
        self.told = done.stderr.decode().splitlines()
        return [line.removeprefix("< ") for line in self.told if line.startswith("< HTTP/")], done.stdout

    def header(self, name):
        found = [line for line in self.told if line.lower().startswith(f"< {name}:")]
        return found[0].partition(": ")[2] if found else None

    def grpc_picture(self, **fields):
        return self.api.generate(self.api.request(prompt=PROMPT, **fields)).images[0].data

    def picture_of(self, body):
        return base64.b64decode(json.loads(body)["data"][0]["b64_json"])

    def jobs(self):
        with urllib.request.urlopen(self.url + "/sdapi/v1/progress", timeout=DEADLINE) as answer:
            return json.load(answer)["state"]["job_count"]

    def test_a_stream_comes_while_it_is_drawn(self):
        """Guard: no event waits for the next one, or for the end."""
        command = self.command("/v1/images/generations", "--no-buffer", stream=True, partial_images=3, num_inference_steps=120, n=4)
        with subprocess.Popen(command, stdout=subprocess.PIPE) as curl:
            lines = iter(curl.stdout.readline, b"")
            self.assertIn(b"event: image_generation.partial_image\n", lines)  # reads no further
            drawing = self.jobs()
            rest = list(lines)
        self.assertEqual(curl.returncode, 0)
        self.assertEqual(drawing, 1, "the first part of the answer came when all was drawn")
        self.assertEqual(rest.count(b"event: image_generation.completed\n"), 4)
        last = json.loads(rest[-2].removeprefix(b"data: "))
        self.assertEqual(last["seed"], 10)
        self.assertEqual(base64.b64decode(last["b64_json"]), self.grpc_picture(seed=10, num_inference_steps=120))

    def test_http_1_0_gets_no_chunks(self):
        heads, body = self.curl("/v1/images/generations", "--http1.0", n=1)
        self.assertEqual([head.split()[1] for head in heads], ["200"])
        self.assertEqual(self.picture_of(body), self.grpc_picture())
        self.assertEqual(int(self.header("content-length")), len(body))
        self.assertIsNone(self.header("transfer-encoding"))

    def test_a_stream_of_http_1_0_ends_with_its_connection(self):
        heads, body = self.curl("/v1/images/generations", "--http1.0", "--no-buffer", stream=True)
        self.assertEqual([head.split()[1] for head in heads], ["200"])
        self.assertIsNone(self.header("transfer-encoding"))
        self.assertIsNone(self.header("content-length"))
        self.assertTrue(body.startswith(b"event: image_generation.completed\ndata: {"), body[:100])
        self.assertEqual(json.loads(body.strip().splitlines()[-1].removeprefix(b"data: "))["seed"], 7)

    def test_a_large_body_is_asked_for(self):
        """curl announces those of more than 1 MiB by itself, and waits."""
        noise = io.BytesIO()
        PIL.Image.frombytes("RGB", (640, 640), random.Random(7).randbytes(640 * 640 * 3)).save(noise, "PNG")
        heads, body = self.curl("/v1/images/edits", "--expect100-timeout", str(DEADLINE), num_inference_steps=4,
                                image=base64.b64encode(noise.getvalue()).decode())
        self.assertIn("> Expect: 100-continue", self.told)
        self.assertEqual([head.split()[1] for head in heads], ["100", "200"], body[:1000])
        self.assertEqual(self.picture_of(body), self.grpc_picture(image=noise.getvalue(), strength=0.6, num_inference_steps=4))

    def test_a_body_that_is_refused_is_not_asked_for(self):
        heads, body = self.curl("/v1/no/such/path", "--header", "Expect: 100-continue", "--expect100-timeout", str(DEADLINE), n=1)
        self.assertEqual([head.split()[1] for head in heads], ["404"])
        self.assertEqual(json.loads(body)["error"]["type"], "invalid_request_error")

    def test_a_form_with_a_file(self):
        image = png.write(64, 64, bytes(range(192)))
        file = self.folder / "photo.png"
        file.write_bytes(image)
        fields = {"prompt": PROMPT, "size": "64x64", "num_inference_steps": 4, "seed": 7}
        forms = [option for name, value in fields.items() for option in ("--form", f"{name}={value}")]
        _, body = self.curl("/v1/images/edits", *forms, "--form", f"image=@{file}")
        self.assertEqual(self.picture_of(body), self.grpc_picture(image=image, strength=0.6, num_inference_steps=4))


if __name__ == "__main__":
    unittest.main()
