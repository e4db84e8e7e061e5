"""Parameters that have no effect and pictures that are damaged are warned of, by both methods and by `latent generate`."""

import pathlib
import subprocess
import tempfile
import unittest

import png
import server_process
from server_process import Api, Server


class WarningsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server().start()
        cls.api = Api(cls.server.address)

    @classmethod
    def tearDownClass(cls):
        cls.api.close()
        cls.server.kill()

    def warnings(self, **fields):
        """The warnings of both methods, which are the same."""
        request = self.api.request(**fields)
        unary = self.api.generate(request).completed
        streamed = list(self.api.stream(request))[-1].completed
        self.assertEqual(list(unary.warnings), list(streamed.warnings))
        return list(unary.warnings)

    def test_each_names_its_parameter_and_why(self):
        """Guard: kRules in core/pipeline/spec/unused_parameters.cc, and UnusedParameters in LocalEngine::TrySubmit."""
        cases = [
            ({"aesthetic_score": 7}, "aesthetic_score has no effect: only a refiner reads it"),
            ({"guidance_scale": 1, "guidance_rescale": 0.7}, "guidance_rescale has no effect: it needs a guidance_scale"),
            ({"guidance_scale": 1, "guidance_interval": {"stop": 0.5}},
             "guidance_interval has no effect: it needs a guidance_scale"),
            ({"guidance_scale": 1, "guidance_stop": "GUIDANCE_STOP_AUTO"},
             "guidance_stop has no effect: it needs a guidance_scale"),
            ({"guidance_scale": 1, "effort": "EFFORT_HIGH"}, "effort has no effect: there is no guidance"),
            ({"effort": "EFFORT_FAST"}, "effort fast stands for feature_cache_interval 3, for which this server has no graphs"),
            ({"guidance_interval": {"start": 0.5, "stop": 0.51}}, "guidance_scale has no effect: guidance_interval has none"),
            ({"guidance_scale": 1, "negative_prompt": "blue"}, "negative_prompt has no effect: it needs a guidance_scale"),
            ({"negative_prompt_2": "blue"}, "negative_prompt_2 has no effect: this checkpoint takes zeros"),
            ({"negative_original_size": {"width": 9, "height": 9}}, "negative_original_size has no effect: text-to-image"),
        ]
        for fields, warning in cases:
            with self.subTest(warning=warning):
                found = self.warnings(**fields)
                self.assertEqual(len(found), 1, found)
                self.assertTrue(found[0].startswith(warning), found)

    def test_defaults_give_none(self):
        """Also as the answer's `parameters` spell them out."""
        self.assertEqual(self.warnings(), [])
        used = self.api.generate(self.api.request()).completed.parameters
        self.assertEqual(list(self.api.generate(used).completed.warnings), [])

    def test_eta_is_warned_of_but_for_ddim(self):
        self.assertTrue(self.warnings(eta=0.5)[0].startswith("eta has no effect: only the schedulers ddim"))
        self.assertEqual(self.warnings(eta=0.5, scheduler="ddim"), [])

    def test_a_damaged_picture_is_read_and_warned_of(self):
        """Guard: image_warnings in PictureLoop."""
        whole = png.write(64, 64, bytes(64 * 3))
        fields = {"strength": 1, "num_inference_steps": 1}
        self.assertEqual(self.warnings(image=whole, **fields), [])
        found = self.warnings(image=whole[:-12], **fields)
        self.assertEqual(found, ["image: the PNG: it has no end (IEND) behind its pixels"])

    def generate(self, prompt, *arguments):
        """The lines that `latent generate --quiet` writes on standard error."""
        with tempfile.TemporaryDirectory() as folder:
            command = [server_process.options.latent, "generate", prompt, *arguments, "--width=64", "--height=64",
                       "--num-inference-steps=2", "--quiet", f"--server={self.server.address}",
                       f"--output={pathlib.Path(folder) / 'picture.png'}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=server_process.DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr.splitlines()

    def test_latent_prints_them(self):
        """Guard: Summarize in client/commands/generate_command.cc."""
        self.assertEqual(self.generate("a red circle"), [])
        lines = self.generate("a red circle", "--guidance-scale=1", "--negative-prompt=blue")
        self.assertEqual(lines, ["warning: --negative-prompt has no effect: it needs a --guidance-scale above 1"])

    def test_latent_says_once_that_a_prompt_was_cut(self):
        lines = self.generate("star " * 100)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("tokens were not read", lines[0])


if __name__ == "__main__":
    unittest.main()
