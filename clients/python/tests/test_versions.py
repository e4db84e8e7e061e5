"""The wheel beside other versions of what it needs (versions.txt), and as mypy sees it (mypy.txt)."""

import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import PIL
import run

import python_client
import server_process
from shared_server import SharedServerTestCase

HERE = pathlib.Path(__file__).resolve().parent
MYPY = "mypy==2.4.1"
PROMPT = "a red circle on a blue background"
# Field presence, a nested message, an enum and an error's details are read otherwise by other runtimes.
DRAWS = """
import base64, json, sys
import google.protobuf, grpc, latent_client
small = {"width": 64, "height": 64, "num_inference_steps": 2, "seed": 7, "guidance_interval": (0, 0.9), "progress_bar": False}
with latent_client.LatentPipeline(sys.argv[1]) as pipe:
    drawn = pipe(sys.argv[2], bucket_policy="exact", output_type="bytes", **small)
    try:
        pipe(sys.argv[2], **{**small, "width": 60})
    except latent_client.InvalidRequest as error:
        refused = [violation.field for violation in error.violations]
print(json.dumps({"versions": [google.protobuf.__version__, grpc.__version__], "refused": refused, "seeds": drawn.seeds,
                  "drawn": base64.b64encode(drawn.images[0]).decode()}))
"""


class VersionsTest(SharedServerTestCase):
    def pillow(self):
        """A folder with it alone: a protobuf beside another would take its extension."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        packages = pathlib.Path(PIL.__file__).parents[1]
        for name in ("PIL", "pillow.libs", "typing_extensions.py"):
            pathlib.Path(folder.name, name).symlink_to(packages / name)
        return folder.name

    def draws(self, protobuf, grpcio, pillow):
        path = [self.folders[f"protobuf=={protobuf}"], self.folders[f"grpcio=={grpcio}"], python_client.installed(), pillow]
        done = subprocess.run([sys.executable, "-B", "-c", DRAWS, self.server.address, PROMPT], capture_output=True, text=True,
                              timeout=server_process.DEADLINE, env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_one_wheel_draws_with_all(self):
        self.folders = run.install_groups(HERE / "versions.txt")
        versions = {name: [each.partition("==")[2] for each in self.folders if each.startswith(name)] for name in ("protobuf", "grpcio")}
        self.assertEqual([version.split(".")[0] for version in versions["protobuf"]], ["3", "4", "5", "6", "7"])
        request = self.api.request(prompt=PROMPT, guidance_interval={"start": 0, "stop": 0.9})
        expected = base64.b64encode(self.api.generate(request).images[0].data).decode()
        oldest, newest = versions["grpcio"]
        pillow = self.pillow()
        pairs = [(protobuf, newest) for protobuf in versions["protobuf"]] + [(versions["protobuf"][0], oldest)]
        for pair in pairs:
            with self.subTest(pair):
                self.assertEqual(self.draws(*pair, pillow), {"versions": list(pair), "refused": ["width"], "seeds": [7], "drawn": expected})

    def test_mypy_has_nothing_to_say(self):
        """--strict, of the wheel's files, so that stubs made by its build count."""
        path = [run.install_groups(HERE / "mypy.txt")[MYPY], *sys.path]
        done = subprocess.run([sys.executable, "-m", "mypy", f"--config-file={python_client.SOURCES / 'pyproject.toml'}", "--cache-dir=/dev/null",
                               python_client.installed() / "latent_client"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertRegex(done.stdout, r"no issues found in \d\d source files")


if __name__ == "__main__":
    unittest.main()
