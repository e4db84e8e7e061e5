"""SIGTERM, SIGINT and SIGHUP end both programs at once while a file, a pipe or a socket keeps them waiting."""

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import unittest

import server_process
from server_process import SMALL_BUCKETS, Api, Server, checkpoint, wait_until

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def default_signals():
    """In a new process: as a shell's foreground job has them."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


class SignalTestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.new_pipe()

    def start(self, program, *arguments, **streams):
        process = subprocess.Popen([getattr(server_process.options, program), *map(str, arguments)], cwd=self.folder,
                                   preexec_fn=default_signals, stderr=subprocess.PIPE, **streams)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def new_pipe(self):
        self.pipe = self.folder / f"pipe-{len(list(self.folder.iterdir()))}"
        os.mkfifo(self.pipe)
        return self.pipe

    def wait_for_reader(self, process):
        """Opens the pipe for writing, and returns when the process has read what is in it and waits for more."""
        ends = []

        def opened():
            self.assertIsNone(process.poll(), "ended without reading the pipe")
            try:
                ends.append(os.open(self.pipe, os.O_WRONLY | os.O_NONBLOCK))
            except OSError as error:
                self.assertEqual(error.errno, errno.ENXIO)  # there is no reader yet
            return ends

        def drained():
            self.assertIsNone(process.poll(), "ended while reading the pipe")
            return struct.unpack("i", fcntl.ioctl(ends[0], termios.FIONREAD, bytes(4))) == (0,)

        wait_until(opened, "nobody reads the pipe")
        self.addCleanup(os.close, ends[0])
        os.write(ends[0], b"\n")
        wait_until(drained, "nobody reads the pipe")

    def assert_ended_by(self, number, process):
        process.send_signal(number)
        # By the signal itself, or with the exit code that a shell makes of that.
        self.assertIn(process.wait(server_process.DEADLINE), (-number, 128 + number))


class LatentdTest(SignalTestCase):
    def test_while_it_waits_for_its_configuration(self):
        for number in SIGNALS:
            with self.subTest(signal=number):
                process = self.start("latentd", f"--config={self.new_pipe()}")
                self.wait_for_reader(process)
                self.assert_ended_by(number, process)

    def test_while_it_waits_for_another_process(self):
        # A listener at the socket takes no connection, and its queue is full.
        path = str(self.folder / "socket")
        with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as clients:
            listener.bind(path)
            listener.listen(0)
            waiting = clients.enter_context(socket.socket(socket.AF_UNIX))
            waiting.connect(path)
            for number in SIGNALS:
                with self.subTest(signal=number):
                    process = self.start("latentd", f"--listen=unix:{path}", f"--base={checkpoint() / 'base'}",
                                         f"--buckets={SMALL_BUCKETS}", "--cache-dir=", "--log-format=json")

                    def is_connecting():
                        self.assertIsNone(process.poll(), "ended without looking whether the socket is free")
                        return self.is_connecting(process)

                    wait_until(is_connecting, "latentd does not look whether the socket is free")
                    self.assert_ended_by(number, process)
                    self.assertIn(signal.Signals(number).name.encode(), process.stderr.read().splitlines()[-1])

    @staticmethod
    def is_connecting(process):
        """True if a thread of the process waits in connect()."""
        with contextlib.suppress(FileNotFoundError):
            for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
                with contextlib.suppress(FileNotFoundError):
                    if (task / "wchan").read_text() == "unix_wait_for_peer":
                        return True
                    if (task / "syscall").read_text().split()[0] == "42":  # x86-64's number
                        return True
        return False

    def test_files_that_are_read_again_must_be_files(self):
        base = self.folder / "base"
        base.mkdir()
        (base / "model_index.json").symlink_to(self.pipe)
        for arguments in ([f"--tls-cert={self.pipe}", f"--tls-key={self.pipe}"], [f"--base={base}"]):
            process = self.start("latentd", "--listen=127.0.0.1:0", "--cache-dir=", *arguments)
            self.assertIn(process.wait(server_process.DEADLINE), (1, 2))
            self.assertIn(b"is not a regular file", process.stderr.read())

    def started(self, *arguments):
        server = Server(*arguments, prepare=default_signals)
        self.addCleanup(server.kill)
        return server.start()

    def assert_last_line(self, server, message, cause):
        last = json.loads(server.lines[-1])
        self.assertEqual((last["message"], last.get("cause")), (message, cause))

    def test_the_last_line_of_the_log_says_why_it_ended(self):
        for number in SIGNALS:
            server = self.started()
            server.signal(number)
            self.assertEqual(server.wait(), 0)
            self.assert_last_line(server, "stopped", signal.Signals(number).name)
        server = self.started()
        Api(server.address).call("Admin", "Drain")
        self.assertEqual(server.wait(), 0)
        self.assert_last_line(server, "stopped", "Admin/Drain")

    def test_a_terminal_that_closes_ends_none_that_was_started_to_ignore_it(self):
        def as_nohup():
            default_signals()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

        server = Server(prepare=as_nohup)
        self.addCleanup(server.kill)
        server.start()
        server.signal(signal.SIGHUP)
        server.signal(signal.SIGTERM)
        self.assertEqual(server.wait(), 0)
        self.assert_last_line(server, "stopped", "SIGTERM")

    def test_the_last_line_of_the_log_names_the_second_signal(self):
        server = self.started("--drain-timeout=100s")
        api = Api(server.address)
        running = api.stream(api.request(num_inference_steps=150, num_images_per_prompt=16))
        next(running)
        server.signal(signal.SIGTERM)
        server.wait_for_log(lambda entry: entry["message"] == "stopping" and entry["cause"] == "SIGTERM")
        server.signal(signal.SIGINT)
        self.assertEqual(server.wait(), 130)
        self.assert_last_line(server, "ended at once", "SIGINT")

    def test_a_configuration_may_come_through_a_pipe(self):
        process = self.start("latentd", f"--config={self.pipe}", "--print-config", stdout=subprocess.PIPE)
        self.pipe.write_text("queue_capacity: 7\n")
        self.assertIn(b"queue_capacity: 7", process.communicate(timeout=server_process.DEADLINE)[0])


class FirstProcessTest(SignalTestCase):
    """As a container has it: the kernel drops signals that the first process has no handler for."""

    def start_first(self, program, *arguments, **streams):
        """The process that starts it, and its own id."""
        enter = ["unshare", "--pid", "--fork", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
        if subprocess.run([*enter, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("this process may make no namespaces")
        process = subprocess.Popen([*enter, "--kill-child", getattr(server_process.options, program),
                                    *map(str, arguments)], cwd=self.folder, preexec_fn=default_signals, **streams)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(children.read_text, "the program does not start")
        return process, int(children.read_text().split()[0])

    def assert_ends_while_it_reads(self, program, *arguments):
        for number in SIGNALS:
            with self.subTest(signal=number):
                process, first = self.start_first(program, *arguments, self.new_pipe())
                self.wait_for_reader(process)
                os.kill(first, number)
                self.assertEqual(process.wait(server_process.DEADLINE), 128 + number)

    def test_latentd_while_it_waits_for_its_configuration(self):
        self.assert_ends_while_it_reads("latentd", "--config")

    def test_latent_while_it_waits_for_a_file(self):
        self.assert_ends_while_it_reads("latent", "graphs", "import")

    def test_latentd_while_nobody_reads_its_log(self):
        reading, log = os.pipe()
        self.addCleanup(os.close, reading)
        process, first = self.start_first("latentd", "--listen=127.0.0.1:0", f"--base={checkpoint() / 'base'}",
                                          f"--buckets={SMALL_BUCKETS}", "--cache-dir=", "--drain-timeout=100s", stderr=log)
        text = b""
        while b"ready" not in text:
            text += os.read(reading, 1 << 16)
        os.set_blocking(log, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(log, b"x")
        os.set_blocking(log, True)
        os.close(log)
        os.kill(first, signal.SIGTERM)
        os.kill(first, signal.SIGINT)
        self.assertIn(process.wait(server_process.DEADLINE), (128 + signal.SIGINT, 128 + signal.SIGTERM))


class LatentTest(SignalTestCase):
    def test_while_it_waits_for_a_file(self):
        for arguments in (["generate", "a star", "--image"], ["capabilities", "--tls-ca"], ["health", "--tls-cert"],
                          ["status", "--tls-key"], ["graphs", "import"]):
            for number in SIGNALS:
                with self.subTest(arguments=arguments, signal=number):
                    process = self.start("latent", *arguments, self.new_pipe())
                    self.wait_for_reader(process)
                    self.assert_ended_by(number, process)

    def test_while_it_waits_for_its_standard_input(self):
        for arguments in (["generate", "a star", "--image", "-"], ["graphs", "import", "-"]):
            for number in SIGNALS:
                with self.subTest(arguments=arguments, signal=number):
                    reading = os.open(self.new_pipe(), os.O_RDONLY | os.O_NONBLOCK)
                    os.set_blocking(reading, True)
                    process = self.start("latent", *arguments, stdin=reading)
                    os.close(reading)
                    self.wait_for_reader(process)
                    self.assert_ended_by(number, process)

    def test_while_nobody_reads_its_pictures(self):
        server = Server()
        self.addCleanup(server.kill)
        server.start()
        for number in SIGNALS:
            with self.subTest(signal=number):
                process = self.start("latent", "generate", "a star", "--width=64", "--height=64",
                                     "--num-inference-steps=1", f"--server={server.address}", "--output", self.new_pipe(),
                                     "--format=png", f"--request-id=unread-{number.value}")
                self.assertEqual(server.request_line(f"unread-{number.value}")["code"], "OK")
                process.send_signal(number)
                self.assertEqual(process.wait(server_process.DEADLINE), 130)

    def test_a_picture_may_come_through_a_pipe(self):
        server = Server()
        self.addCleanup(server.kill)
        server.start()
        common = ["--server", server.address, "--num-inference-steps=2", "--strength=0.5"]
        drawn = self.start("latent", "generate", "a star", "--width=64", "--height=64", *common[:3], "--output=first.png")
        self.assertEqual(drawn.wait(server_process.DEADLINE), 0)
        picture = (self.folder / "first.png").read_bytes()
        outputs = []
        for image, data in ((self.pipe, None), ("-", picture), (self.folder / "first.png", None)):
            process = self.start("latent", "generate", "a star", "--image", image, "--seed=1", "--output=-", *common,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            if image == self.pipe:
                self.pipe.write_bytes(picture)
            outputs.append(process.communicate(data, timeout=server_process.DEADLINE)[0])
            self.assertEqual(process.returncode, 0)
        self.assertTrue(outputs[0].startswith(b"\x89PNG"))
        self.assertEqual(outputs[0], outputs[1])
        self.assertEqual(outputs[0], outputs[2])


if __name__ == "__main__":
    unittest.main()
