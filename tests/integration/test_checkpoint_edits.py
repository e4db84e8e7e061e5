"""A checkpoint that is edited under a running server, or between two: no picture of old and new tensors, none of tensors
that a cache has under the wrong name."""

import json
import os
import pathlib
import shutil
import tempfile
import time
import unittest

import grpc

import png
from metrics import METRICS, scrape
from server_process import Api, Server, checkpoint, reason, wait_until

DEGRADED = 4  # latent.v1.ServerState
LARGE = {"width": 96, "height": 96}
BUCKETS, MORE_BUCKETS = "64x64", "64x64,96x96"
UNET, VAE = "unet/diffusion_pytorch_model.safetensors", "vae/diffusion_pytorch_model.safetensors"


def edit(path, keep_time=False):
    """Negates every number of a file of tensors in f16, where it lies: same inode, same size, same header."""
    before = os.stat(path)
    with open(path, "r+b") as file:
        header = 8 + int.from_bytes(file.read(8), "little")
        file.seek(header)
        data = bytearray(file.read())
        data[1::2] = bytes(byte ^ 0x80 for byte in data[1::2])
        file.seek(header)
        file.write(data)
    if keep_time:  # as touch -r, cp -p and rsync --inplace -t do
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.stat(path)
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)
    assert (after.st_mtime_ns == before.st_mtime_ns) == keep_time


class CheckpointEditTestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cache = self.folder / "cache"
        self.model = self.folder / "model"
        shutil.copytree(checkpoint(), self.model)

    def start(self, *arguments, model=None, cache=None, buckets=BUCKETS):
        model = model or self.model
        server = Server(METRICS, f"--base={model / 'base'}", f"--refiner={model / 'refiner'}", *arguments, demo=False,
                        cache=cache or self.cache, buckets=buckets).start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        return server, api

    def draw(self, api, **fields):
        return png.read(api.generate(api.request(**fields)).images[0].data)[2]

    def drawn_alone(self, model, **fields):
        """The picture of a server with a cache of its own."""
        with tempfile.TemporaryDirectory() as cache:
            server, api = self.start(model=model, cache=cache, buckets=MORE_BUCKETS)
            picture = self.draw(api, **fields)
            self.assertEqual(server.stop(), 0)
        return picture

    def wait_for_digests(self):
        """Until the files are old enough for their digests to be kept: see kSettled in core/weights/file_identity.h."""
        newest = max(path.stat().st_ctime for path in self.model.rglob("*.safetensors"))
        wait_until(lambda: time.time() - newest > 3, "the clock stands still")

    def original_draws_its_own(self, expected, **fields):
        """A server with the original checkpoint on this cache, which finds everything in it."""
        server, api = self.start(model=checkpoint(), buckets=MORE_BUCKETS)
        self.assertEqual(self.draw(api, **fields), expected)
        results = api.call("GraphCache", "VerifyGraphs", selector={"all": True}).results
        self.assertFalse([result for result in results if result.HasField("error")])
        self.assertEqual(server.stop(), 0)


