"""Checks of the container image without building it: how the list of its contents is written, that it has what
latentd is linked to, and what deploy/image does with a docker that builds nothing. A real one tries the rest."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import server_process

PROJECT = pathlib.Path(__file__).resolve().parents[2]
OF_LIBTORCH = re.compile(r"lib(torch_cpu|c10|gomp|cudart|cupti)\.so")

STATUS = """Package: libmade-up1
Status: install ok installed
Maintainer: Somebody <somebody@example.org>
Architecture: amd64
Version: 1:2.0+dfsg-3

Package: libplain++2
Status: install ok installed
Maintainer: Somebody <somebody@example.org>
Architecture: all
Version: 2

Package: removed
Status: deinstall ok config-files
Maintainer: Somebody <somebody@example.org>
Architecture: amd64
Version: 3
"""
MACHINE_READABLE = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
License: GPL-2+ or Artistic, and Expat

Files: debian/*
License: Our own
 may be copied
"""
OF_TORCH = """Name: first
License: MIT
Files: third_party/first

Name: second
License: BSD-3-Clause
Files: third_party/second

Name: second
License: Apache-2.0
Files: third_party/other/second
"""


def sbom(root):
    done = subprocess.run([PROJECT / "deploy" / "sbom", "1.2.3", root], capture_output=True, text=True, check=True,
                          timeout=server_process.DEADLINE, env={**os.environ, "SOURCE_DATE_EPOCH": "86400"})
    return json.loads(done.stdout)


class SbomTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            licences = "opt/latentd/share/doc/latentd/licenses"
            for path, text in (("var/lib/dpkg/status", STATUS),
                               ("usr/share/doc/libmade-up1/copyright", MACHINE_READABLE),
                               ("usr/share/doc/libplain++2/copyright", "See /usr/share/common-licenses/LGPL-2.1."),
                               (f"{licences}/torch-9.8.7/LICENSE", OF_TORCH), (f"{licences}/made_up-1.2.3.4/License.txt", ""),
                               (f"{licences}/grpc-proto/LICENSE", "Apache"),
                               ("opt/latentd/bin/latentd", "a program"), ("opt/latentd/lib/libc10.so", "a library")):
                file = pathlib.Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            cls.document = sbom(folder)
        cls.packages = {each["name"]: each for each in cls.document["packages"]}

    def test_has_every_field_that_spdx_requires(self):
        document = self.document
        self.assertEqual((document["spdxVersion"], document["dataLicense"], document["SPDXID"]),
                         ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
        self.assertRegex(document["documentNamespace"], r"^https://[^#]+$")
        self.assertEqual(document["creationInfo"]["created"], "1970-01-02T00:00:00Z")
        self.assertRegex(document["creationInfo"]["creators"][0], "^(Tool|Person|Organization): ")
        for each in document["packages"]:
            self.assertLessEqual({"SPDXID", "name", "downloadLocation"}, each.keys())
        for each in document["files"]:
            self.assertEqual({one["algorithm"]: len(one["checksumValue"]) for one in each["checksums"]},
                             {"SHA1": 40, "SHA256": 64})
            self.assertTrue(each["fileName"].startswith("./"))

    def test_identifiers_are_unique_and_relationships_lead_somewhere(self):
        identifiers = [each["SPDXID"] for each in self.document["packages"] + self.document["files"]]
        self.assertEqual(len(identifiers), len(set(identifiers)))
        for each in identifiers:
            self.assertRegex(each, r"^SPDXRef-[A-Za-z0-9.-]+$")
        related = {each["relatedSpdxElement"] for each in self.document["relationships"]}
        self.assertEqual(related, set(identifiers))
        self.assertLessEqual({each["spdxElementId"] for each in self.document["relationships"]},
                             {"SPDXRef-DOCUMENT", *identifiers})

    def test_lists_what_is_installed(self):
        self.assertEqual(set(self.packages), {"latentd", "torch", "torch/first", "torch/second", "made-up",
                                              "grpc-proto", "libmade-up1", "libplain++2"})
        self.assertEqual(self.packages["latentd"]["versionInfo"], "1.2.3")
        self.assertEqual(self.packages["torch"]["versionInfo"], "9.8.7")
        self.assertEqual(self.packages["made-up"]["externalRefs"][0]["referenceLocator"], "pkg:pypi/made-up@1.2.3.4")
        self.assertNotIn("versionInfo", self.packages["grpc-proto"])
        self.assertEqual(self.packages["libmade-up1"]["externalRefs"][0]["referenceLocator"],
                         "pkg:deb/debian/libmade-up1@1:2.0+dfsg-3?arch=amd64")
        self.assertEqual({each["fileName"] for each in self.document["files"]},
                         {"./opt/latentd/bin/latentd", "./opt/latentd/lib/libc10.so"})

    def test_licences_are_expressions_of_spdx(self):
        declared = {name: each["licenseDeclared"] for name, each in self.packages.items()}
        self.assertEqual(declared["libmade-up1"],
                         "(GPL-2.0-or-later OR Artistic-1.0-Perl) AND LicenseRef-Our-own AND MIT")
        self.assertEqual(declared["torch/second"], "Apache-2.0 AND BSD-3-Clause")
        self.assertEqual(declared["grpc-proto"], "Apache-2.0")
        self.assertEqual(declared["libplain++2"], "NOASSERTION")
        self.assertIn("LGPL-2.1", self.packages["libplain++2"]["licenseComments"])
        used = set(re.findall(r"LicenseRef-[A-Za-z0-9.-]+", " ".join(declared.values())))
        self.assertEqual(used, {each["licenseId"] for each in self.document["hasExtractedLicensingInfos"]})


class RuntimePackagesTest(unittest.TestCase):
    def test_the_image_installs_what_the_programs_are_linked_to(self):
        dockerfile = (PROJECT / "Dockerfile").read_text()
        stage = dockerfile.split("AS runtime", 1)[1].split("apt-get clean", 1)[0]
        named = re.findall(r"lib[a-z0-9.+-]+", stage)
        installed = set(named) | self.dependencies_of(named)
        needed = {library for program in (server_process.options.latentd, server_process.options.latent)
                  for library in self.needed_by(program) if not OF_LIBTORCH.match(library)}
        self.assertIn("libc.so.6", needed)
        listed = subprocess.run(["dpkg-query", "--search", *(f"*/{library}" for library in needed)],
                                capture_output=True, text=True, check=False).stdout
        from_installed = {line.rpartition("/")[2] for line in listed.splitlines() if line.split(":", 1)[0] in installed}
        self.assertLessEqual(needed, from_installed)

    @staticmethod
    def needed_by(program):
        listed = subprocess.run(["objdump", "-p", program], capture_output=True, text=True, check=True).stdout
        return re.findall(r"NEEDED +(\S+)", listed)

    @staticmethod
    def dependencies_of(packages):
        listed = subprocess.run(["dpkg-query", "--show", "--showformat=${Depends}, ", *packages], capture_output=True,
                                text=True, check=True).stdout
        return set(re.findall(r"(?:^|, )([a-z0-9.+-]+)", listed))


# Instead of docker: builds nothing, and runs in place of the image's programs those of this build.
DOCKER = """#!/usr/bin/env bash
set -eu
case $1 in
  info) exit ;;
  build) echo "built: $*"; exit ;;
  image) echo 773000000; exit ;;
esac
while [ "$1" != --entrypoint ]; do
  [ "$1" != --volume ] || export XDG_CACHE_HOME=${2%%:*}
  shift
done
case $2 in
  cat) echo '{"spdxVersion": "SPDX-2.3"}' ;;
  latentd) shift 3; exec "$LATENTD" $FLAGS "$@" ;;
  latent) shift 3; exec "$LATENT" "$@" ;;
esac
"""


class ScriptTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_script(self, *arguments, path, flags=""):
        programs = {"LATENTD": server_process.options.latentd, "LATENT": server_process.options.latent, "FLAGS": flags}
        return subprocess.run([shutil.which("bash"), PROJECT / "deploy" / "image", *arguments], capture_output=True, text=True,
                              timeout=server_process.DEADLINE, env={**os.environ, **programs, "PATH": path})

    def with_docker(self, **named):
        docker = self.folder / "docker"
        docker.write_text(DOCKER)
        docker.chmod(0o755)
        return self.run_script("--tag=there/latentd:7", f"--sbom={self.folder}/list.json", "--", "--network=host",
                               path=f"{self.folder}:{os.environ['PATH']}", **named)

    def test_builds_with_docker_and_tries_what_it_built(self):
        done = self.with_docker(flags="--buckets=64x64")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"built: build --tag there/latentd:7 .* --network=host /")
        self.assertRegex(done.stdout, r"empty: READY after \S+ s, compiled=[1-9]\d* loaded=0\n")
        self.assertRegex(done.stdout, r"filled: READY after \S+ s, compiled=0 loaded=[1-9]")
        self.assertIn("there/latentd:7: 773 MB", done.stdout)
        self.assertIn("SPDX-2.3", (self.folder / "list.json").read_text())

    def test_says_why_the_image_does_not_start(self):
        done = self.with_docker(flags="--base=/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere", done.stderr)

    def test_says_what_it_needs_and_what_it_does_not_understand(self):
        for program in ("dirname", "basename", "sed", "mktemp", "chmod", "rm", "id", "date"):
            (self.folder / program).symlink_to(shutil.which(program))
        done = self.run_script(path=str(self.folder))
        self.assertEqual((done.returncode, done.stderr),
                         (1, "image: this needs docker with a daemon that answers, or buildah and root\n"))
        done = self.run_script("--tags=x", path=str(self.folder))
        self.assertEqual(done.returncode, 2)
        self.assertIn('image: "--tags=x" is not understood\n', done.stderr)


if __name__ == "__main__":
    unittest.main()
