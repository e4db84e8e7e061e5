"""Standard input and output of both programs that are closed, or full: nothing is lost without a word."""

import os
import signal
import subprocess
import unittest

import server_process
from server_process import Server

LOST = "standard output could not be written"


def run(program, *arguments, prepare=None, **streams):
    return subprocess.run([getattr(server_process.options, program), *map(str, arguments)], preexec_fn=prepare, stderr=subprocess.PIPE,
                          text=True, timeout=server_process.DEADLINE, **streams)


def started(test, **more):
    server = Server(**more)
    test.addCleanup(server.kill)
    return server.start()


class OutputTest(unittest.TestCase):
    def test_a_full_disk_is_a_failure(self):
        for program, argument in (("latentd", "--help"), ("latentd", "--version"), ("latentd", "--print-config"), ("latent", "--help"),
                                  ("latent", "--version")):
            with self.subTest(program=program, argument=argument), open("/dev/full", "w") as full:
                ended = run(program, argument, stdout=full)
                self.assertEqual(ended.returncode, 1)
                self.assertRegex(ended.stderr, rf"\A{program}: {LOST}(: No space left on device)?\n\Z")

    def test_an_answer_that_is_lost_is_a_failure(self):
        server = started(self)
        for command in ("health", "capabilities"):
            with open("/dev/full", "w") as full:
                ended = run("latent", command, "--server", server.address, stdout=full)
            self.assertEqual((ended.returncode, ended.stderr), (1, f"latent: {LOST}: No space left on device\n"))

    def test_an_error_keeps_its_own_exit_code(self):
        with open("/dev/full", "w") as full:
            self.assertEqual(run("latentd", "--colour=red", stdout=full).returncode, 2)

    def test_a_reader_that_has_enough_ends_it_without_a_word(self):
        for program in ("latentd", "latent"):
            read, write = os.pipe()
            os.close(read)
            with os.fdopen(write, "w") as unread:
                ended = run(program, "--help", stdout=unread)
            self.assertEqual((ended.returncode, ended.stderr), (-signal.SIGPIPE, ""))


class ClosedTest(unittest.TestCase):
    def test_output_that_is_closed_says_so(self):
        ended = run("latentd", "--version", prepare=lambda: os.close(1))
        self.assertEqual((ended.returncode, ended.stderr), (1, f"latentd: {LOST}: Bad file descriptor\n"))

    def test_input_that_is_closed_says_so(self):
        ended = run("latent", "generate", "-", prepare=lambda: os.close(0))
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("Bad file descriptor", ended.stderr)

    def test_no_file_of_the_server_takes_their_numbers(self):
        server = started(self, prepare=lambda: (os.close(0), os.close(1)))
        for number in (0, 1):
            self.assertEqual(os.readlink(f"/proc/{server.process.pid}/fd/{number}"), "/dev/null")


if __name__ == "__main__":
    unittest.main()
