#!/usr/bin/env python3
"""Shows when deploy/quickstart builds for NVIDIA GPUs and draws on one. What it calls are stand-ins that note their arguments."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
NOTE = '#!/bin/sh\necho "$(basename "$0")${1:+ $*}" >>"$NOTES"\n'
LATENTD = NOTE + """case $* in *"$FAILS"*) echo "no NVIDIA driver" >&2; exit 1 ;; esac
echo "listening on 127.0.0.1:1" >&2
exec sleep 60
"""


class QuickstartTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("quickstart", "steps.sh"):
            (self.root / "deploy").mkdir(exist_ok=True)
            shutil.copy(DEPLOY / name, self.root / "deploy")
        for path in ("deploy/dependencies", "deploy/build", "build/client/latent"):
            self.program(path, NOTE)
        self.program("build/server/latentd", LATENTD)
        self.driver(None)

    def program(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def driver(self, version, *, library_alone=False):
        """Sets the driver's version on the machine; `library_alone`: without its program."""
        there = version and not library_alone
        self.program("bin/nvidia-smi", f"#!/bin/sh\necho {version}\necho {version}\n" if there else "#!/bin/sh\nexit 9\n")
        library = self.root / f"libcuda.so.{version}"
        library.touch()
        self.program("bin/ldconfig", f"#!/bin/sh\necho '  libcuda.so.1 (libc6,x86-64) => {library}'\n" if version else NOTE)

    def run_it(self, *arguments, fails="none", code=0):
        """The programs that it ran, with their arguments, and what it said."""
        notes = self.root / "notes"
        notes.write_text("")
        environment = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "NOTES": str(notes), "FAILS": fails}
        done = subprocess.run([self.root / "deploy/quickstart", *arguments], capture_output=True, text=True,
                              env=environment, check=False, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        ran = [line for line in notes.read_text().splitlines() if line.split()[0] in ("dependencies", "build", "latentd")]
        return [line.replace("--listen=127.0.0.1:0 ", "") for line in ran], done.stdout + done.stderr

    def test_without_a_driver_a_new_tree_is_for_the_cpu(self):
        """Although there may be a toolkit."""
        ran, said = self.run_it()
        self.assertEqual(ran, ["dependencies", "build --no-cuda", "latentd --backend=cpu"])
        self.assertIn("No NVIDIA driver", said)

    def test_without_a_driver_a_tree_that_is_there_stays_as_it_was(self):
        (self.root / "build/CMakeCache.txt").touch()
        self.assertEqual(self.run_it()[0], ["dependencies", "build", "latentd --backend=cpu"])

    def test_with_a_driver_it_is_for_gpus(self):
        for library_alone in (False, True):
            self.driver("580.65.06", library_alone=library_alone)
            ran, said = self.run_it()
            self.assertEqual(ran, ["dependencies --cuda", "build --cuda", "latentd --backend=cuda"])
            self.assertIn("build/server/latentd --backend=cuda &", said)

    def test_a_driver_that_is_too_old_is_named(self):
        self.driver("535.183.01")
        ran, said = self.run_it()
        self.assertEqual(ran, ["dependencies", "build --no-cuda", "latentd --backend=cpu"])
        self.assertIn("535.183.01, and CUDA 13 needs 580", said)

    def test_a_gpu_that_was_found_and_cannot_be_used_leaves_the_cpu(self):
        self.driver("580.65.06")
        ran, said = self.run_it(fails="--backend=cuda")
        self.assertEqual(ran[2:], ["latentd --backend=cuda", "latentd --backend=cpu"])
        self.assertIn("build/server/latentd --backend=cpu &", said)

    def test_a_gpu_that_was_asked_for_and_cannot_be_used_is_a_failure(self):
        ran, said = self.run_it("--cuda", fails="--backend=cuda", code=1)
        self.assertEqual(ran, ["dependencies --cuda", "build --cuda", "latentd --backend=cuda"])
        self.assertIn("no NVIDIA driver", said)

    def test_told_not_to_it_looks_for_no_gpu(self):
        self.driver("580.65.06")
        self.assertEqual(self.run_it("--no-cuda")[0], ["dependencies", "build --no-cuda", "latentd --backend=cpu"])

    def test_it_ends_where_something_could_not_be_installed_or_built(self):
        self.program("deploy/build", NOTE + "exit 1\n")
        self.assertEqual(self.run_it(code=1)[0], ["dependencies", "build --no-cuda"])
        self.program("deploy/dependencies", NOTE + "exit 1\n")
        self.assertEqual(self.run_it(code=1)[0], ["dependencies"])


if __name__ == "__main__":
    unittest.main()
