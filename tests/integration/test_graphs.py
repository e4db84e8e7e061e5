"""The cache's promises (README.md has them as a table), one test for each, over the API and `latent graphs`."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import grpc

import server_process
from metrics import METRICS, compilations, scrape
from server_process import ALLOW_COLD, COLD_OK, DEMO_BUCKETS, Api, Server, reason

COMPILED, READY = 3, 5  # latent.v1.GraphState
RAW = 4  # latent.v1.Format


def latent(server, *arguments):
    """(exit code, standard output, standard error) of a `latent` command on that server."""
    command = [server_process.options.latent, *arguments, f"--server={server.address}"]
    done = subprocess.run(command, capture_output=True, timeout=server_process.DEADLINE)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


class GraphsTestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cache = self.folder / "cache"

    def start(self, *arguments, **named):
        server = Server(METRICS, *arguments, cache=named.pop("cache", self.cache), **named).start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        return server, api

    def draw(self, api, **fields):
        return api.generate(api.request(**fields)).images[0].data


class RestartTest(GraphsTestCase):
    def test_a_restart_compiles_nothing_and_draws_the_same(self):
        """Guard: the look at the disk in ArtifactSlot::FindOrCompile (core/compiler/artifact_slot.cc)."""
        server, api = self.start()
        first = self.draw(api)
        compiled = compilations(server)
        self.assertGreater(compiled, 0)
        self.assertEqual(server.stop(), 0)
        again, api = self.start("--forbid-compile-after-ready")
        self.assertEqual(compilations(again), 0)
        self.assertEqual(self.draw(api), first)
        lookups = scrape(again)
        self.assertEqual(lookups.sum("latentd_graph_cache_lookups_total", result="disk"), compiled)

    def test_ready_means_that_the_first_request_loads_nothing(self):
        """Guard: WarmBuckets in StartUp::Run (core/engine/prepare/start_up.cc); that each graph also ran:
        RunOnZeros in core/compiler/instance_cache.cc, and its ReadyMeansThatItRan."""
        server, api = self.start()
        self.assertTrue(all(graph.state == READY for graph in api.graphs() if graph.users))
        before = scrape(server)
        self.draw(api)
        after = scrape(server)
        for result in ("memory", "disk", "miss"):
            self.assertEqual(after.sum("latentd_graph_cache_lookups_total", result=result),
                             before.sum("latentd_graph_cache_lookups_total", result=result), result)

    def test_without_a_cache_directory_it_serves(self):
        server, api = self.start(cache="")
        self.assertTrue(self.draw(api))


class SharingTest(GraphsTestCase):
    def test_base_and_refiner_share_the_autoencoder(self):
        """Guard: FindLocked in InstanceCache::Declare, and InstanceOf in InstanceCache::Get (core/compiler/instance_cache.cc)."""
        server, api = self.start(buckets="64x64")
        decoders = api.graphs(components=["vae_decoder"])
        self.assertEqual(len(decoders), 1)
        self.assertEqual(list(decoders[0].users), ["base", "refiner"])
        for _ in range(2):  # loading what is loaded is a success and changes nothing
            results = api.call("GraphCache", "LoadGraphs", selector={"all": True}).results
            self.assertFalse([result for result in results if result.HasField("error")])
        self.assertEqual(len(api.graphs(components=["vae_decoder"])), 1)
        memory = {entry.component: entry for entry in api.call("Admin", "GetMemoryReport").weights}
        self.assertEqual(list(memory["vae"].users), ["base", "refiner"])
        self.assertEqual(memory["vae"].shared_bytes, memory["vae"].bytes)

    def test_encoder_and_decoder_are_separate_graphs(self):
        """Guard: MakeDecodeGraph and MakeEncodeGraph (core/pipeline/graphs/vae_graph.cc); for values that are not finite:
        core/pipeline/picture/finite.h and NotFiniteTest."""
        _, api = self.start(buckets="64x64")
        ids = {graph.component: graph.id for graph in api.graphs() if graph.component.startswith("vae_")}
        self.assertEqual(set(ids), {"vae_decoder", "vae_encoder"})
        self.assertNotEqual(ids["vae_decoder"], ids["vae_encoder"])


class PrecisionTest(GraphsTestCase):
    def test_precision_comes_from_the_configuration_and_is_part_of_the_key(self):
        """Guard: SplitInPrecision in ModelGraphs::Split (core/pipeline/graphs/model_graphs.cc); for force_upcast, which the
        demo's VAE has: PrecisionOf (core/pipeline/graphs/precision.cc)."""
        def graph_of(component):
            return next(graph for graph in api.graphs(components=[component], models=["base"])
                        if graph.users and not graph.fallback)

        def text_of(component):
            return next(field.value for field in graph_of(component).key if field.name == "graph")

        server, api = self.start("--precision=fp16", buckets="64x64")
        self.assertEqual([graph_of(component).precision for component in ("unet", "vae_decoder", "vae_encoder")],
                         ["fp16", "fp16", "fp32"])
        first = self.draw(api)
        again = self.draw(api, image=first, strength=0.5)
        # Runs of encoder or decoder between change nothing that has to be changed back.
        self.assertEqual(self.draw(api), first)
        self.assertEqual(self.draw(api, image=first, strength=0.5), again)
        self.assertEqual(server.stop(), 0)
        server, api = self.start("--precision=fp16", "--forbid-compile-after-ready", buckets="64x64")
        self.assertEqual(compilations(server), 0)
        self.assertEqual(self.draw(api), first)
        half = text_of("unet")
        self.assertEqual(server.stop(), 0)
        server, api = self.start(buckets="64x64")
        self.assertNotEqual(text_of("unet"), half)
        self.assertEqual(graph_of("unet").precision, "fp32")
        self.assertGreater(compilations(server), 0)


