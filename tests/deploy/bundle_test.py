#!/usr/bin/env python3
"""Shows that what deploy/bundle makes of a build tree runs where it is put, with nothing of this machine but its C library.

    bundle_test.py TREE [unittest's arguments]"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUNDLE = pathlib.Path(__file__).resolve().parents[2] / "deploy/bundle"
TREE = pathlib.Path(sys.argv.pop(1)).resolve(strict=True)
LIBTORCH = pathlib.Path(re.search(r"^LIBTORCH_DIR:\w+=(.*)$", (TREE / "CMakeCache.txt").read_text(), re.MULTILINE)[1], "lib")
GLIBC = re.compile(r"(ld-linux-x86-64|lib(c|m|dl|pthread|rt|util|resolv))\.so\.\d+")


def make(folder, *options, path=os.environ["PATH"]):
    return subprocess.run([BUNDLE, f"--tree={TREE}", *options, folder], capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": path}, timeout=300)


def run(program, *arguments, **environment):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, cwd="/",
                          env={"PATH": "/usr/bin:/bin", **environment}, timeout=60)


def libraries(bundle, program, **environment):
    """{name: path} of what the loader takes; None where it finds nothing."""
    said = run(bundle / "programs" / program, LD_TRACE_LOADED_OBJECTS="1", **environment).stdout
    found = re.findall(r"^\s*(\S+) => (.*?)(?: \(0x\w+\))?$", said, re.MULTILINE)
    return {name: None if path == "not found" else pathlib.Path(path) for name, path in found}


class BundleTestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        made = make(cls.folder / "made", *cls.OPTIONS)
        assert made.returncode == 0, made.stdout + made.stderr
        cls.bundle = cls.folder / "put elsewhere"
        (cls.folder / "made").rename(cls.bundle)

    def assert_runs(self, name, *arguments, **environment):
        done = run(self.bundle / "bin" / name, *arguments, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def assert_is_whole(self, given=()):
        """All libraries of all programs are in the bundle, the C library's, or `given`."""
        path = os.pathsep.join(map(str, [self.bundle / "lib", *given]))
        for program in (self.bundle / "programs").iterdir():
            for name, file in libraries(self.bundle, program.name, LD_LIBRARY_PATH=path).items():
                if not GLIBC.fullmatch(name):
                    self.assertIn(file and file.parent, [self.bundle / "lib", *given], f"{program.name}: {name}")


