"""A checkpoint in one file, as model sites have it, and components from several places. The demo checkpoint is written as
such a file; its heads and vocabulary, which no file says and which are not those of a published model, come by
--components-from."""

import json
import pathlib
import shutil
import tempfile
import unittest

import ldm_file
import png
from metrics import METRICS, scrape
from server_process import Api, Server, checkpoint, wait_until
from test_checkpoint_edits import DEGRADED, edit
from test_startup import run


def base():
    return checkpoint() / "base"


class SingleFileTestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, without=(), name="demo.safetensors"):
        """The demo as a file, but for tensors that begin so."""
        path = self.folder / name
        ldm_file.write(path, {name: tensor for name, tensor in ldm_file.sdxl(base()).items() if not name.startswith(without)})
        return path

    def start(self, *arguments):
        server = Server(METRICS, *arguments, demo=False, buckets="64x64").start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        return server, api

    def draw(self, *arguments):
        server, api = self.start(*arguments)
        picture = png.read(api.generate(api.request(negative_prompt="a red circle")).images[0].data)[2]
        self.assertEqual(server.stop(), 0)
        return picture

    def draw_file(self, path, *arguments):
        return self.draw(f"--base={path}", f"--components-from={base()}", *arguments)

    def assert_fails(self, *arguments, named):
        code, _, error = run("--listen=127.0.0.1:0", "--cache-dir=", *map(str, arguments))
        self.assertEqual(code, 1, error)
        for text in named:
            self.assertIn(str(text), error)


class WholeFileTest(SingleFileTestCase):
    def test_it_draws_what_the_folder_draws(self):
        """Byte for byte: weights are renamed, split and transposed, and no number changes. Guard: RecognizeSingleFile
        (core/weights/containers/single_file.cc), Assembler::Join (checkpoint_assembly.cc)."""
        expected = self.draw(f"--base={base()}")
        self.assertEqual(self.draw_file(self.write()), expected)

    def test_a_folder_takes_what_it_lacks_of_a_file(self):
        """The file's VAE, with the scale that its family has. Guard: Assembler::Supply (checkpoint_assembly.cc)."""
        scaled, partial = self.folder / "scaled", self.folder / "partial"
        for folder in (scaled, partial):
            shutil.copytree(base(), folder)
        config = json.loads((base() / "vae/config.json").read_text())
        (scaled / "vae/config.json").write_text(json.dumps({**config, "scaling_factor": 0.13025}))
        shutil.rmtree(partial / "vae")
        expected = self.draw(f"--base={scaled}")
        self.assertNotEqual(expected, self.draw(f"--base={base()}"))
        self.assertEqual(self.draw(f"--base={partial}", f"--components-from={self.write()}"), expected)

    def test_its_averaged_weights(self):
        """Guard: WithEmaWeights in core/weights/containers/recognize/ema_weights.cc."""
        tensors = ldm_file.sdxl(base())
        unet = {name for name in tensors if name.startswith("model.diffusion_model.")}
        averages = {"model_ema." + name.removeprefix("model.").replace(".", ""): tensors[name] for name in unet}
        dtype, shape, data = tensors["model.diffusion_model.out.2.bias"]
        tensors["model.diffusion_model.out.2.bias"] = dtype, shape, bytes(len(data))
        path = self.folder / "averaged.safetensors"
        ldm_file.write(path, {**tensors, **averages})
        expected = self.draw(f"--base={base()}")
        self.assertEqual(self.draw_file(path, "--ema"), expected)
        self.assertNotEqual(self.draw_file(path), expected)
        self.assert_fails(f"--base={self.write()}", "--ema", named=["no EMA weights", "--ema"])

    def test_what_it_was_recognised_as_is_said(self):
        path = self.write()
        server, api = self.start(f"--base={path}", f"--components-from={base()}")
        server.wait_for_log(lambda entry: entry["message"].startswith(f"{path}: is Stable Diffusion XL"))
        server.wait_for_log(lambda entry: f"configured as in {base()}: unet, vae, text_encoder" in entry["message"])
        model, = api.capabilities().models
        self.assertEqual((model.name, model.class_name, model.family), (path.name, "StableDiffusionXLPipeline", "sdxl"))
        self.assertEqual(server.stop(), 0)

    def test_a_file_that_is_cut_off(self):
        path = self.write()
        size = path.stat().st_size
        with open(path, "r+b") as file:
            file.truncate(size - 1)
        self.assert_fails(f"--base={path}", f"--components-from={base()}", named=[path, "truncated"])

    def test_a_vocabulary_that_no_file_says(self):
        """The demo's is its own, and all published models' is CLIP's: it cannot be drawn with by itself."""
        path = self.write()
        self.assert_fails(f"--base={path}", named=[path, "vocab_size 628", "49408", "--components-from"])

    def test_an_edited_file_is_noticed(self):
        """Guard: WeightSet::Files, by which parts of a file are watched as files of folders are."""
        path = self.write()
        server, api = self.start(f"--base={path}", f"--components-from={base()}")
        edit(path)
        wait_until(lambda: api.call("Admin", "GetServerStatus").state == DEGRADED, "it is not degraded")
        wait_until(lambda: scrape(server).sum("latentd_checkpoint_changed_files", how="edited") == 1, "it is not counted")
        self.assertIn(f"{path} was changed while it is in use", api.call("Admin", "GetServerStatus").reason)
        self.assertEqual(server.stop(), 0)


