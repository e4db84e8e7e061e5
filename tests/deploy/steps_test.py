#!/usr/bin/env python3
"""Shows that threads of OpenMP do not decide how many builds and tests deploy's scripts run side by side."""

import os
import pathlib
import subprocess
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "deploy"


class ProcessorsTest(unittest.TestCase):
    def processors(self, **environment):
        command = ["bash", "-c", f'. "{SCRIPTS}/steps.sh"; processors']
        result = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
        return int(result.stdout)

    def test_are_those_that_this_process_may_use(self):
        self.assertEqual(self.processors(), len(os.sched_getaffinity(0)))

    def test_are_no_fewer_with_one_thread_in_openmp(self):
        self.assertEqual(self.processors(OMP_NUM_THREADS="1", OMP_THREAD_LIMIT="1"), self.processors())

    def test_are_asked_for_once_in_the_scripts(self):
        for script in ("build", "lint", "test"):
            with self.subTest(script=script):
                self.assertNotIn("nproc", (SCRIPTS / script).read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
