"""Promises of docs/guarantees.md that need a real server and that test_graphs and test_cache_damage do not hold."""

import shutil

import grpc

from metrics import compilations, scrape
from server_process import DEMO_BUCKETS
from test_graphs import COMPILED, READY, GraphsTestCase


def states(api, **selector):
    """{(model, component, part, rows): state} of the graphs that are served."""
    return {(graph.model, graph.component, graph.part, graph.rows): graph.state
            for graph in api.graphs(**selector) if graph.users}


def loads(server):
    """How many graphs it took from memory or disk, or compiled, instead of having them ready."""
    lookups = scrape(server)
    return sum(lookups.sum("latentd_graph_cache_lookups_total", result=result) for result in ("memory", "disk", "miss"))


class SharingTest(GraphsTestCase):
    def test_evicting_the_refiner_leaves_what_the_base_uses(self):
        """Guard: the selection by component and model in LocalGraphAdmin::Evict (core/engine/admin/local_graph_admin.cc)."""
        server, api = self.start(buckets="64x64")
        first = self.draw(api)
        results = api.call("GraphCache", "EvictGraphs", selector={"components": ["unet"], "models": ["refiner"]}).results
        self.assertTrue(results)
        self.assertFalse([result for result in results if result.HasField("error")])
        for graph, state in states(api).items():
            self.assertEqual(state, COMPILED if graph[:2] == ("refiner", "unet") else READY, graph)
        before = loads(server)
        self.assertEqual(self.draw(api), first)
        self.assertEqual(loads(server), before)

    def test_a_model_is_warmed_alone(self):
        """Guard: selector.models in GraphWarming::PlanFor (core/engine/admin/graph_warming.cc)."""
        server, api = self.start(buckets="64x64")
        api.call("GraphCache", "EvictGraphs", selector={"components": ["unet"]})
        self.assertEqual(set(states(api, components=["unet"]).values()), {COMPILED})
        api.call("GraphCache", "WarmBuckets", selector={"models": ["refiner"]})
        for graph, state in states(api).items():
            self.assertEqual(state, COMPILED if graph[:2] == ("base", "unet") else READY, graph)
        with self.assertRaises(grpc.RpcError) as caught:
            api.call("GraphCache", "LoadGraphs", selector={"models": ["another"]})
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_both_users_get_an_evicted_shared_graph_back(self):
        """Guard: Get for kLoad in GraphStore (core/compiler/graph_store.cc)."""
        server, api = self.start(buckets="64x64")
        draws = [{}, {"refine": True, "denoising_end": 0.5}]
        first = [self.draw(api, **fields) for fields in draws]
        self.assertNotEqual(*first)
        compiled = compilations(server)
        for fields, picture in zip(draws, first):
            api.call("GraphCache", "EvictGraphs", selector={"components": ["vae_decoder"]})
            self.assertEqual(set(states(api, components=["vae_decoder"]).values()), {COMPILED})
            self.assertEqual(self.draw(api, **fields), picture)
        self.assertEqual(compilations(server), compiled)


class ReadinessTest(GraphsTestCase):
    def test_every_graph_ran_before_ready(self):
        """A run touches the arena's pages, so the first picture adds few. Guard: run_once in core/engine/models/stores.cc."""
        server, api = self.start(buckets="256x256")
        arena = api.call("Admin", "GetMemoryReport").arena_bytes
        before = server.resident_bytes()
        self.draw(api, width=256, height=256)
        self.assertLess(server.resident_bytes() - before, arena // 2)


class RestartTest(GraphsTestCase):
    def test_every_graph_is_on_disk_when_ready(self):
        """Guard: the flush of Stores::writes in StartUp::Run (core/engine/prepare/start_up.cc)."""
        server, api = self.start(buckets=DEMO_BUCKETS)
        server.kill()
        again, _ = self.start(buckets=DEMO_BUCKETS)
        self.assertEqual(compilations(again), 0)


class EvictionTest(GraphsTestCase):
    def test_the_least_recently_used_leave_memory_and_come_back_without_compiling(self):
        """Guard: InstanceCache::Trim (core/compiler/instance_eviction.cc)."""
        sizes = [(64, 64), (128, 64), (192, 64)]
        buckets = ",".join(f"{width}x{height}" for width, height in sizes)
        server, api = self.start("--graph-memory=12MiB", buckets=buckets)
        compiled = compilations(server)
        first = {size: self.draw(api, width=size[0], height=size[1]) for size in sizes}
        self.assertGreater(scrape(server).sum("latentd_graph_cache_evictions_total", reason="memory_budget"), 0)

        def step_state(size):
            bucket = {"width": size[0], "height": size[1]}
            return states(api, buckets=[bucket])["base", "unet", "step", 2]

        self.assertEqual(step_state(sizes[-1]), READY)
        self.assertEqual(step_state(sizes[0]), COMPILED)
        for size, picture in first.items():
            self.assertEqual(self.draw(api, width=size[0], height=size[1]), picture)
        self.assertEqual(compilations(server), compiled)


class CacheFilesTest(GraphsTestCase):
    def test_a_file_under_another_graphs_name_is_not_used(self):
        """A whole file, with every checksum right. Guard: the comparison of keys in core/cache/entry_file.cc."""
        server, api = self.start(buckets="64x64")
        first = self.draw(api)
        compiled = compilations(server)
        self.assertEqual(server.stop(), 0)
        artifacts = sorted(self.cache.glob("artifacts/*.latent"), key=lambda file: file.stat().st_size)
        self.assertEqual(len(artifacts), compiled)
        shutil.copy(artifacts[0], artifacts[-1])
        again, api = self.start(buckets="64x64")
        self.assertEqual(compilations(again), 1)
        self.assertEqual(self.draw(api), first)
        self.assertEqual(len(list(self.cache.glob("quarantine/*"))), 1)


class OptionsTest(GraphsTestCase):
    def test_options_of_one_component_leave_the_others(self):
        """Guard: the precision of each component in core/pipeline/graphs/precision.cc."""
        server, api = self.start(buckets="64x64")
        plain = {graph.id: graph.component for graph in api.graphs()}
        self.assertEqual(server.stop(), 0)
        server, api = self.start("--precision=fp32,text_encoder=fp16", buckets="64x64")
        served = {graph.id: graph.component for graph in api.graphs() if graph.users}
        self.assertEqual({component for id, component in served.items() if id not in plain}, {"text_encoder"})
        self.assertEqual(compilations(server), len(set(served) - set(plain)))
