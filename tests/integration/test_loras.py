"""LoRAs merged into models (--lora, and lora= behind --model), over the API and `latent capabilities`."""

import pathlib
import shutil
import unittest

from metrics import compilations
from server_process import Server, checkpoint, wait_until
from test_checkpoint_edits import DEGRADED, edit
from test_graphs import GraphsTestCase, latent

LORAS = pathlib.Path(__file__).resolve().parents[1] / "golden/loras"
KOHYA, DIFFUSERS = LORAS / "kohya.safetensors", LORAS / "diffusers.safetensors"


class LorasTest(GraphsTestCase):
    def assert_fails(self, *arguments, named):
        server = Server(*arguments)
        self.addCleanup(server.kill)
        self.assertNotEqual(server.wait(), 0)
        for text in named:
            self.assertIn(str(text), server.log())

    def test_a_model_with_a_lora_draws_another_picture_and_compiles_nothing(self):
        """Guard: ApplyLoras in LoadedModel::Load."""
        _, api = self.start()
        base = self.draw(api)
        server, api = self.start(f"--model=film={checkpoint() / 'base'},lora={KOHYA}:0.8")
        film = self.draw(api, model="film")
        self.assertNotEqual(film, base)
        self.assertEqual(self.draw(api), base)
        self.assertEqual(self.draw(api, model="film"), film)
        self.assertEqual(compilations(server), 0)  # the first server's are in the cache

    def test_of_the_base_in_any_order(self):
        base = self.base()
        arguments = [f"--lora={KOHYA}:0.8:0.5", f"--lora={DIFFUSERS}:-0.5"]
        server, api = self.start(*base, *arguments, demo=False)
        both = self.draw(api)
        loras = api.capabilities().models[0].loras
        self.assertEqual([(lora.name, lora.unet_weight, lora.text_encoder_weight) for lora in loras],
                         [("kohya", 0.8, 0.5), ("diffusers", -0.5, -0.5)])
        self.assertEqual(loras[0].trigger_phrase, "film style")
        code, output, _ = latent(server, "capabilities")
        self.assertEqual(code, 0)
        self.assertRegex(output, r"LoRA kohya, weight 0.8 \(text encoders 0.5\), for sdxl_base_v1-0; .*: film style")
        self.assertIn("LoRA diffusers, weight -0.5", output)
        self.assertIn("film style", server.log())
        _, api = self.start(*base, *reversed(arguments), demo=False)
        self.assertEqual(self.draw(api), both)
        _, api = self.start(*base, *arguments[:1], demo=False)
        self.assertNotEqual(self.draw(api), both)
        _, api = self.start(*base, demo=False)
        plain = self.draw(api)
        _, api = self.start(*base, f"--lora={KOHYA}:0", demo=False)
        self.assertEqual(self.draw(api), plain)

    def base(self):
        return [f"--base={checkpoint() / 'base'}"]

    def test_a_file_that_does_not_fit_is_refused_with_its_keys(self):
        missing = self.folder / "nothing.safetensors"
        self.assert_fails(*self.base(), f"--lora={missing}", named=["--lora", missing])
        wrong = self.folder / "wrong.safetensors"
        key = b"lora_unet_mid_block_attentions_0_proj_in."
        wrong.write_bytes(KOHYA.read_bytes().replace(key, key.replace(b"proj_in", b"proj_xx")))
        self.assert_fails(*self.base(), f"--lora={wrong}", named=["--lora", wrong, "proj_xx"])
        self.assert_fails(f"--model=film={checkpoint() / 'base'},lora={wrong}",
                          named=["--model=film,lora", wrong, "proj_xx"])

    def test_a_file_that_is_edited_is_noticed(self):
        """Guard: StoredTensor::origin of what a LoRA's file has."""
        lora = self.folder / "film.safetensors"
        shutil.copyfile(KOHYA, lora)
        server, api = self.start(*self.base(), f"--lora={lora}", demo=False)
        self.draw(api)
        edit(lora)
        wait_until(lambda: api.call("Admin", "GetServerStatus").state == DEGRADED, "it is not degraded")
        said = f"{lora} was changed while it is in use"
        self.assertIn(said, api.call("Admin", "GetServerStatus").reason)
        results = api.call("GraphCache", "WarmBuckets", selector={"buckets": [{"width": 96, "height": 96}]})
        errors = [event.progress.result.error for event in results
                  if event.HasField("progress") and event.progress.result.HasField("error")]
        self.assertTrue(errors)
        self.assertEqual({error.reason for error in errors}, {"CHECKPOINT_CHANGED"})


if __name__ == "__main__":
    unittest.main()
