"""The digests by which compiled graphs are told from those of another build: cmake/SourcesDigest.cmake."""
import pathlib
import re
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "cmake/SourcesDigest.cmake"
FILES = ("base/coding.h", "device/buffer.h", "graph/op.h", "passes/epilogues.cc", "compiler/compile.cc", "compiler/graph_store.cc", "backends/backend.h",
         "backends/cpu/algorithms.cc", "backends/cpu/kernels/winograd.cc", "backends/lowering/lowering.cc",
         "backends/reference/interpret.cc")


class SourcesDigestTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.core = pathlib.Path(folder.name) / "core"
        for name in FILES:
            (self.core / name).parent.mkdir(parents=True, exist_ok=True)
            (self.core / name).write_text(f"// {name}\n")
        self.before = self.digests()

    def digests(self):
        header = self.core.parent / "digest.h"
        subprocess.run(["cmake", f"-DOUTPUT={header}", f"-DCORE={self.core}", "-P", SCRIPT], check=True)
        return dict(re.findall(r'\{"(\w+)", "(\w{64})"\}', header.read_text()))

    def changed_by(self, name):
        """The backends whose digest an edit of the file changes."""
        (self.core / name).write_text("// another comment\n")
        return {backend for backend, digest in self.digests().items() if digest != self.before[backend]}

    def test_an_edit_in_one_backend_leaves_the_others_digests(self):
        self.assertEqual(set(self.before), {"cpu", "reference"})
        self.assertEqual(self.changed_by("backends/cpu/kernels/winograd.cc"), {"cpu"})

    def test_an_edit_of_lowering_changes_the_backends_that_lower(self):
        self.assertEqual(self.changed_by("backends/lowering/lowering.cc"), {"cpu"})

    def test_an_edit_of_what_all_share_changes_all(self):
        for name in ("base/coding.h", "device/buffer.h", "graph/op.h", "passes/epilogues.cc", "compiler/compile.cc", "backends/backend.h"):
            with self.subTest(name):
                self.assertEqual(self.changed_by(name), {"cpu", "reference"})
                self.before = self.digests()

    def test_what_compiles_nothing_changes_none(self):
        self.assertEqual(self.changed_by("compiler/graph_store.cc"), set())


if __name__ == "__main__":
    unittest.main()
