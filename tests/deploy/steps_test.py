#!/usr/bin/env python3
"""Shows that threads of OpenMP do not decide how many builds and tests deploy's scripts run side by side, and how a build runs beside
tests."""

import os
import pathlib
import subprocess
import tempfile
import textwrap
import time
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


class BuildBesideTestsTest(unittest.TestCase):
    def run_script(self, build, script):
        """The result of a script that sources steps.sh, in a project whose deploy/build is `build`; and that project's build/."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        project = pathlib.Path(folder.name)
        for name in ("build", "deploy"):
            (project / name).mkdir()
        (project / "deploy/steps.sh").symlink_to(SCRIPTS / "steps.sh")
        (project / "deploy/build").write_text(f"#!/usr/bin/env bash\n{build}\n", encoding="utf-8")
        (project / "deploy/build").chmod(0o755)
        command = ["bash", "-c", f'set -euo pipefail; . "{project}/deploy/steps.sh"; {textwrap.dedent(script)}']
        return subprocess.run(command, capture_output=True, text=True, check=False), project / "build"

    def test_goes_on_while_tests_run(self):
        # Each waits for the other.
        result, build = self.run_script('mkfifo "$(dirname "$0")/begun"; echo "$@" >"$(dirname "$0")/begun"',
                                        """start_build asan one two
                                        until [ -e "$project/deploy/begun" ]; do :; done
                                        read -r arguments <"$project/deploy/begun"
                                        finish_build
                                        echo "built: $arguments" """)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("built: --tests --preset=asan one two", result.stdout)
        self.assertTrue((build / "build-asan.log").exists())

    def test_leaves_the_processors_to_tests(self):
        result, build = self.run_script('read -ra fields <"/proc/$$/stat"; echo "${fields[40]} ${fields[18]}"',
                                        "start_build tsan; finish_build")
        self.assertEqual(result.returncode, 0, result.stderr)
        policy_and_nice = (build / "build-tsan.log").read_text(encoding="utf-8").strip()
        self.assertIn(policy_and_nice, ("5 0", "0 19"))  # SCHED_IDLE, or SCHED_OTHER

    def test_that_fails_says_why(self):
        result, _ = self.run_script("echo no such header; exit 3", "start_build asan; finish_build; echo went on")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no such header", result.stderr)
        self.assertNotIn("went on", result.stdout)

    # Process that a build has started: a compiler, or cmake while it configures.
    BUILD = """bash -c 'echo $$ >"$0"; exec tail -f /dev/null' "$(dirname "$0")/../build/process"; true"""

    def assert_ended(self, build):
        process, end = int((build / "process").read_text(encoding="utf-8")), time.monotonic() + 30
        while time.monotonic() < end:
            try:
                os.kill(process, 0)
            except ProcessLookupError:
                return
        self.fail("the build goes on")

    def test_ends_with_the_script(self):
        result, build = self.run_script(self.BUILD, """trap stop_build EXIT
                                        start_build asan
                                        until [ -s "$project/build/process" ]; do :; done
                                        exit 4""")
        self.assertEqual(result.returncode, 4)
        self.assert_ended(build)

    def test_ends_with_a_script_that_is_told_to_while_it_waits(self):
        result, build = self.run_script(self.BUILD, """trap stop_build EXIT
                                        start_build asan
                                        (until [ -s "$project/build/process" ]; do :; done; kill $$) &
                                        finish_build""")
        self.assertIn(result.returncode, (-15, 143))
        self.assert_ended(build)


if __name__ == "__main__":
    unittest.main()