class WithoutLibtorchTest(BundleTestCase):
    OPTIONS = ["--without-libtorch", "--without-cuda"]

    def test_nothing_is_taken_from_this_machine_but_what_was_left_out(self):
        self.assert_is_whole([LIBTORCH])

    def test_what_needs_nothing_that_was_left_out_runs(self):
        self.assertRegex(self.assert_runs("latent", "--version"), r"^latent \d")

    def test_the_services_are_described(self):
        """Every service of the protos, with what it imports."""
        descriptors = (self.bundle / "share/latentd/latent.binpb").read_bytes()
        told = subprocess.run(["protoc", "--decode=google.protobuf.FileDescriptorSet", "google/protobuf/descriptor.proto"],
                              input=descriptors, capture_output=True, check=True, cwd="/", timeout=60).stdout.decode()
        services = set(re.findall(r"^  service \{\n    name: \"(\w+)\"", told, re.MULTILINE))
        protos = [file.read_text() for file in BUNDLE.parents[1].glob("proto/latent/v1/*.proto")]
        written = {name for text in protos for name in re.findall(r"^service (\w+) \{", text, re.MULTILINE)}
        self.assertGreater(len(written), 5)
        self.assertEqual(services, written | {"Health"})
        files = set(re.findall(r"^  name: \"(.+)\"$", told, re.MULTILINE))
        self.assertEqual(set(re.findall(r"^  dependency: \"(.+)\"$", told, re.MULTILINE)) - files, set())

    def test_without_a_path_it_says_what_it_lacks_and_what_to_give(self):
        done = run(self.bundle / "bin/latentd", "--version")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^latentd: not found: libc10\.so libtorch_cpu\.so\. Give .*LibTorch.*--site-packages=")

    def test_libtorch_is_found_by_its_folder(self):
        self.assertIn("--backend", self.assert_runs("latentd", f"--libraries=/nowhere:{LIBTORCH}", "--help"))
        self.assert_runs("latentd", "--help", LATENTD_LIBRARIES=str(LIBTORCH))

    def test_libtorch_is_found_in_a_python(self):
        packages = self.folder / "site-packages"
        (packages / "torch").mkdir(parents=True)
        (packages / "torch/lib").symlink_to(LIBTORCH)
        self.assertRegex(self.assert_runs("latentd", f"--site-packages={packages}", "--version"), r"^latentd \d")
        self.assert_runs("latentd", "--version", LATENTD_SITE_PACKAGES=str(packages))
        done = run(self.bundle / "bin/latentd", f"--site-packages={self.folder}", "--version")
        self.assertIn("holds neither torch/lib nor nvidia", done.stderr)

    def test_libtorch_is_found_in_several_folders(self):
        """As pip leaves it where a distribution has folders of its own for wheels without programs, which NVIDIA's are."""
        torch, nvidia = self.folder / "lib64/torch/lib", self.folder / "lib/nvidia/cu13/lib"
        for place, belongs in ((torch, lambda name: not name.startswith("libcu")), (nvidia, lambda name: name.startswith("libcu"))):
            place.mkdir(parents=True)
            for file in LIBTORCH.iterdir():
                if belongs(file.name):
                    (place / file.name).symlink_to(file)
        for given in ("{0}/lib64:{0}/lib", "{0}/lib:{0}/lib64"):
            self.assert_runs("latentd", f"--site-packages={given.format(self.folder)}", "--version")
        other = self.folder / "other/torch"
        (other / "lib").mkdir(parents=True)
        (other / "version.py").write_text("__version__ = '2.10.0'\n")
        (self.folder / "other/nvidia").mkdir()
        self.assert_runs("latentd", f"--site-packages={self.folder}/lib64:{self.folder}/lib:{self.folder}/other", "--version")
        done = run(self.bundle / "bin/latentd", f"--site-packages={self.folder}/other:{self.folder}/lib64", "--version")
        self.assertIn("has torch 2.10.0", done.stderr)
        done = run(self.bundle / "bin/latentd", f"--site-packages={self.folder}/lib64:{self.folder}", "--version")
        self.assertIn(f"{self.folder} holds neither torch/lib nor nvidia", done.stderr)

    def test_another_libtorch_is_refused(self):
        packages = self.folder / "other-packages"
        (packages / "torch/lib").mkdir(parents=True)
        (packages / "torch/version.py").write_text("from typing import Optional\n__version__ = '2.10.1+cu128'\n")
        done = run(self.bundle / "bin/latentd", f"--site-packages={packages}", "--version")
        self.assertEqual(done.returncode, 1)
        self.assertIn("has torch 2.10.1, and this was built with LibTorch 2.11.0", done.stderr)

    def test_flags_reach_the_program(self):
        done = run(self.bundle / "bin/latentd", f"--libraries={LIBTORCH}", "--libraries-of-babel")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--libraries-of-babel", done.stderr)

    def test_a_link_to_a_program_starts_it(self):
        link = self.folder / "link"
        link.symlink_to(self.bundle / "bin/latent")
        self.assertEqual(run(link, "--version").returncode, 0)

    def test_programs_are_stripped_and_know_no_path_of_the_build(self):
        for program in (self.bundle / "programs").iterdir():
            said = subprocess.run(["readelf", "--wide", "--sections", "--dynamic", program], capture_output=True, text=True,
                                  check=True).stdout
            self.assertNotIn(".symtab", said)
            self.assertNotIn(".debug", said)
            self.assertEqual(re.findall(r"R(?:UN)?PATH.*\[(.*)\]", said), ["$ORIGIN/../lib"])

    def test_licences_of_debians_libraries_are_there(self):
        for package in ("libgrpc29", "libstdc++6", "zlib1g"):
            self.assertTrue((self.bundle / "share/doc/latentd/licenses" / package / "copyright").exists(), package)


class WithLibtorchTest(BundleTestCase):
    OPTIONS = ["--without-cuda"]

    def test_it_needs_nothing_but_the_c_library(self):
        self.assert_is_whole()
        self.assertRegex(self.assert_runs("latentd", "--version"), r"^latentd \d")


class ArchiveTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def make(self, compress):
        """With a stand-in for xz, which takes its time."""
        xz = self.folder / "xz"
        xz.write_text(f"#!/bin/sh\n{compress}\n")
        xz.chmod(0o755)
        shutil.rmtree(self.folder / "made", ignore_errors=True)
        return make(self.folder / "made", "--without-libtorch", "--without-cuda", "--archive",
                    path=f"{self.folder}:{os.environ['PATH']}")

    def test_holds_the_folder(self):
        made = self.make(f"cat >{self.folder}/whole.tar; echo small")
        self.assertEqual(made.returncode, 0, made.stderr)
        names = subprocess.run(["tar", "--list", "--file", self.folder / "whole.tar"], capture_output=True, text=True,
                               check=True).stdout.splitlines()
        self.assertIn("made/bin/latentd", names)
        self.assertIn("made/programs/latentd", names)

    def test_one_that_is_too_large_is_a_failure(self):
        made = self.make("cat")
        self.assertEqual(made.returncode, 1)
        self.assertIn("may have 64 MiB", made.stderr)

    def test_a_folder_that_is_there_is_left_alone(self):
        (self.folder / "made").mkdir()
        made = make(self.folder / "made")
        self.assertEqual(made.returncode, 1)
        self.assertEqual(list((self.folder / "made").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
