"""Names in documents and manifests exist: flags, metrics, files, sections."""

import ast
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import python_client
import server_process

PROJECT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted({PROJECT / "README.md", *PROJECT.glob("docs/*.md"), *PROJECT.glob("deploy/*/README.md"),
                *PROJECT.glob("core/**/*.md"), *PROJECT.glob("tests/*/README.md"), PROJECT / "clients/python/README.md"})
MANIFESTS = sorted([*PROJECT.glob("deploy/kubernetes/**/*.yaml"), *PROJECT.glob("deploy/prometheus/*.yml"),
                    PROJECT / "deploy/haproxy/haproxy.cfg"])
# Documents that name only flags of latentd and latent, but for these of kubectl, rsync, docker, deploy's scripts and tests/bench.
OPERATORS = [PROJECT / "docs/operations.md", PROJECT / "docs/metrics.md", PROJECT / "deploy/haproxy/README.md",
             PROJECT / "deploy/kubernetes/README.md", *MANIFESTS]
FOREIGN = {"--filename", "--inplace", "--ignore-not-found", "--tag", "--config.file", "--gpus", "--cuda", "--without-libtorch",
           "--without-cuda", "--site-packages", "--libraries", "--archive", "--restart"}
VERBS = ("list", "warm", "evict", "export", "import")
COMMANDS = [[], ["generate"], ["animate"], ["encode"], ["compare"], ["capabilities"], ["health"], ["status"], ["memory"], ["models"], *(["graphs", verb] for verb in VERBS)]


def flags(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9.-]*[a-z0-9]", text))


def help_of(program, *command):
    return subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True,
                          timeout=server_process.DEADLINE).stdout


def sections(page):
    """The anchors of its headings, as a forge makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def python_cases(file):
    """{Class.test} of a file of tests."""
    classes = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
    return {f"{node.name}.{item.name}" for node in classes for item in node.body if isinstance(item, ast.FunctionDef)}


def googletest_cases(folder):
    """{Suite.Test} of a folder of tests, with folders in it that are of the same program."""
    own = [each for each in folder.glob("**/") if each == folder or not (each / "CMakeLists.txt").exists()]
    sources = "".join(file.read_text() for each in own for file in each.glob("*_test.cc"))
    return {f"{suite}.{name}" for suite, name in re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", sources, re.MULTILINE)}


def cases_of(test):
    """The cases of one of ctest's tests, by its name."""
    if test.startswith("integration_"):
        return python_cases(PROJECT / "tests/integration" / f"{test.replace('integration', 'test', 1)}.py")
    tests = PROJECT / "tests"
    folder, = [folder for folder in tests.glob("**/") if "_".join(folder.relative_to(tests).parts) == test]
    return googletest_cases(folder)


class DocumentsTest(unittest.TestCase):
    def test_flags_are_of_latentd_or_latent(self):
        options = server_process.options
        known = flags(help_of(options.latentd)).union(*(flags(help_of(options.latent, *each)) for each in COMMANDS))
        for page in OPERATORS:
            self.assertEqual(flags(page.read_text()) - known - FOREIGN, set(), page)

    def test_metrics_are_in_their_table(self):
        table = set(re.findall(r"^\| `(\w+)` \|", (PROJECT / "docs/metrics.md").read_text(), re.MULTILINE))
        for page in [*PAGES, *MANIFESTS]:
            named = re.findall(r"(?<![:\w])latentd_(?!library)\w+(?![\w:])", page.read_text())
            self.assertEqual({name for name in named if re.sub("_(bucket|sum|count)$", "", name) not in table}, set(), page)

    def test_files_are_there(self):
        for page in [*PAGES, *MANIFESTS]:
            named = re.findall(r"(?<![\w./-])(?:core|server|client|proto|deploy|tests|docs|cmake)/[\w./-]*\w", page.read_text())
            # A file may be named without its ending, and a family of files by how its names begin.
            gone = {name for name in named if not any(PROJECT.glob(name + "*"))}
            self.assertEqual(gone, set(), page)

    def test_links_lead_somewhere(self):
        for page in PAGES:
            for file, section in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", page.read_text()):
                target = page.parent / file if file else page
                self.assertTrue(target.exists(), f"{page}: {file}")
                if section:
                    self.assertIn(section, sections(target), f"{page}: {file}#{section}")

    def test_no_section_is_empty(self):
        for page in PAGES:
            for level, title, following in re.findall(r"^(#+) (.+)\n+(?=(#*))", page.read_text(), re.MULTILINE):
                self.assertTrue(not following or following > level, f"{page}: nothing under {title!r}")

    def test_every_guarantee_names_tests_that_exist(self):
        rows = [line for line in (PROJECT / "docs/guarantees.md").read_text().splitlines() if re.match(r"\| (?!failure elsewhere )", line)]
        self.assertGreaterEqual(len(rows), 80)
        for row in rows:
            named = re.findall(r"`(\w+)` ((?:\w+\.\w+(?:, )?)+)", row.split("|")[3])
            # All of the column is names: a broken one would go unseen.
            self.assertEqual("; ".join(f"`{test}` {cases}" for test, cases in named), row.split("|")[3].strip())
            for test, cases in named:
                self.assertEqual(set(cases.split(", ")) - cases_of(test), set(), test)


class PythonExampleTest(unittest.TestCase):
    """The client in README.md, as it stands there, in a Python of its own."""

    def test_draws_a_picture(self):
        example, = re.findall(r"^```python\n(.*?)^```", (PROJECT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
        server = server_process.Server(buckets="256x256").start()
        self.addCleanup(server.kill)
        self.assertIn('"localhost:50051"', example)
        example = example.replace("localhost:50051", server.address)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-c", example], cwd=folder, check=True, timeout=server_process.DEADLINE,
                           env={**os.environ, "PYTHONPATH": os.pathsep.join([str(python_client.installed()), *sys.path])})
            picture = pathlib.Path(folder, "star.png").read_bytes()
        self.assertEqual(picture[:8], b"\x89PNG\r\n\x1a\n")


if __name__ == "__main__":
    unittest.main()
