"""Several models in one server (--model), over the API and `latent models`."""

import json
import shutil
import unittest

import grpc

from metrics import compilations
from server_process import Server, checkpoint, reason, violations
from test_graphs import GraphsTestCase, latent


class ModelsTest(GraphsTestCase):
    def setUp(self):
        super().setUp()
        self.other = self.folder / "other"
        shutil.copytree(checkpoint() / "base", self.other)
        weights = next((self.other / "unet").glob("*.safetensors"))
        data = bytearray(weights.read_bytes())
        data[-2000:] = bytes(2000)  # the end of the last tensor
        weights.write_bytes(data)

    def models(self, server):
        code, out, err = latent(server, "models", "--json")
        self.assertEqual(code, 0, err)
        return {model["name"]: model for model in json.loads(out)["models"]}

    def test_a_model_is_loaded_for_its_first_request_and_draws_as_alone(self):
        """Guard: StartUp::CompileOnDemand, BucketGraphs' buckets of each model."""
        _, alone = self.start(f"--base={self.other}", demo=False)
        expected = self.draw(alone)
        first, api = self.start()
        base = self.draw(api)
        self.assertNotEqual(base, expected)

        server, api = self.start(f"--model=other={self.other}")
        self.assertFalse(self.models(server)["other"].get("loaded", False))
        self.assertTrue(self.models(server)["base"]["loaded"])
        self.assertEqual(self.draw(api, model="other"), expected)
        self.assertEqual(self.draw(api), base)
        self.assertEqual(self.draw(api, model="base"), base)
        self.assertEqual(compilations(server), 0)  # the first server's are in the cache
        listed = {model.component: model for model in api.capabilities().models}
        self.assertEqual(set(listed), {"base", "refiner", "other"})
        self.assertEqual(listed["other"].default_scheduler, listed["base"].default_scheduler)

    def test_operators_load_evict_and_pin(self):
        server, api = self.start(f"--model=other={self.other}", f"--model=ready={checkpoint() / 'base'},residency=ready")
        self.assertTrue(self.models(server)["ready"]["loaded"])
        for verb, loaded in (("load", True), ("evict", False), ("load", True)):
            code, out, err = latent(server, "models", verb, "other")
            self.assertEqual(code, 0, err)
            self.assertIn("other", out)
            self.assertEqual(self.models(server)["other"].get("loaded", False), loaded)
        for verb, pinned in (("pin", True), ("unpin", False)):
            self.assertEqual(latent(server, "models", verb, "other")[0], 0)
            self.assertEqual(self.models(server)["other"].get("pinned", False), pinned)
        code, _, err = latent(server, "models", "load", "anime")
        self.assertNotEqual(code, 0)
        self.assertIn("base, refiner, other, ready", err)
        self.assertEqual(latent(server, "models", "burn", "other")[0], 2)

    def test_a_model_that_there_is_not(self):
        server, api = self.start(f"--model=other={self.other}")
        with self.assertRaises(grpc.RpcError) as raised:
            self.draw(api, model="anime")
        self.assertIn("base, refiner, other", violations(raised.exception)["model"])

    def test_models_have_their_own_parts_and_sizes(self):
        server, api = self.start(f"--model=other={self.other},vae={checkpoint() / 'base'},buckets=80x64+72x64,scheduler=heun,"
                                 "residency=pinned")
        model = next(model for model in api.capabilities().models if model.component == "other")
        self.assertEqual((model.default_size.width, model.default_size.height), (80, 64))
        self.assertEqual(model.default_scheduler, "heun")
        self.assertTrue(self.models(server)["other"]["pinned"])
        self.assertEqual(api.generate(api.request(model="other", width=72, height=64)).images[0].size.width, 72)
        with self.assertRaises(grpc.RpcError) as raised:
            self.draw(api, model="other")
        self.assertEqual(reason(raised.exception)[0], "NO_SUCH_BUCKET")

    def test_a_file_that_is_no_checkpoint_is_named(self):
        wrong = self.folder / "wrong.safetensors"
        wrong.write_bytes(b"<html>")
        server = Server(f"--model=other={wrong}")
        self.addCleanup(server.kill)
        self.assertNotEqual(server.wait(), 0)
        self.assertIn(str(wrong), server.log())


if __name__ == "__main__":
    unittest.main()