class EditUnderAServerTest(CheckpointEditTestCase):
    def noticed(self, server, api, path):
        """The server says that the file was edited: in its status, once in its log, in a metric."""
        wait_until(lambda: api.call("Admin", "GetServerStatus").state == DEGRADED, "it is not degraded")
        wait_until(lambda: scrape(server).sum("latentd_checkpoint_changed_files", how="edited") == 1, "it is not counted")
        said = f"{path} was changed while it is in use"
        self.assertIn(said, api.call("Admin", "GetServerStatus").reason)
        server.wait_for_log(lambda entry: entry["message"].startswith(said))
        lines = [line for line in server.lines if json.loads(line)["message"].startswith(said)]
        self.assertEqual(len(lines), 1, server.log())

    def refused(self, results):
        """Every result is one, and some are errors that say that the checkpoint was edited."""
        errors = [result.error for result in results if result.HasField("error")]
        self.assertTrue(errors)
        for error in errors:
            self.assertEqual(error.reason, "CHECKPOINT_CHANGED")
            self.assertIn("restart", error.message)

    def test_warmed_after_an_edit(self):
        """Guard: WeightStore::Make (core/weights/weight_store.cc) looks at the file before and after it packs."""
        expected = self.drawn_alone(checkpoint(), **LARGE)
        server, api = self.start()
        small = self.draw(api)
        edit(self.model / "base" / UNET)
        events = api.call("GraphCache", "WarmBuckets", selector={"buckets": [LARGE]})
        self.refused([event.progress.result for event in events if event.HasField("progress")])
        self.noticed(server, api, self.model / "base" / UNET)
        self.assertEqual(self.draw(api), small)  # loaded weights stay in use
        with self.assertRaises(grpc.RpcError) as caught:
            self.draw(api, **LARGE)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(server.stop(), 0)
        self.original_draws_its_own(expected, **LARGE)

    def test_loaded_after_an_eviction_and_an_edit(self):
        """Guard: likewise, where nothing is held in memory any more."""
        expected = self.drawn_alone(checkpoint())
        server, api = self.start()
        self.assertEqual(self.draw(api), expected)
        api.call("GraphCache", "EvictGraphs", selector={"all": True})
        shutil.rmtree(self.cache / "weights")
        edit(self.model / "base" / UNET)
        with self.assertRaises(grpc.RpcError) as caught:
            self.draw(api)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        self.assertEqual(reason(caught.exception)[0], "CHECKPOINT_CHANGED")
        self.refused(api.call("GraphCache", "LoadGraphs", selector={"all": True}).results)
        self.noticed(server, api, self.model / "base" / UNET)
        self.assertEqual(server.stop(), 0)
        self.original_draws_its_own(expected)

    def test_a_small_file(self):
        """Guard: Checkpoint::reader (core/weights/containers/checkpoint.cc), by which every file is read that has no tensors."""
        server, api = self.start()
        expected = self.draw(api)
        for path in ("base/unet/config.json", "refiner/tokenizer_2/vocab.json"):
            os.utime(self.model / path)  # is no edit
        path = self.model / "base/scheduler/scheduler_config.json"
        path.write_text(path.read_text() + "\n")
        self.noticed(server, api, path)
        self.assertEqual(self.draw(api), expected)
        self.assertEqual(server.stop(), 0)


class EditBetweenServersTest(CheckpointEditTestCase):
    """Guard: the change time in FileIdentity (core/weights/file_identity.cc), and its place in the key of kept digests."""

    def edited_while_none_runs(self, path):
        self.wait_for_digests()
        server, _ = self.start()
        self.assertEqual(server.stop(), 0)
        self.assertTrue(list((self.cache / "digests").iterdir()))
        edit(path, keep_time=True)

    def test_with_its_time_kept(self):
        self.edited_while_none_runs(self.model / "base" / UNET)
        expected = self.drawn_alone(self.model)
        _, api = self.start()
        self.assertEqual(self.draw(api), expected)
        self.assertNotEqual(expected, self.drawn_alone(checkpoint()))

    def test_with_its_time_kept_and_the_packed_weights_gone(self):
        original = self.drawn_alone(checkpoint())
        self.edited_while_none_runs(self.model / "base" / UNET)
        shutil.rmtree(self.cache / "weights")
        server, api = self.start()
        self.assertEqual(self.draw(api), self.drawn_alone(self.model))
        self.assertEqual(server.stop(), 0)
        self.original_draws_its_own(original)

    def test_of_what_base_and_refiner_had_in_common(self):
        self.edited_while_none_runs(self.model / "refiner" / VAE)
        expected = self.drawn_alone(self.model, refine=True)
        _, api = self.start()
        memory = {entry.component: entry for entry in api.call("Admin", "GetMemoryReport").weights}
        self.assertEqual(memory["vae"].shared_bytes, 0)
        self.assertEqual(self.draw(api, refine=True), expected)
        self.assertEqual(self.draw(api), self.drawn_alone(checkpoint()))


if __name__ == "__main__":
    unittest.main()
