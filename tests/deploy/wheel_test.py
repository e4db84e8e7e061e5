#!/usr/bin/env python3
"""Shows that what deploy/wheel makes of a build tree is installed by pip and draws what the tree's own programs draw.

    wheel_test.py TREE [unittest's arguments]

Without a network: torch is a stand-in, a wheel of that name and version, whose libraries are those that the tree was built with.
"""

import base64
import csv
import hashlib
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import zipfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
TREE = pathlib.Path(sys.argv.pop(1)).resolve(strict=True)
CACHE = (TREE / "CMakeCache.txt").read_text()
LIBTORCH = pathlib.Path(re.search(r"^LIBTORCH_DIR:\w+=(.*)$", CACHE, re.MULTILINE)[1], "lib")
HAS_CUDA = re.search(r"^LATENTD_CUDA:\w+=ON$", CACHE, re.MULTILINE) is not None
GLIBC = re.compile(r"(ld-linux-x86-64|lib(c|m|dl|pthread|rt|util|resolv))\.so\.\d+")
PROMPT = "a large yellow star on a purple background"


def run(*command, environment=None, **arguments):
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", timeout=200,
                          env={"PATH": "/usr/bin:/bin", **(environment or {})}, **arguments)


def succeed(*command, **arguments):
    done = run(*command, **arguments)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def torch_stand_in(folder, version):
    """A wheel that pip takes for torch, with no library in it."""
    information = f"torch-{version}.dist-info"
    files = {"torch/__init__.py": "raise RuntimeError('the programs need the files of torch alone')\n",
             "torch/version.py": f"__version__ = '{version}+cu130'\n",
             f"{information}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n",
             f"{information}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n"}
    record = "".join(f"{name},,\n" for name in [*files, f"{information}/RECORD"])
    folder.mkdir()
    with zipfile.ZipFile(folder / f"torch-{version}-py3-none-any.whl", "w") as archive:
        for name, text in [*files.items(), (f"{information}/RECORD", record)]:
            archive.writestr(name, text)


