"""The command-line client."""

import fcntl
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import unittest

import png
import server_process
from server_process import Server

SMALL = ["--width=64", "--height=64", "--num-inference-steps=2"]


class LatentTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(buckets="64x64,256x256").start()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.log()
        cls.server.kill()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *arguments, server=None):
        return subprocess.Popen(
            [server_process.options.latent, *arguments, f"--server={server or self.server.address}"], cwd=self.folder,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def latent(self, *arguments, server=None):
        """(exit code, standard output, standard error)."""
        process = self.start(*arguments, server=server)
        output, error = process.communicate(timeout=server_process.DEADLINE)
        return process.returncode, output, error.decode()

    def generate(self, *arguments):
        return self.latent("generate", "a red circle on a blue background", *SMALL, *arguments)

    def test_the_default_name_has_the_seed_and_is_said(self):
        code, output, error = self.generate("--seed=7")
        self.assertEqual((code, output), (0, b"latent-7.png\n"), error)
        self.assertEqual(png.read((self.folder / "latent-7.png").read_bytes())[:2], (64, 64))
        self.assertRegex(error, "(base|decoding) 2/2")  # of two that wait to be sent the newer one is
        self.assertNotIn("\033", error)

    def test_a_random_seed_is_said(self):
        code, output, _ = self.generate("--quiet")
        self.assertEqual(code, 0)
        name = output.decode().strip()
        seed = name.removeprefix("latent-").removesuffix(".png")
        self.generate(f"--seed={seed}", "--output=again.png")
        self.assertEqual((self.folder / name).read_bytes(), (self.folder / "again.png").read_bytes())

    def test_several_pictures_are_numbered(self):
        code, output, _ = self.generate("--seed=7", "--num-images-per-prompt=2", "--output=star.jpg")
        self.assertEqual((code, output), (0, b"star-1.jpg\nstar-2.jpg\n"))
        self.assertTrue((self.folder / "star-2.jpg").read_bytes().startswith(b"\xff\xd8\xff"))

    def test_previews_are_beside_the_picture(self):
        # Of so many steps a preview comes before the picture.
        asked = ("generate", "a star", "--width=64", "--height=64", "--previews=1", "--num-inference-steps=40")
        code, output, error = self.latent(*asked, "--seed=7", "--output=star.png")
        self.assertEqual((code, output), (0, b"star.png\n"), error)
        self.assertIn("previews: star.preview.jpg\n", error)
        self.assertTrue((self.folder / "star.preview.jpg").read_bytes().startswith(b"\xff\xd8\xff"))
        # Without a name it is known before the picture.
        code, output, error = self.latent(*asked)
        self.assertEqual(code, 0, error)
        self.assertTrue((self.folder / output.decode().strip().replace(".png", ".preview.jpg")).exists(), error)
        self.assertEqual(self.generate("--previews=1", "--output=-")[0], 2)

    def test_standard_output(self):
        code, output, _ = self.generate("--output=-")
        self.assertEqual(code, 0)
        self.assertEqual(png.read(output)[:2], (64, 64))

    def test_nothing_is_overwritten_unasked(self):
        file = self.folder / "mine.png"
        file.write_text("mine")
        code, _, error = self.generate("--output=mine.png")
        self.assertEqual((code, file.read_text()), (2, "mine"))
        self.assertIn("--force", error)
        self.assertEqual(self.generate("--output=mine.png", "--force")[0], 0)
        self.assertTrue(file.read_bytes().startswith(b"\x89PNG"))

    def test_a_picture_to_start_from(self):
        self.generate("--seed=1", "--output=first.png")
        code, _, error = self.latent("generate", "a star", "--image=first.png", "--strength=0.5",
                                     "--num-inference-steps=4", "--output=second.png")
        self.assertEqual(code, 0, error)
        self.assertNotEqual((self.folder / "first.png").read_bytes(), (self.folder / "second.png").read_bytes())

    def test_latents_to_keep_and_to_start_from(self):
        self.assertEqual(self.generate("--seed=1", "--output=noise.safetensors")[0], 0)
        for seed in (2, 3):
            code, _, error = self.generate(f"--seed={seed}", "--latents=noise.safetensors", f"--output={seed}.webp")
            self.assertEqual(code, 0, error)
        self.assertEqual((self.folder / "2.webp").read_bytes(), (self.folder / "3.webp").read_bytes())

    def test_wrong_options(self):
        for arguments in (["--seed=1", "--seed=2"], ["--colour=red"], ["--width=wide"], ["another prompt"], ["--output=star.doc"],
                          ["--image=missing.png"], ["--output=-", "--num-images-per-prompt=2"]):
            code, _, error = self.generate(*arguments)
            self.assertEqual(code, 2, arguments)
            self.assertIn("--help", error)

    def test_refusals_name_the_options(self):
        code, _, error = self.latent("generate", "a star", "--width=7", "--guidance-scale=nan", "--scheduler=magic")
        self.assertEqual(code, 4)
        for name in ("--width", "--guidance-scale", "--scheduler"):
            self.assertIn(name, error)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_refusals_speak_of_options_and_not_of_fields(self):
        code, _, error = self.generate("--timesteps=900,500", "--sigmas=3,1")
        self.assertEqual(code, 4)
        self.assertIn("--num-inference-steps", error)
        self.assertNotIn("num_inference_steps", error)

    def test_a_port_that_cannot_be_is_refused(self):
        for address in ("127.0.0.1:99999", "127.0.0.1:0", "127.0.0.1", "unix:"):
            for command in (["generate", "a star"], ["health"], ["graphs", "list"]):
                code, _, error = self.latent(*command, server=address)
                self.assertEqual(code, 2, error)
                self.assertIn("--server", error)

    def test_text_that_is_not_utf8(self):
        code, _, error = self.latent("generate", b"a \xff star", *SMALL)
        self.assertEqual(code, 4)
        self.assertIn("PROMPT", error)

    def test_nobody_there(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{unused.getsockname()[1]}"
            for command in (["generate", "a star"], ["capabilities"], ["health"], ["health", "--wait=1s"]):
                code, _, error = self.latent(*command, server=address)
                self.assertEqual(code, 3, command)
                self.assertIn(address, error)

    def test_control_c_cancels(self):
        process = self.start("generate", "a star", "--num-inference-steps=150", "--num-images-per-prompt=16",
                             "--request-id=interrupted")
        for line in process.stderr:
            if b"base " in line:
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=server_process.DEADLINE)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.server.request_line("interrupted")["code"], "CANCELLED")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_timeout(self):
        code, _, error = self.latent("generate", "a star", "--num-inference-steps=150", "--num-images-per-prompt=16",
                                     "--timeout=500ms")
        self.assertEqual(code, 1)
        self.assertIn("in time", error)

    def seen_on_a_terminal(self, columns, *arguments):
        """What a generation writes to a terminal of so many columns."""
        terminal, other_end = os.openpty()
        fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(
            [server_process.options.latent, "generate", "a star", *SMALL, f"--server={self.server.address}", *arguments],
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=other_end)
        os.close(other_end)
        seen = b""
        try:
            while chunk := os.read(terminal, 4096):
                seen += chunk
        except OSError:  # the other end is closed
            pass
        os.close(terminal)
        self.assertEqual(process.wait(server_process.DEADLINE), 0)
        return seen.decode()

    def test_a_bar_on_a_terminal(self):
        self.assertIn("2/2 [=====", self.seen_on_a_terminal(80))

    def test_the_bar_fits_a_narrow_terminal(self):
        for columns in (20, 30, 40):
            with self.subTest(columns=columns):
                seen = self.seen_on_a_terminal(columns, "--num-images-per-prompt=2")
                self.assertIn("2/2", seen)
                drawn = [line for line in re.split(r"\r\n|\r\x1b\[K", seen) if "/2" in line]
                self.assertTrue(drawn)
                for line in drawn:
                    self.assertLess(len(line), columns, line)

    def test_capabilities_and_health(self):
        code, output, _ = self.latent("capabilities")
        self.assertEqual(code, 0)
        self.assertIn(b"64 to 2048", output)
        self.assertEqual(self.latent("health")[:2], (0, b"SERVING\n"))
        self.assertEqual(self.latent("health", "--service=nothing")[0], 4)

    def test_help(self):
        for command in ([], ["generate"], ["capabilities"], ["health"]):
            code, output, _ = self.latent(*command, "--help")
            self.assertEqual(code, 0)
            self.assertIn(b"latent", output)
        self.assertEqual(self.latent("paint")[0], 2)


if __name__ == "__main__":
    unittest.main()
