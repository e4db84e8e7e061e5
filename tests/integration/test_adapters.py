"""Adapters that requests name (--adapters), over the API, `latent generate` and `latent adapters`."""

import base64
import concurrent.futures
import json
import pathlib
import shutil
import struct
import unittest
import urllib.error
import urllib.request

import grpc
import png
from metrics import compilations
from server_process import DEADLINE, Server, checkpoint, reason, violations, wait_until
from test_graphs import GraphsTestCase, latent

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
KOHYA, DIFFUSERS = GOLDEN / "loras/kohya.safetensors", GOLDEN / "loras/diffusers.safetensors"
SWIRL = GOLDEN / "embeddings/swirl.safetensors"


def with_alpha(file, alpha):
    """The safetensors file with this number as every alpha, which are float32."""
    length, = struct.unpack("<Q", file[:8])
    changed = bytearray(file)
    for name, tensor in json.loads(file[8:8 + length]).items():
        if name.endswith(".alpha"):
            begin, end = tensor["data_offsets"]
            changed[8 + length + begin:8 + length + end] = struct.pack("<f", alpha)
    return bytes(changed)


class AdaptersTest(GraphsTestCase):
    def setUp(self):
        super().setUp()
        self.adapters = self.folder / "adapters"
        (self.adapters / "styles").mkdir(parents=True)
        shutil.copyfile(KOHYA, self.adapters / "film.safetensors")
        shutil.copyfile(DIFFUSERS, self.adapters / "styles/detail.safetensors")

    def serve(self, *arguments, **named):
        return self.start(f"--adapters={self.adapters}", *arguments, **named)

    def draw(self, api, **fields):
        """The pixels: what files say of their requests differs."""
        return png.read(super().draw(api, **fields))[2]

    def draw_with(self, api, *adapters, **fields):
        names = ("name", "weight", "text_encoder_weight")
        return self.draw(api, adapters=[dict(zip(names, adapter)) for adapter in adapters], **fields)

    def list(self, server):
        code, out, err = latent(server, "adapters", "--json")
        self.assertEqual(code, 0, err)
        return {adapter["info"]["name"]: adapter for adapter in json.loads(out).get("adapters", [])}

    def refused(self, call):
        with self.assertRaises(grpc.RpcError) as raised:
            call()
        return raised.exception

    def test_clients_of_the_web_ui_name_loras_in_prompts(self):
        """Guard: SdapiReader::ReadNetworks; the list of LoRAs that routes give to the dialect."""
        server, api = self.serve("--http-listen=127.0.0.1:0")
        line = server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"]
        url = f"http://{line.removeprefix('http on ')}/sdapi/v1/"

        def ask(path, body=None):
            data = json.dumps(body).encode() if body else None
            with urllib.request.urlopen(urllib.request.Request(url + path, data), timeout=DEADLINE) as answer:
                return json.load(answer)

        def draw(prompt):
            body = {"prompt": prompt, "steps": 2, "seed": 7, "width": 64, "height": 64}
            drawn = ask("txt2img", body)
            return png.read(base64.b64decode(drawn["images"][0]))[2], json.loads(drawn["info"])["prompt"]

        prompt = api.request().prompt
        plain = self.draw(api, prompt=prompt + " ", prompt_syntax="PROMPT_SYNTAX_A1111")
        both = self.draw_with(api, ("film", 0.8, 0.5), ("styles/detail", -0.5), prompt=prompt + " ",
                              prompt_syntax="PROMPT_SYNTAX_A1111")
        self.assertNotEqual(both, plain)
        tagged = prompt + " <lora:film:0.5:0.8><lora:detail:-0.5>"
        self.assertEqual(draw(tagged), (both, tagged))
        self.assertEqual(draw(prompt + " ")[0], plain)
        with self.assertRaises(urllib.error.HTTPError) as caught:
            draw(prompt + " <lora:flim:1>")
        with caught.exception:
            self.assertEqual(caught.exception.code, 422)
            self.assertRegex(json.load(caught.exception)["detail"], "^prompt: .*film")

        self.assertEqual([lora["name"] for lora in ask("loras")], ["film", "styles/detail"])
        self.assertNotIn(str(self.adapters), json.dumps(ask("loras")))
        shutil.copyfile(SWIRL, self.adapters / "swirl.safetensors")
        wait_until(lambda: "swirl" in ask("embeddings")["loaded"], "the word is not found")

    def test_a_request_draws_what_the_merged_model_draws(self):
        """Guard: AdapterSets::Make; Lane::adapters, since the pictures step beside each other."""
        base = f"--base={checkpoint() / 'base'}"
        _, api = self.start(base, demo=False)
        plain = self.draw(api)
        _, api = self.start(base, f"--lora={KOHYA}:0.8:0.5", demo=False)
        film = self.draw(api)
        _, api = self.start(base, f"--lora={KOHYA}:0.8:0.5", f"--lora={DIFFUSERS}:-0.5", demo=False)
        both = self.draw(api)

        server, api = self.serve("--forbid-compile-after-ready")
        compiled = compilations(server)
        first, second = ("film", 0.8, 0.5), ("styles/detail", -0.5)
        self.assertEqual(self.draw_with(api, first), film)
        self.assertEqual(self.draw(api), plain)  # no trace of it is left
        self.assertEqual(self.draw_with(api, first, second), both)
        self.assertEqual(self.draw_with(api, second, first), both)
        self.assertEqual(self.draw_with(api, first), film)
        self.assertEqual(self.draw_with(api, ("film", 0)), plain)
        with concurrent.futures.ThreadPoolExecutor() as threads:
            together = [threads.submit(self.draw_with, api, *adapters)
                        for adapters in ((first,), (), (first, second), (first,), ())]
            self.assertEqual([future.result() for future in together], [film, plain, both, film, plain])
        self.assertEqual(compilations(server), compiled)

    def test_images_with_different_loras_share_steps(self):
        """Guard: the slot and the scales of a row, StepLane's ports; the network's number in a batching::Lane."""
        _, api = self.serve()
        plain = self.draw(api)
        server, api = self.serve("--adapter-slots=2", "--forbid-compile-after-ready")
        compiled = compilations(server)
        sets = ((("film", 0.8),), (("film", -0.5),), (), (("styles/detail", 1),), (("film", 0.8),))
        alone = [self.draw_with(api, *adapters) for adapters in sets]
        self.assertEqual(alone[2], plain)
        self.assertNotEqual(alone[0], alone[1])
        with concurrent.futures.ThreadPoolExecutor() as threads:
            together = [threads.submit(self.draw_with, api, *adapters) for adapters in sets]
            self.assertEqual([future.result() for future in together], alone)
        self.assertEqual(compilations(server), compiled)

    def test_a_set_of_more_ranks_is_merged(self):
        several = tuple((f"film{i}", 0.25) for i in range(5))  # rank 2 each
        for name, _ in several:
            shutil.copyfile(KOHYA, self.adapters / f"{name}.safetensors")
        _, api = self.serve()
        merged = self.draw_with(api, *several)
        server, api = self.serve("--adapter-slots=2", "--adapter-ranks=8")
        self.assertEqual(self.draw_with(api, *several), merged)
        code, out, err = latent(server, "graphs", "list", "--json")
        self.assertEqual(code, 0, err)
        self.assertIn("step_8_ranks", out)

    def test_what_was_used_is_said(self):
        _, api = self.serve()
        answer = api.generate(api.request(adapters=[{"name": "film", "weight": 0.8}, {"name": "styles/detail"}]))
        used = [(adapter.name, adapter.weight, adapter.text_encoder_weight)
                for adapter in answer.completed.parameters.adapters]
        self.assertEqual(used, [("film", 0.8, 0.8), ("styles/detail", 1, 1)])
        self.assertIn("adapter film: the prompt has not its words: film style", list(answer.completed.warnings))
        self.assertIn(b"film:0.8", answer.images[0].data)
        self.assertIn(b"styles/detail:1", answer.images[0].data)
        listed = {adapter.name: adapter for adapter in api.capabilities().adapters}
        self.assertEqual(listed["film"].trigger_phrase, "film style")
        self.assertEqual(list(listed["film"].models)[0], "base")
        self.assertGreater(listed["film"].rank, 0)

    def test_a_lora_brings_its_preset(self):
        """Guard: Catalogue::CheckPreset; Pipeline::FillDefaults; the stamp, which has the file beside."""
        for name, preset in (("fast", "lightning-2"), ("typo", "lightning-3")):
            shutil.copyfile(DIFFUSERS, self.adapters / f"{name}.safetensors")
            (self.adapters / f"{name}.json").write_text(json.dumps({"preset": preset}))
        server, api = self.serve()
        bare = api.request(adapters=[{"name": "fast"}])
        bare.ClearField("num_inference_steps")
        answer = api.generate(bare)
        used = answer.completed.parameters
        self.assertEqual((used.num_inference_steps, used.guidance_scale, used.scheduler, used.timestep_spacing),
                         (2, 0, "euler", "trailing"))
        self.assertIn(b"as lightning-2", answer.images[0].data)
        spelled = self.draw_with(api, ("fast",), num_inference_steps=2, guidance_scale=0, scheduler="euler",
                                 timestep_spacing="trailing")
        self.assertEqual(png.read(answer.images[0].data)[2], spelled)
        self.assertEqual({one.name: one.preset for one in api.capabilities().adapters},
                         {"fast": "lightning-2", "film": "", "styles/detail": ""})
        self.assertIn("lightning-3", self.list(server)["typo"]["problem"])
        (self.adapters / "fast.json").write_text(json.dumps({"preset": "tcd"}))
        self.assertEqual(api.generate(bare).completed.parameters.scheduler, "tcd")

    def test_at_the_command_line(self):
        server, api = self.serve()
        expected = self.draw_with(api, ("film", 0.8, 0.5), seed=3, prompt="a star")
        output = self.folder / "film.png"
        code, _, err = latent(server, "generate", "a star", "--seed=3", "--width=64", "--height=64",
                              f"--num-inference-steps={api.request().num_inference_steps}",
                              "--adapter=film:0.8:0.5", f"--output={output}")
        self.assertEqual(code, 0, err)
        self.assertEqual(png.read(output.read_bytes())[2], expected)
        code, out, err = latent(server, "capabilities")
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"film \(LoRA of rank \d+, for base")
        self.assertNotEqual(latent(server, "generate", "a star", "--adapter=film:much")[0], 0)

    def test_bad_adapters_are_named(self):
        shutil.copyfile(SWIRL, self.adapters / "swirl.safetensors")
        _, api = self.serve()
        for adapters, field, said in (
                ([("flim",)], "adapters[0].name", "the nearest is film"),
                ([("film",), ("swirl",)], "adapters[1].name", "is a textual inversion"),
                ([("film",), ("film",)], "adapters[1].name", "twice"),
                ([("film", 11)], "adapters[0].weight", "-10 to 10"),
                ([("film", 1, float("nan"))], "adapters[0].text_encoder_weight", "finite"),
                ([(f"a{i}",) for i in range(9)], "adapters", "at most 8")):
            error = self.refused(lambda: self.draw_with(api, *adapters))
            self.assertIn(said, violations(error)[field])
        _, api = self.start()
        self.assertIn("--adapters=DIR", violations(self.refused(lambda: self.draw_with(api, ("film",))))["adapters[0].name"])

    def test_operators_see_what_is_there_and_what_is_wrong(self):
        """Guard: Catalogue::Read for a file that no reader takes."""
        (self.adapters / "old.pt").write_bytes(b"pickle")
        (self.adapters / "html.safetensors").write_bytes(b"<html>")
        key = b"lora_unet_mid_block_attentions_0_proj_in."
        (self.adapters / "wrong.safetensors").write_bytes(KOHYA.read_bytes().replace(key, key.replace(b"proj_in", b"proj_xx")))
        shutil.copyfile(SWIRL, self.adapters / "swirl.safetensors")
        server, api = self.serve()
        listed = self.list(server)
        self.assertEqual(set(listed), {"film", "styles/detail", "old", "html", "wrong", "swirl"})
        self.assertIn("pickle", listed["old"]["problem"])
        self.assertIn("html.safetensors", listed["html"]["problem"])
        self.assertIn("proj_xx", listed["wrong"]["problem"])
        self.assertEqual(listed["swirl"]["info"]["vectors"], 3)
        self.assertEqual(listed["film"]["problem"], "")
        self.assertIn("the adapter wrong is not served", server.log())
        error = self.refused(lambda: self.draw_with(api, ("wrong",)))
        self.assertEqual(reason(error)[0], "ADAPTER_UNUSABLE")
        self.assertEqual({adapter.name for adapter in api.capabilities().adapters}, {"film", "styles/detail", "swirl"})
        code, out, _ = latent(server, "adapters", "list")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"film +LoRA, rank \d+ +in its file +base")

    def test_operators_load_evict_and_pin(self):
        server, api = self.serve()
        self.assertEqual(latent(server, "adapters", "load", "film")[0], 0)
        self.assertTrue(self.list(server)["film"]["info"]["digest"])
        film = self.draw_with(api, ("film",))
        self.assertTrue(self.list(server)["film"]["loaded"])
        self.assertEqual(latent(server, "adapters", "evict", "film")[0], 0)
        self.assertFalse(self.list(server)["film"].get("loaded", False))
        self.assertFalse([graph for graph in api.graphs() if any("film" in user for user in graph.users)])
        self.assertEqual(self.draw_with(api, ("film",)), film)
        for verb, pinned in (("pin", True), ("unpin", False)):
            self.assertEqual(latent(server, "adapters", verb, "film")[0], 0)
            self.assertEqual(self.list(server)["film"].get("pinned", False), pinned)
        code, _, err = latent(server, "adapters", "load", "flim")
        self.assertNotEqual(code, 0)
        self.assertIn("flim", err)
        self.assertEqual(latent(server, "adapters", "burn", "film")[0], 2)

    def test_an_edited_file_is_noticed_at_the_next_use(self):
        """Guard: the stamp in Catalogue::Find."""
        server, api = self.serve()
        film, detail = self.draw_with(api, ("film",)), self.draw_with(api, ("styles/detail",))
        self.assertNotEqual(film, detail)
        shutil.copyfile(DIFFUSERS, self.adapters / "new.safetensors")
        (self.adapters / "new.safetensors").rename(self.adapters / "film.safetensors")
        self.assertEqual(self.draw_with(api, ("film",)), detail)
        shutil.copyfile(KOHYA, self.adapters / "film.safetensors")  # in place
        self.assertEqual(self.draw_with(api, ("film",)), film)
        shutil.copyfile(KOHYA, self.adapters / "other.safetensors")
        wait_until(lambda: "other" in self.list(server), "a new file is not listed")
        self.assertEqual(self.draw_with(api, ("other",)), film)
        (self.adapters / "film.safetensors").unlink()
        self.assertEqual(reason(self.refused(lambda: self.draw_with(api, ("film",))))[0], "ADAPTER_UNUSABLE")

    def test_words_of_textual_inversions(self):
        """Guard: TakeVectors; that plain prompts keep the text graphs that they had."""
        _, api = self.start()
        plain, other = self.draw(api), self.draw(api, prompt="a swirl")
        shutil.copyfile(SWIRL, self.adapters / "swirl.safetensors")
        _, api = self.serve()
        self.assertEqual(self.draw(api), plain)
        word = self.draw(api, prompt="a swirl")
        self.assertNotEqual(word, other)
        self.assertEqual(self.draw(api, prompt="a <swirl>"), word)
        self.assertEqual(self.draw(api, prompt="a swirls"), self.draw(self.start()[1], prompt="a swirls"))
        film = self.draw_with(api, ("film",), prompt="a swirl")
        self.assertNotIn(film, (word, plain))

    def test_a_word_that_is_lost_is_told(self):
        """Guard: WarnOfLostWords."""
        swirl = self.adapters / "swirl.safetensors"
        shutil.copyfile(SWIRL, swirl)
        _, api = self.serve()
        text = self.draw(api, prompt="a swirls")
        for lose in (lambda: swirl.write_bytes(b"<html>"), swirl.unlink):
            self.assertEqual(self.warnings(api, "a swirl"), [])
            lose()
            for prompt, count in (("a swirl", 1), ("a <swirl>", 1), ("a swirls", 0)):
                warnings = self.warnings(api, prompt)
                self.assertEqual(len(warnings), count, warnings)
            self.assertIn("the word swirl is read as text: the adapter swirl cannot be used: ", self.warnings(api, "swirl")[0])
            self.assertNotIn(str(self.folder), self.warnings(api, "swirl")[0])
            self.assertEqual(self.draw(api, prompt="a swirls"), text)
            shutil.copyfile(SWIRL, swirl)
            wait_until(lambda: not self.warnings(api, "a swirl"), "the word does not come back")

    def warnings(self, api, prompt):
        answer = api.generate(api.request(prompt=prompt))
        return [text for text in answer.completed.warnings if "is read as text" in text]

    def test_a_lora_that_changes_too_much_is_blamed_and_not_the_checkpoint(self):
        """Guard: BlameAdapters."""
        (self.adapters / "wild.safetensors").write_bytes(with_alpha(KOHYA.read_bytes(), 1e30))
        _, api = self.serve()
        plain = self.draw(api)
        error = self.refused(lambda: self.draw_with(api, ("film", 0), ("wild",)))
        self.assertEqual((error.code(), reason(error)[0]), (grpc.StatusCode.FAILED_PRECONDITION, "ADAPTER_UNUSABLE"))
        self.assertIn("with the adapter wild some values are not finite", error.details())
        self.assertNotIn("checkpoint", error.details())
        self.assertEqual(self.draw(api), plain)

    def test_a_folder_that_is_not_there_ends_the_start(self):
        server = Server(f"--adapters={self.folder / 'nowhere'}")
        self.addCleanup(server.kill)
        self.assertNotEqual(server.wait(), 0)
        self.assertIn("--adapters", server.log())
        self.assertIn("nowhere", server.log())


if __name__ == "__main__":
    unittest.main()
