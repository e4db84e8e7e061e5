"""The command-line client."""

import concurrent.futures
import fcntl
import json
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

import grpc
import png
import server_process
from server_process import Server

SMALL = ["--width=64", "--height=64", "--num-inference-steps=2"]


class Healthy(grpc.GenericRpcHandler):
    """Says SERVING to whatever is asked."""

    def service(self, handler_call_details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"\x08\x01")


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
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def latent(self, *arguments, server=None, said=None):
        """(exit code, standard output, standard error). `said`: bytes on standard input."""
        process = self.start(*arguments, server=server)
        output, error = process.communicate(said, timeout=server_process.DEADLINE)
        return process.returncode, output, error.decode()

    def generate(self, *arguments):
        return self.latent("generate", "a red circle on a blue background", *SMALL, *arguments)

    def test_the_default_name_has_the_seed_and_is_said(self):
        code, output, error = self.generate("--seed=7")
        self.assertEqual((code, output), (0, b"latent-7.png\n"), error)
        self.assertEqual(png.read((self.folder / "latent-7.png").read_bytes())[:2], (64, 64))
        self.assertIn("drawing 64x64\n", error)
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
        # With so many steps a preview comes before the image.
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

    def test_a_mask_to_draw_in(self):
        self.generate("--seed=1", "--output=first.png")
        (self.folder / "mask.png").write_bytes(png.write(64, 64, bytes(32 * 3) + b"\xff" * 32 * 3))
        common = ["generate", "a star", "--image=first.png", "--num-inference-steps=4", "--seed=2"]
        for arguments in (["--output=all.png"], ["--mask=mask.png", "--output=half.png"]):
            code, _, error = self.latent(*common, *arguments)
            self.assertEqual(code, 0, error)
        self.assertNotEqual((self.folder / "all.png").read_bytes(), (self.folder / "half.png").read_bytes())
        code, _, error = self.latent("generate", "a star", "--mask=mask.png", *SMALL)
        self.assertNotEqual(code, 0, error)
        self.assertIn("--mask", error)

    def test_latents_to_keep_and_to_start_from(self):
        self.assertEqual(self.generate("--seed=1", "--output=noise.safetensors")[0], 0)
        for seed in (2, 3):
            code, _, error = self.generate(f"--seed={seed}", "--latents=noise.safetensors", f"--output={seed}.webp")
            self.assertEqual(code, 0, error)
        self.assertEqual((self.folder / "2.webp").read_bytes(), (self.folder / "3.webp").read_bytes())

    def drawn(self, prompt):
        """The bytes of that prompt's picture with seed 7."""
        code, output, error = self.latent("generate", prompt, *SMALL, "-s7", "-o", "-")
        self.assertEqual(code, 0, error)
        return output

    def test_a_prompt_from_standard_input(self):
        for arguments in (["-"], ["--prompt-file=-"]):
            code, output, error = self.latent("generate", *arguments, *SMALL, "-s7", "-o", "-", said=b"a blue heart\n")
            self.assertEqual(code, 0, error)
            self.assertEqual(output, self.drawn("a blue heart"))
        for said, problem in ((b"", "no prompt"), (b"caf\xe9", "UTF-8")):
            code, _, error = self.latent("generate", "-", *SMALL, said=said)
            self.assertEqual(code, 2, error)
            self.assertIn(problem, error)
        code, _, error = self.latent("generate", "-", "--image=-", *SMALL, said=b"a star")
        self.assertEqual(code, 2, error)
        self.assertIn("once", error)

    def test_prompts_from_a_file(self):
        (self.folder / "prompts.txt").write_text("\ufeffa blue heart\r\n\na red star\n", newline="")
        lines = ["--prompt-file=prompts.txt", "--prompt-per-line"]
        code, output, error = self.latent("generate", *lines, *SMALL, "-s7", "-o", "both.png")
        self.assertEqual((code, output), (0, b"both-1.png\nboth-2.png\n"), error)
        self.assertIn("prompt 2 of 2: a red star\n", error)
        self.assertEqual((self.folder / "both-1.png").read_bytes(), self.drawn("a blue heart"))
        self.assertEqual((self.folder / "both-2.png").read_bytes(), self.drawn("a red star"))
        # Nothing is drawn where one could not be written.
        (self.folder / "both-1.png").unlink()
        code, output, error = self.latent("generate", *lines, *SMALL, "-o", "both.png")
        self.assertEqual((code, output), (2, b""), error)

    def test_several_prompts_and_pictures_go_into_a_folder(self):
        (self.folder / "pictures").mkdir()
        code, output, error = self.latent("generate", "a blue heart", "a red star", *SMALL, "-n2", "-s7", "-qo", "pictures")
        self.assertEqual(code, 0, error)
        self.assertEqual(output.decode().split(), [f"pictures/latent-7-{number}.png" for number in (1, 2, 3, 4)])
        self.assertEqual((self.folder / "pictures/latent-7-3.png").read_bytes(), self.drawn("a red star"))
        self.assertEqual(error, "")
        code, _, error = self.latent("generate", "a blue heart", "a red star", *SMALL, "-o", "none/")
        self.assertEqual(code, 2)
        self.assertIn("none: No such file or directory", error)

    def test_prompts_without_a_seed_get_one_each(self):
        code, output, error = self.latent("generate", "a star", "a star", *SMALL, "--quiet")
        self.assertEqual(code, 0, error)
        first, second = (self.folder / name for name in output.decode().split())
        self.assertRegex(first.name, r"^latent-\d+-1\.png$")
        self.assertNotEqual(first.read_bytes(), second.read_bytes())

    def test_prompts_end_at_the_first_that_fails(self):
        code, output, error = self.latent("generate", "a star", "x" * 70_000, "a heart", *SMALL, "-o", "a.png")
        self.assertEqual((code, output), (4, b"a-1.png\n"), error)
        self.assertIn("stopped at prompt 2 of 3", error)

    def test_words_without_quotes_are_warned_of(self):
        code, output, error = self.latent("generate", "red", "star", *SMALL, "-qo", "star.png")
        self.assertEqual((code, output), (0, b"star-1.png\nstar-2.png\n"), error)
        self.assertIn("quotes", error)

    def test_json(self):
        code, output, error = self.latent("generate", "a red star", "a blue heart", *SMALL, "-n2", "-s7", "--json",
                                          "-o", 'a "b".png')
        self.assertEqual(code, 0, error)
        first, second = (json.loads(line) for line in output.splitlines())
        self.assertEqual([image["file"] for image in first["images"]], ['a "b"-1.png', 'a "b"-2.png'])
        self.assertEqual([image["seed"] for image in second["images"]], ["7", "8"])  # protobuf's mapping of uint64
        self.assertEqual(second["images"][0]["size"], {"width": 64, "height": 64})
        self.assertNotIn("data", second["images"][0])
        self.assertEqual(second["completed"]["parameters"]["prompt"], "a blue heart")
        self.assertTrue((self.folder / 'a "b"-4.png').exists())
        self.assertIn("drawing", error)
        code, _, error = self.generate("--json", "--output=-")
        self.assertEqual(code, 2, error)
        code, output, _ = self.latent("health", "--json")
        self.assertEqual((code, json.loads(output)), (0, {"status": "SERVING"}))

    def test_other_tools_names_lead_to_ours(self):
        for typed, meant in ((["--steps", "30"], "--num-inference-steps"), (["--size=64x64"], "--width and --height"),
                             (["--negative", "x"], "--negative-prompt"), (["-W", "64"], "--width"),
                             (["--format=jpgg"], "jpeg"), (["-output", "x.png"], "--output")):
            code, _, error = self.generate(*typed)
            self.assertEqual(code, 2, error)
            self.assertIn(f"did you mean {meant}", error)
        for typed, meant in ((["genrate", "a star"], "generate"), (["graphs", "lst"], "list"),
                             (["graphs", "warm", "64x64"], "--bucket 64x64"), (["-v"], "--version"),
                             (["a red star"], "latent generate 'a red star'")):
            code, _, error = self.latent(*typed)
            self.assertEqual(code, 2, error)
            self.assertIn(f"did you mean {meant}", error)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_url_is_no_address(self):
        for command in (["generate", "a star"], ["health", "--wait=60"], ["status"]):
            code, _, error = self.latent(*command, server=f"http://{self.server.address}")
            self.assertEqual(code, 2, error)
            self.assertIn(f"leave http:// out: --server {self.server.address}", error)
        code, _, error = self.latent("health", server=f"https://{self.server.address}")
        self.assertIn("add --tls", error)
        process = subprocess.run([server_process.options.latent, "status"], capture_output=True, text=True,
                                 env={**os.environ, "LATENT_ADMIN": "http://localhost:1"}, timeout=server_process.DEADLINE)
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertIn("$LATENT_ADMIN", process.stderr)

    def test_a_refused_size_says_what_else_may_be_done(self):
        code, _, error = self.latent("generate", "a star", "--width=72", "--height=72")
        self.assertEqual(code, 4)
        self.assertIn("--width, --height: 72x72 is not one of 256x256, 64x64", error)
        self.assertIn("--bucket-policy snap", error)
        self.assertIn("--allow-cold-requests", error)
        code, _, error = self.latent("generate", "a star", "--width=72", "--height=72", "--bucket-policy=cold_ok")
        self.assertEqual(code, 4)
        self.assertIn("--allow-cold-requests", error)

    def test_wrong_options(self):
        for arguments in (["--seed=1", "--seed=2"], ["--colour=red"], ["--width=wide"], ["-", "-"], ["--output=star.doc"],
                          ["--image=missing.png"], ["--output=-", "--num-images-per-prompt=2"], ["--prompt-file=x"],
                          ["--prompt-per-line"], ["-n"], ["--timeout=soon"]):
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
                self.assertIn(f"nothing listens at {address}: start a server with `latentd`", error)
                self.assertNotIn("trying again", error)
        code, _, error = self.latent("generate", "a star", server=f"unix:{self.folder}/none")
        self.assertEqual(code, 3, error)
        self.assertIn("nothing listens at unix:", error)

    def test_it_waits_for_a_server_by_connecting_anew(self):
        """By itself, gRPC would look for the server again when it looks the name up again, which it does once in 30 s."""
        with socket.socket() as nothing_yet:
            nothing_yet.bind(("127.0.0.1", 0))
            port = nothing_yet.getsockname()[1]
            waiting = self.start("health", "--wait=20s", server=f"localhost:{port}")
            for _ in range(3):  # while that one asks in vain
                self.assertEqual(self.latent("health", server=f"localhost:{port}")[0], 3)
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(1), handlers=[Healthy()])
        self.assertEqual(server.add_insecure_port(f"127.0.0.1:{port}"), port)
        server.start()
        self.addCleanup(server.stop, None)
        output, error = waiting.communicate(timeout=server_process.DEADLINE)
        self.assertEqual((waiting.returncode, output), (0, b"SERVING\n"), error)

    def test_control_c_cancels(self):
        process = self.start("generate", "a star", "--num-inference-steps=150", "--num-images-per-prompt=16",
                             "--request-id=interrupted")
        for line in process.stderr:
            if b"drawing " in line:
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=server_process.DEADLINE)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.server.request_line("interrupted")["code"], "CANCELLED")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_timeout(self):
        code, _, error = self.latent("generate", "a star", "--num-inference-steps=150", "--num-images-per-prompt=16",
                                     "--timeout=0.5")
        self.assertEqual(code, 1)
        self.assertIn("in time", error)

    def seen_on_a_terminal(self, columns, *arguments):
        """The output of a generation to a terminal of so many columns."""
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

    def test_a_prompt_is_encoded_and_drawn_from_what_it_is(self):
        code, output, error = self.latent("encode", "a red star", "--negative-prompt=blue", "-o", "star.safetensors")
        self.assertEqual((code, output), (0, b"star.safetensors\n"), error)
        embeds = ["--prompt-embeds=star.safetensors", "--negative-prompt-embeds=star.safetensors"]
        pictures = []
        for words in (["a red star", "--negative-prompt=blue"], embeds, embeds[:1]):
            code, output, error = self.latent("generate", *words, *SMALL, "-s7", "-o", "-")
            self.assertEqual(code, 0, error)
            pictures.append(png.read(output)[2])
        self.assertEqual(pictures[0], pictures[1])
        self.assertNotEqual(pictures[0], pictures[2])
        code, _, error = self.latent("encode", "a red star", "-o", "star.safetensors")
        self.assertEqual(code, 2)
        self.assertIn("star.safetensors", error)
        code, output, _ = self.latent("encode", "a red star", "-o", "-", "--dtype=bfloat16")
        self.assertIn(b'"BF16"', output)
        code, _, error = self.latent("generate", "a blue heart", *embeds, *SMALL)
        self.assertEqual(code, 4)
        self.assertIn("--prompt-embeds", error)
        for wrong in (["a", "star"], [], ["a star"], ["a star", "--prompt-embeds=x"]):
            self.assertEqual(self.latent("encode", *wrong)[0], 2, wrong)

    def test_capabilities_and_health(self):
        code, output, _ = self.latent("capabilities")
        self.assertEqual(code, 0)
        self.assertIn(b"64 to 2048", output)
        self.assertEqual(self.latent("health")[:2], (0, b"SERVING\n"))
        self.assertEqual(self.latent("health", "--service=nothing")[0], 4)

    def test_help(self):
        for command in ([], ["generate"], ["encode"], ["compare"], ["capabilities"], ["health"], ["graphs", "list"], ["completion"]):
            code, output, _ = self.latent(*command, "--help")
            self.assertEqual(code, 0)
            self.assertIn(b"latent", output)
            asked = subprocess.run([server_process.options.latent, "help", *command], capture_output=True,
                                   timeout=server_process.DEADLINE)
            self.assertEqual((asked.returncode, asked.stdout), (0, output))
        self.assertEqual(self.latent("paint")[0], 2)
        self.assertEqual(self.latent()[0], 2)

    def test_help_has_every_command(self):
        completion = subprocess.run([server_process.options.latent, "completion", "fish"], capture_output=True, text=True,
                                    check=True, timeout=server_process.DEADLINE).stdout
        commands = re.findall(r"-n __fish_use_subcommand -a (\w+)", completion)
        self.assertIn("generate", commands)
        _, output, _ = self.latent("--help")
        self.assertEqual(set(re.findall(r"^  latent (\w+)", output.decode(), re.MULTILINE)), set(commands))


