#!/usr/bin/env python3
"""Shows which comments deploy/lint-comments refuses, and in which files and places it finds them."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy/lint-comments"
OPENINGS = ("Of", "That", "Those", "What", "Whatever", "Where", "Whether", "Which", "Who", "Whoever")


class LintCommentsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def lint(self, *options):
        """The lines that the script prints, with its exit status checked against them."""
        command = [sys.executable, SCRIPT, "--root", self.root, *options]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = result.stdout.splitlines()
        if "--count" not in options:
            self.assertEqual(result.returncode, 1 if lines else 0, result.stderr)
        return lines

    def places(self, path, text):
        """The lines of `text` with a violation, as a file of that name."""
        self.write(path, text)
        prefix = f"{path}:"
        lines = self.lint()
        (self.root / path).unlink()
        self.assertEqual([line for line in lines if not line.startswith(prefix)], [])
        return [int(line.removeprefix(prefix).partition(":")[0]) for line in lines]

    def test_each_relative_word_at_the_beginning_is_refused(self):
        words = [written for word in OPENINGS for written in (word, word.lower())]
        text = "".join(f"// {word} a lane holds.\nint a;\n" for word in words)
        self.assertEqual(self.places("core/new/a.h", text), list(range(1, 2 * len(words), 2)))

    def test_a_word_that_only_begins_like_one_is_not(self):
        self.assertEqual(self.places("core/new/a.h", "// Office hours.\n\n// Whole rows.\n\n// Offset of a row.\n\n// Thatched.\n"), [])

    def test_the_first_word_counts_behind_marks(self):
        self.assertEqual(self.places("core/new/a.h", '// "What" is refused.\n\n//  (of a row)\n'), [1, 3])

    def test_the_first_word_of_a_paragraph_counts_too(self):
        self.assertEqual(self.places("core/new/a.h", "// A lane.\n//\n// What it holds. Of all\n// of them.\n//\n// Rows.\n"), [3])
        self.assertEqual(self.places("core/new/a.py", '"""A lane.\n\nWhat it holds."""\n'), [3])

    def test_only_the_first_word_of_a_block_counts(self):
        self.assertEqual(self.places("core/new/a.h", "// A lane holds rows, of which\n// what is stepping comes first.\n"), [])
        self.assertEqual(self.places("core/new/a.h", "// A lane.\n\n// What it holds.\n"), [3])

    def test_a_comment_behind_code_is_one_and_may_go_on_below(self):
        self.assertEqual(self.places("core/new/a.h", "int a;  // of a row\nint b;  // A row.\n"), [1])
        self.assertEqual(self.places("core/new/a.h", "int a;  // bytes of the row\n        // of a lane\n"), [])
        self.assertEqual(self.places("core/new/a.h", "int a;  // bytes\nint b;  // of a lane\n"), [2])

    def test_strings_are_no_comments(self):
        text = 'auto a = "// What?";\nauto b = R"(\n// Of that\n)";\nauto c = \'"\';  // What?\nint d = 1\'000;  // Of d.\n'
        self.assertEqual(self.places("core/new/a.cc", text), [5, 6])

    def test_pronouns_in_comments_are_refused_anywhere_in_them(self):
        for word in ("anybody", "everybody", "nobody", "Somebody", "whoever"):
            self.assertEqual(self.places("core/new/a.h", f"// A lane.\n// If {word} waits.\n"), [2], word)
        self.assertEqual(self.places("core/new/a.h", "/* A lane that\n   nobody has. */\n"), [2])

    def test_pronouns_in_strings_are_refused_in_core_only(self):
        text = 'auto a = "nobody waits";\n'
        self.assertEqual(self.places("core/new/a.cc", text), [1])
        self.write("server/calls/a.cc", text)
        self.assertEqual(self.lint(), [])

    def test_comments_of_other_languages_are_read(self):
        self.assertEqual(self.places("core/new/a.proto", "// What a row is.\nmessage Row {}\n"), [1])
        self.assertEqual(self.places("core/new/a.cu", "// What a row is.\n"), [1])
        python = '"""A row."""\nname = "# What"\n\ndef f():\n    """Whether it is one."""\n    return 1  # of them\n'
        self.assertEqual(self.places("core/new/a.py", python), [5, 6])
        self.assertEqual(self.places("core/new/a", '#!/usr/bin/env bash\necho "# What" ${#a} #b\n# Of rows.\n'), [3])
        self.assertEqual(self.places("core/new/CMakeLists.txt", "# Where rows are.\nproject(rows)\n"), [1])
        self.assertEqual(self.places("core/new/a.yaml", "a: b#Of\n  # Of rows.\n"), [2])

    def test_other_files_are_not(self):
        self.assertEqual(self.places("core/new/notes.txt", "# What\n"), [])
        self.write("core/new/a.png", "")
        (self.root / "core/new/a.png").write_bytes(b"\x89PNG\xff// What")
        self.assertEqual(self.lint(), [])

    def test_only_files_that_are_named_are_read(self):
        self.write("core/new/a.h", "// A row.\n")
        self.write("core/new/b.h", "// What a row is.\n")
        self.assertEqual(self.lint(self.root / "core/new/a.h"), [])
        self.assertEqual(len(self.lint(self.root / "core/new/b.h")), 1)

    def test_violations_are_counted_by_directory(self):
        self.write("core/new/a.h", "// What nobody waits for.\n")
        self.write("core/other/a.h", "// Of a row.\n")
        self.assertEqual(self.lint("--count"), ["    2 core/new", "    1 core/other", "    3 in all"])

    def test_deploy_lint_runs_it(self):
        """With a stand-in for clang-format, which is content with all."""
        for script in ("lint", "lint-comments", "steps.sh"):
            self.write(f"deploy/{script}", (SCRIPT.parent / script).read_text(encoding="utf-8"))
            (self.root / "deploy" / script).chmod(0o755)
        self.write("bin/clang-format-14", "#!/bin/sh\n")
        (self.root / "bin/clang-format-14").chmod(0o755)
        environment = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        for text, passes in (("// A row.\n", True), ("// What a row is.\n", False)):
            self.write("core/new/a.h", text)
            result = subprocess.run([self.root / "deploy/lint", "core/new/a.h"], capture_output=True, text=True, check=False, env=environment)
            self.assertEqual((result.returncode == 0, "core/new/a.h:1: " in result.stdout), (passes, not passes), result.stdout)


if __name__ == "__main__":
    unittest.main()