class VerbsTest(GraphsTestCase):
    def test_saving_what_is_not_compiled_is_refused_by_name(self):
        """Guard: `names` in LocalGraphAdmin::Save (core/engine/admin/local_graph_admin.cc)."""
        server = Server("--compile-at-start=false", cache=self.cache).listening()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        server.wait_for_log(lambda entry: "not ready" in entry["message"] or entry["message"] == "degraded")
        with self.assertRaises(grpc.RpcError) as caught:
            api.call("GraphCache", "SaveGraphs", selector={"all": True})
        self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        self.assertEqual(reason(caught.exception)[0], "NOT_COMPILED")
        self.assertIn("base unet", caught.exception.details())

    def test_an_empty_selector_selects_nothing(self):
        _, api = self.start(buckets="64x64")
        for method in ("WarmBuckets", "SaveGraphs", "LoadGraphs", "VerifyGraphs", "EvictGraphs", "PinGraphs",
                       "ExportGraphs"):
            with self.subTest(method=method), self.assertRaises(grpc.RpcError) as caught:
                api.call("GraphCache", method)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_evicted_and_pinned(self):
        server, api = self.start()
        size = {"width": 64, "height": 64}
        first = self.draw(api)
        api.call("GraphCache", "PinGraphs", selector={"components": ["vae_decoder"]})
        results = api.call("GraphCache", "EvictGraphs", selector={"buckets": [size]}).results
        refused = {result.component for result in results if result.HasField("error")}
        self.assertEqual(refused, {"vae_decoder"})
        self.assertEqual({result.error.reason for result in results if result.HasField("error")}, {"PINNED"})
        states = {graph.component: graph.state for graph in api.graphs(buckets=[size])}
        self.assertEqual(states["vae_decoder"], READY)
        self.assertEqual(states["unet"], COMPILED)
        before = compilations(server)
        self.assertEqual(self.draw(api), first)  # loaded again, not compiled
        self.assertEqual(compilations(server), before)
        self.assertEqual(server.stop(), 0)
        again, api = self.start()
        self.assertTrue(all(graph.pinned for graph in api.graphs(components=["vae_decoder"])))

    def test_latent_lists_shows_and_carries_them(self):
        server, api = self.start()
        code, table, _ = latent(server, "graphs", "list")
        self.assertEqual(code, 0)
        self.assertRegex(table, r"base +unet step")
        code, text, _ = latent(server, "graphs", "list", "--json", "--bucket=64x64")
        listed = json.loads(text)["graphs"]
        self.assertEqual({(graph["bucket"]["width"], graph["bucket"]["height"]) for graph in listed if "bucket" in graph},
                         {(64, 64)})
        code, text, _ = latent(server, "graphs", "show", listed[0]["id"][:8])
        self.assertIn(listed[0]["id"], text)
        self.assertIn("key: fingerprint", text)
        for verb in ("verify", "save", "load"):
            code, _, error = latent(server, "graphs", verb, "--all")
            self.assertEqual((code, error.split(", ")[-1]), (0, "0 failed\n"), verb)
        self.assertEqual(latent(server, "graphs", "list", "nothing")[0], 4)
        self.assertEqual(latent(server, "graphs", "evict")[0], 2)
        code, text, _ = latent(server, "status")
        self.assertIn("ready", text)
        code, text, _ = latent(server, "memory")
        self.assertIn("DEVICE AND HOST", text)  # whose memory a CPU works in
        self.assertNotIn("DEVICE:", text)
        held = json.loads(latent(server, "memory", "--json")[1])
        self.assertFalse(held.get("devices"))
        self.assertEqual(held["pinned_bytes"], "0")
        self.assertGreater(int(held["host_available_bytes"]), 0)

        archive = self.folder / "graphs.latent"
        self.assertEqual(latent(server, "graphs", "export", "--all", f"--output={archive}")[0], 0)
        other, other_api = self.degraded("--allow-import", cache=self.folder / "other")
        self.assertEqual(latent(other, "graphs", "import", str(archive))[0], 0)
        self.assertEqual(latent(other, "graphs", "warm", "--all")[0], 0)
        self.assertEqual(compilations(other), 0)
        self.assertEqual(self.draw(other_api), self.draw(api))
        code, _, error = latent(server, "graphs", "import", str(archive))
        self.assertEqual(code, 4)
        self.assertIn("--allow-import", error)

    def degraded(self, *arguments, cache):
        """A server that was started without compiling anything."""
        server = Server(METRICS, "--compile-at-start=false", *arguments, cache=cache).listening()
        self.addCleanup(server.kill)
        server.wait_for_log(lambda entry: "not ready" in entry["message"] or entry["message"] == "degraded")
        api = Api(server.address)
        self.addCleanup(api.close)
        return server, api

    def test_damage_in_an_import_is_found(self):
        server, _ = self.start("--allow-import", buckets="64x64")
        archive = self.folder / "graphs.latent"
        latent(server, "graphs", "export", "--all", f"--output={archive}")
        data = bytearray(archive.read_bytes())
        for position in (20, len(data) // 2, len(data) - 1):
            with self.subTest(position=position):
                damaged = bytearray(data)
                damaged[position] ^= 1
                path = self.folder / "damaged.latent"
                path.write_bytes(damaged)
                code, _, error = latent(server, "graphs", "import", str(path))
                self.assertNotEqual(code, 0)
                self.assertTrue(error)
        self.assertEqual(latent(server, "health")[0], 0)

    def test_warming_predicts_then_does(self):
        server, api = self.start(buckets="64x64")
        size = {"width": 128, "height": 128}
        before = compilations(server)
        dry = api.call("GraphCache", "WarmBuckets", selector={"buckets": [size]}, dry_run=True)
        self.assertGreater(dry[-1].done.predicted.total_bytes, 0)
        self.assertEqual(compilations(server), before)
        events = api.call("GraphCache", "WarmBuckets", selector={"buckets": [size]})
        self.assertEqual(events[-1].done.failed, 0)
        self.assertGreater(compilations(server), before)
        predicted, done = dry[-1].done.predicted, events[-1].done.predicted
        self.assertEqual(predicted.arena_bytes, done.arena_bytes)
        self.assertTrue(self.draw(api, width=128, height=128))


class MemoryTest(GraphsTestCase):
    def test_more_buckets_share_one_arena(self):
        """Guard: arena_->Take in CpuBackend::Load (core/backends/cpu/cpu_backend.cc)."""
        sizes = [(64 + 16 * i, 64) for i in range(10)]
        _, api = self.start(buckets=f"{sizes[-1][0]}x{sizes[-1][1]}")
        largest = api.call("Admin", "GetMemoryReport")
        _, api = self.start(buckets=",".join(f"{width}x{height}" for width, height in sizes))
        all_of_them = api.call("Admin", "GetMemoryReport")
        self.assertEqual(all_of_them.arena_bytes, largest.arena_bytes)
        # Kernels may want the same weight in another layout at another size, of some of them.
        self.assertLess(all_of_them.weights_bytes, 1.5 * largest.weights_bytes)

    def test_what_is_evicted_goes_back_to_the_system(self):
        """Guard: malloc_trim in LocalGraphAdmin::Evict (core/engine/admin/local_graph_admin.cc)."""
        _, api = self.start(buckets="64x64")
        before = api.call("Admin", "GetMemoryReport")
        api.call("GraphCache", "EvictGraphs", selector={"all": True})
        after = api.call("Admin", "GetMemoryReport")
        self.assertEqual(after.weights_bytes, 0)
        self.assertLess(after.resident_bytes, before.resident_bytes - before.weights_bytes // 2)

    def test_what_cannot_fit_is_refused_and_the_server_goes_on(self):
        """Guard: before_load in InstanceCache::MakeRoom (core/compiler/instance_eviction.cc)."""
        _, api = self.start("--memory=512MiB", ALLOW_COLD, buckets="64x64")
        with self.assertRaises(grpc.RpcError) as caught:
            self.draw(api, width=1024, height=1024, bucket_policy=COLD_OK, num_inference_steps=1,
                      output={"format": RAW})
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertEqual(reason(caught.exception)[0], "OUT_OF_MEMORY")
        self.assertTrue(self.draw(api))

    def test_large_pictures_are_decoded_in_tiles_above_a_threshold(self):
        """Guard: ModelGraphs::TilesOf (core/pipeline/graphs/model_graphs.cc), OverTiles (core/pipeline/graphs/tiled_graph.cc)."""
        large = {"width": 512, "height": 512, "num_inference_steps": 1}
        _, whole = self.start(buckets="256x256,512x512")
        _, tiled = self.start("--vae-tiling-above=256x256", buckets="256x256,512x512")
        reports = [api.call("Admin", "GetMemoryReport").arena_bytes for api in (whole, tiled)]
        self.assertLess(2 * reports[1], reports[0])
        decoded = [{(graph.bucket.width, graph.bucket.height) for graph in api.graphs(components=["vae_decoder"])
                    if graph.users} for api in (whole, tiled)]
        self.assertEqual(decoded, [{(256, 256), (512, 512)}] * 2)
        small = [self.draw(api, width=256, height=256) for api in (whole, tiled)]
        self.assertEqual(small[0], small[1])
        self.assertNotEqual(self.draw(whole, **large), self.draw(tiled, **large))


class KeyTest(GraphsTestCase):
    def test_options_are_part_of_the_key(self):
        """Guard: `options` in KeyOf (core/compiler/graph_key.cc)."""
        _, api = self.start(buckets="64x64")
        plain = {graph.id for graph in api.graphs()}
        server, api = self.start("--skip-passes=epilogues", buckets="64x64")
        self.assertGreater(compilations(server), 0)
        served = {graph.id for graph in api.graphs() if graph.users}
        self.assertFalse(plain & served)


if __name__ == "__main__":
    unittest.main()