def wheel_script():
    """deploy/wheel as a module."""
    loader = importlib.machinery.SourceFileLoader("wheel_script", str(PROJECT / "deploy/wheel"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("wheel_script", loader))
    loader.exec_module(module)
    return module


def glibc_by_symbols(*files):
    """The newest version of glibc that a symbol of the files is asked for in."""
    said = succeed("objdump", "--dynamic-syms", *files)
    return max(tuple(map(int, each.split("."))) for each in re.findall(r"\*UND\*.*\(GLIBC_(\d+\.\d+)", said))


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()
        succeed(PROJECT / "deploy/wheel", f"--tree={TREE}", cls.folder, environment={"PATH": os.environ["PATH"]})
        cls.wheel, = cls.folder.glob("*")
        with zipfile.ZipFile(cls.wheel) as archive:
            name, = (name for name in archive.namelist() if name.endswith("/METADATA"))
            cls.metadata = archive.read(name).decode()
        cls.torch = re.search(r"^Requires-Dist: torch==([\d.]+)$", cls.metadata, re.MULTILINE)[1]
        cls.environment = cls.folder / "environment"
        cls.packages = cls.fresh(cls.environment)
        torch_stand_in(cls.folder / "wheels", cls.torch)
        done = cls.install(cls.environment, cls.folder / "wheels")
        assert done.returncode == 0, done.stdout + done.stderr
        (cls.packages / "torch/lib").symlink_to(LIBTORCH)

    @classmethod
    def fresh(cls, environment):
        """Makes an environment with nothing in it; returns the folder of its packages."""
        succeed(sys.executable, "-m", "venv", "--without-pip", environment)
        where = "import sysconfig; print(sysconfig.get_path('platlib'))"
        return pathlib.Path(succeed(environment / "bin/python", "-c", where).strip())

    @classmethod
    def install(cls, environment, wheels):
        """As a user does, where `wheels` is all of PyPI."""
        return run(sys.executable, "-m", "pip", "--isolated", "--python", environment / "bin/python", "install", "--no-index",
                   "--no-cache-dir", "--find-links", wheels, cls.wheel)

    def serve(self, latentd):
        """Starts it, and stops it at the end of the test; its socket is beside its log."""
        place = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        with open(place / "log", "wb") as log:
            server = subprocess.Popen([latentd, f"--listen=unix:{place}/socket", "--buckets=256x256"], stderr=log, cwd="/", start_new_session=True,
                                      env={"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(place), "XDG_RUNTIME_DIR": str(place)})
        self.addCleanup(server.wait)
        self.addCleanup(self.kill_all_of, server)
        return server, place

    def kill_all_of(self, server):
        """Its children too, if it has any."""
        try:
            os.killpg(server.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def draw(self, latent, place):
        server = f"--server=unix:{place}/socket"
        ready = run(latent, "health", server, "--wait=100s")
        self.assertEqual(ready.returncode, 0, ready.stderr + (place / "log").read_text())
        succeed(latent, "generate", "-", server, "--seed=7", f"--output={place}/picture.png", input=PROMPT)
        return (place / "picture.png").read_bytes()

    def assert_takes_nothing_of_this_machine(self, server):
        """Its programs and libraries are the wheel's, LibTorch's and the C library's."""
        self.assertEqual(pathlib.Path(f"/proc/{server.pid}/exe").readlink(), self.packages / "latentd/programs/latentd")
        mapped = re.findall(r"(/\S+\.so\S*)$", pathlib.Path(f"/proc/{server.pid}/maps").read_text(), re.MULTILINE)
        own = self.packages / "latentd/lib"
        others = [path for path in map(pathlib.Path, mapped) if path.parent not in (own, LIBTORCH.resolve())]
        self.assertEqual([path for path in others if not GLIBC.fullmatch(path.name)], [])
        self.assertIn(str(own / "libstdc++.so.6"), mapped)

    def test_it_draws_what_the_tree_draws(self):
        pictures = []
        installed = self.environment / "bin"
        for latentd, latent in ((installed / "latentd", installed / "latent"), (TREE / "server/latentd", TREE / "client/latent")):
            server, place = self.serve(latentd)
            pictures.append(self.draw(latent, place))
            if latentd.parent == installed:
                self.assert_takes_nothing_of_this_machine(server)
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(100), 0, (place / "log").read_text())
        self.assertTrue(pictures[0].startswith(b"\x89PNG"))
        self.assertEqual(pictures[0], pictures[1])

    def test_exit_codes_and_flags_reach_the_program(self):
        done = run(self.environment / "bin/latentd", "--libraries-of-babel")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--libraries-of-babel", done.stderr)
        self.assertRegex(succeed(self.environment / "bin/latent", "--version"), r"^latent \d")

    def test_a_closed_pipe_ends_the_program(self):
        """Python ignores SIGPIPE, and what a process ignores stays ignored in a program that takes its place."""
        reads, writes = os.pipe()
        os.close(reads)
        with open(writes, "wb") as closed:
            done = subprocess.run([self.environment / "bin/latent", "help", "generate"], stdout=closed, check=False, timeout=60)
        self.assertEqual(done.returncode, -signal.SIGPIPE)

    def test_without_torch_it_says_what_is_missing(self):
        bare = self.folder / "bare"
        (self.fresh(bare) / "latentd").symlink_to(self.packages / "latentd")
        done = run(bare / "bin/python", "-c", "import latentd; latentd.latentd()")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^latentd: not found: libc10\.so libtorch_cpu\.so\. Give .*LibTorch")

    def test_another_torch_is_not_taken(self):
        other = self.folder / "other"
        self.fresh(other)
        torch_stand_in(self.folder / "other wheels", "2.10.0")
        done = self.install(other, self.folder / "other wheels")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"torch=={self.torch}", done.stderr)

    def test_packages_that_lie_elsewhere_are_found(self):
        elsewhere = self.folder / "elsewhere"
        (elsewhere / "nvidia/cu13/lib").mkdir(parents=True)
        found = succeed(self.environment / "bin/python", "-c", "import latentd; print(*latentd.site_packages(), sep='\\n')",
                        environment={"PYTHONPATH": str(elsewhere)})
        self.assertEqual(found.splitlines(), [str(self.packages), str(elsewhere)])

    def test_it_requires_the_wheels_that_dependencies_installs(self):
        downloaded = (PROJECT / "deploy/dependencies").read_text()
        required = re.findall(r"^Requires-Dist: ([\w-]+)==([\d.]+)(?:; extra == \"(\w+)\")?$", self.metadata, re.MULTILINE)
        self.assertEqual(len(required), self.metadata.count("Requires-Dist:"))
        for name, version, _ in required:
            self.assertRegex(downloaded, rf"\n +{name.replace('-', '_')}-{re.escape(version)}-\S+\.whl\n")
        cuda = [(name, "cuda") for name in ("nvidia-cublas", "nvidia-cuda-nvrtc", "nvidia-cudnn-cu13")] if HAS_CUDA else []
        self.assertEqual([(name, extra) for name, _, extra in required], [("torch", ""), *cuda])

    def test_its_tag_names_the_glibc_that_is_needed(self):
        with zipfile.ZipFile(self.wheel) as archive:
            archive.extractall(self.folder / "unpacked")
        inside = self.folder / "unpacked/latentd"
        major, minor = glibc_by_symbols(*inside.glob("programs/*"), *inside.glob("lib/*"))
        self.assertRegex(self.wheel.name, rf"^latentd-[\d.]+-py3-none-manylinux_{major}_{minor}_\w+\.whl$")

    def test_the_glibc_that_is_needed_is_a_files_own(self):
        script = wheel_script()
        needed = [script.glibc_of([file]) for file in (LIBTORCH / "libc10.so", TREE / "server/latentd")]
        self.assertEqual(needed, [glibc_by_symbols(file) for file in (LIBTORCH / "libc10.so", TREE / "server/latentd")])
        self.assertNotEqual(needed[0], needed[1])

    def test_its_record_is_true(self):
        with zipfile.ZipFile(self.wheel) as archive:
            record, = (name for name in archive.namelist() if name.endswith("/RECORD"))
            rows = {name: (digest, size) for name, digest, size in csv.reader(archive.read(record).decode().splitlines())}
            self.assertEqual(sorted(rows), sorted(archive.namelist()))
            self.assertEqual(rows.pop(record), ("", ""))
            for name, (digest, size) in rows.items():
                content = archive.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
                self.assertEqual((digest, size), (f"sha256={expected}", str(len(content))), name)


if __name__ == "__main__":
    unittest.main()
