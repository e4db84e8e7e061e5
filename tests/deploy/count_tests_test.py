#!/usr/bin/env python3
"""Shows what deploy/count-tests counts as passed and as failed: continuous integration believes it."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

COUNT_TESTS = pathlib.Path(__file__).resolve().parents[2] / "deploy/count-tests"

PASSES = '<testcase classname="A" name="Passes" status="run" result="completed"/>'
FAILS = '<testcase classname="A" name="Fails" status="run" result="completed"><failure message="1 is not 2"/></testcase>'
SKIPPED = '<testcase classname="A" name="WantsGpu" status="run" result="skipped"/>'
DISABLED = '<testcase classname="A" name="DISABLED_One" status="notrun" result="suppressed"/>'


class CountTestsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        (self.root / "reports").mkdir()
        self.programs = self.log = ""

    def tearDown(self):
        self.folder.cleanup()

    def program(self, name, *tests, status="run", output=""):
        """A test of ctest; with tests of GoogleTest if it lived to report them."""
        self.programs += f'<testcase name="{name}" status="{status}"><system-out>{output}</system-out></testcase>'
        if tests:
            report = self.root / f"reports/{name}.xml"
            report.write_text(f"<testsuites><testsuite>{''.join(tests)}</testsuite></testsuites>")

    def run_of(self, name, end="   Passed"):
        """The output of ctest for one run."""
        self.log += f"  1/42 Test   #7: {name} ............................{end}    0.01 sec\nexpected: Passed\n\n    Start  7: {name}\n"

    def count(self):
        """(standard output, standard error)"""
        ctest = self.root / "ctest.xml"
        ctest.write_text(f"<testsuite>{self.programs}</testsuite>")
        log = self.root / "ctest.log"
        log.write_text(self.log)
        done = subprocess.run([sys.executable, "-B", COUNT_TESTS, ctest, self.root / "reports", log], capture_output=True, text=True)
        return done.stdout.strip(), done.stderr

    def test_each_test_of_a_program_counts(self):
        self.program("server", PASSES, FAILS, status="fail")
        counts, said = self.count()
        self.assertEqual(counts, "1 1")
        self.assertIn("FAILED A.Fails\nFAILED | 1 is not 2\n", said)

    def test_a_program_without_report_counts_as_one(self):
        self.program("layering", status="run")
        self.program("fuzz", status="fail", output="SEGV on unknown address")
        counts, said = self.count()
        self.assertEqual(counts, "1 1")
        self.assertIn("FAILED fuzz\nFAILED | SEGV on unknown address\n", said)

    def test_a_program_that_fails_when_its_tests_have_passed(self):
        self.program("server", PASSES, status="fail", output="LeakSanitizer: detected memory leaks")
        counts, said = self.count()
        self.assertEqual(counts, "1 1")
        self.assertIn("detected memory leaks", said)

    def test_a_program_none_of_whose_tests_can_run_here(self):
        self.program("core", PASSES)
        self.program("cuda", SKIPPED)
        counts, said = self.count()
        self.assertEqual(counts, "1 0")
        self.assertIn("SKIPPED A.WantsGpu", said)

    def test_a_program_that_fails_when_its_tests_were_skipped(self):
        self.program("cuda", SKIPPED, status="fail")
        self.assertEqual(self.count()[0], "0 1")

    def test_a_program_without_tests_has_failed(self):
        self.program("core", DISABLED)
        self.assertEqual(self.count()[0], "0 1")

    def test_what_ctest_did_not_run_has_failed(self):
        self.program("core", status="notrun")
        self.assertEqual(self.count()[0], "0 1")

    def test_what_passes_when_it_is_run_again_has_passed_and_is_named(self):
        for name in ("first", "drain", "hung", "last"):
            self.program(name)
        self.run_of("first")
        self.run_of("drain", "***Failed ")
        self.run_of("hung", "***Timeout")
        self.run_of("drain")
        self.run_of("hung")
        self.run_of("last")
        self.assertEqual(self.count(), ("4 0", "FLAKY drain\nFLAKY hung\n"))

    def test_what_fails_again_has_failed(self):
        self.program("drain", status="fail", output="late")
        self.run_of("drain", "***Failed ")
        self.run_of("drain", "***Failed ")
        self.assertEqual(self.count(), ("0 1", "FAILED drain\nFAILED | late\n"))

    def test_only_the_end_of_what_was_said(self):
        self.program("core", status="fail", output="\n".join(map(str, range(1000))))
        self.assertEqual(len(self.count()[1].splitlines()), 31)


if __name__ == "__main__":
    unittest.main()