class LackingTest(SingleFileTestCase):
    def test_what_it_lacks_is_named_with_its_flags(self):
        path = self.write(without=("first_stage_model.",))
        self.assert_fails(f"--base={path}", named=[path, "lacks vae", "--components-from=PATH", "--vae=PATH"])

    def test_a_refiner_that_lacks_its_vae(self):
        refiner = self.folder / "refiner.safetensors"
        ldm_file.write(refiner, {**ldm_file.unet(checkpoint() / "refiner/unet"),
                                 **ldm_file.open_clip(checkpoint() / "refiner/text_encoder_2", "conditioner.embedders.0.model.")})
        self.assert_fails(f"--base={base()}", f"--refiner={refiner}", named=[refiner, "lacks vae", "--refiner-components-from=PATH"])

    def test_it_comes_from_another_checkpoint_or_a_file(self):
        expected = self.draw(f"--base={base()}")
        without = self.write(without=("first_stage_model.",))
        self.assertEqual(self.draw_file(without), expected)
        vae = self.folder / "vae.safetensors"
        ldm_file.write(vae, ldm_file.vae(base() / "vae", prefix=""))
        self.assertEqual(self.draw_file(without, f"--vae={vae}"), expected)

    def test_a_folder_that_is_not_there(self):
        """As a download that was broken off leaves it."""
        partial = self.folder / "partial"
        shutil.copytree(base(), partial)
        shutil.rmtree(partial / "vae")
        self.assertEqual(self.draw(f"--base={partial}", f"--components-from={base()}"), self.draw(f"--base={base()}"))


class ReplacedTest(SingleFileTestCase):
    def negated(self, component, *names):
        """A folder like the demo's, in which these tensors of the component have the other sign."""
        other = self.folder / component
        shutil.copytree(base(), other)
        path, = (other / component).glob("*.safetensors")
        tensors = ldm_file.read(path)
        for name in names:
            dtype, shape, data = tensors[name]
            tensors[name] = dtype, shape, bytes(byte ^ 0x80 if index % 2 else byte for index, byte in enumerate(data))
        ldm_file.write(path, tensors)
        return other

    def other_vae(self):
        return self.negated("vae", "decoder.conv_out.weight", "decoder.conv_out.bias")

    def test_a_network_from_another_folder(self):
        own = self.draw(f"--base={base()}")
        norm = "text_model.encoder.layers.0.layer_norm1.weight"
        for component, name in (("unet", "conv_out.bias"), ("text_encoder", norm), ("text_encoder_2", norm)):
            with self.subTest(component=component):
                other = self.negated(component, name)
                expected = self.draw(f"--base={other}")
                self.assertNotEqual(expected, own)
                flag = component.replace("_", "-")
                self.assertEqual(self.draw(f"--base={base()}", f"--{flag}={other / component}"), expected)

    def test_a_vae_from_wherever_it_is(self):
        """Guard: ReadComponent in core/weights/containers/checkpoint_contents.cc."""
        other = self.other_vae()
        expected = self.draw(f"--base={other}")
        self.assertNotEqual(expected, self.draw(f"--base={base()}"))
        whole, alone = self.folder / "whole.safetensors", self.folder / "vae.safetensors"
        ldm_file.write(whole, ldm_file.sdxl(other))
        ldm_file.write(alone, ldm_file.vae(other / "vae", prefix=""))
        for vae in (other, other / "vae", whole, alone):
            with self.subTest(vae=vae.name):
                self.assertEqual(self.draw(f"--base={base()}", f"--vae={vae}"), expected)

    def test_a_unet_of_another_family(self):
        unet = checkpoint() / "refiner/unet"
        self.assert_fails(f"--base={base()}", f"--unet={unet}", named=["--unet", unet, "cross_attention_dim", "same family"])

    def test_what_is_no_component(self):
        self.assert_fails(f"--base={base()}", f"--vae={base() / 'unet'}", named=["--vae", "UNet2DConditionModel"])
        self.assert_fails(f"--base={base()}", f"--vae-tiny={base() / 'unet'}", named=["--vae-tiny", "UNet2DConditionModel"])
        self.assert_fails(f"--base={base()}", f"--vae={self.folder / 'nothing'}", named=["--vae", "No such file"])


if __name__ == "__main__":
    unittest.main()