class CompletionTest(unittest.TestCase):
    """The words that bash offers behind typed ones, the last of them unfinished."""

    def offered(self, *words):
        script = ('source <("$1" completion bash); shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _latent; '
                  'printf "%s\n" "${COMPREPLY[@]}"')
        run = subprocess.run(["bash", "-c", script, "bash", server_process.options.latent, "latent", *words],
                             capture_output=True, text=True, check=True, timeout=server_process.DEADLINE)
        return set(run.stdout.split())

    def test_bash(self):
        self.assertEqual(self.offered("ge"), {"generate"})
        self.assertEqual(self.offered("generate", "a star", "--num-i"), {"--num-inference-steps", "--num-images-per-prompt"})
        self.assertEqual(self.offered("generate", "--bucket-policy", "s"), {"snap"})
        self.assertEqual(self.offered("generate", "--bucket-policy", "=", "s"), {"snap"})
        self.assertEqual(self.offered("graphs", "li"), {"list"})
        self.assertEqual(self.offered("graphs", "evict", "--ti"), {"--tier"})
        self.assertEqual(self.offered("graphs", "evict", "--tier", ""), {"memory", "disk", "both"})
        self.assertNotIn("--tier", self.offered("graphs", "list", "--"))
        self.assertEqual(self.offered("completion", ""), {"bash", "zsh", "fish", "--help"})
        self.assertEqual(self.offered("generate", "--seed", ""), set())
        for command in ("generate", "encode", "capabilities", "health"):
            self.assertEqual(self.offered(command, "--api-k"), {"--api-key-file"})


if __name__ == "__main__":
    unittest.main()
