"""A server whose memory is tight, and its report of the memory of images in flight."""

import pathlib
import resource
import tempfile
import unittest

import grpc

from metrics import METRICS, compilations, scrape
from server_process import ALLOW_COLD, COLD_OK, Api, Server, reason, wait_until

LARGE, SMALL = "256x256", "64x64"
SLACK = 7 << 20  # bytes of an image, of the weight whose making takes most, and of graphs as they were declared
EVICTIONS = "latentd_graph_cache_evictions_total"


class MemoryTestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = pathlib.Path(folder.name) / "cache"

    def start(self, *arguments, **named):
        server = Server(METRICS, ALLOW_COLD, *arguments, cache=self.cache, **named).start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        return server, api

    def report(self, api):
        return api.call("Admin", "GetMemoryReport")


class EvictionTest(MemoryTestCase):
    def tight(self):
        """A budget that LARGE fits into, and nothing else beside it."""
        server, api = self.start(buckets=LARGE)
        held = self.report(api)
        self.assertEqual(server.stop(), 0)
        budget = held.weights_bytes + held.arena_bytes + held.executables_bytes + held.artifacts_bytes + SLACK
        return f"--memory={budget}"

    def test_idle_graphs_make_room_for_a_request(self):
        """Guard: MakeRoom in InstanceCache::Load (core/compiler/instance_cache.cc)."""
        server, api = self.start(self.tight(), buckets=LARGE)
        small = api.request(bucket_policy=COLD_OK)
        self.assertTrue(api.generate(small).images[0].data)
        self.assertGreater(scrape(server).sum(EVICTIONS, reason="memory_budget"), 0)
        line = server.wait_for_log(lambda entry: "to make room for" in entry["message"])
        self.assertIn(SMALL, line["message"])
        compiled = compilations(server)
        self.assertTrue(api.generate(api.request(width=256, height=256)).images[0].data)
        self.assertEqual(compilations(server), compiled)

    def test_pinned_graphs_make_no_room(self):
        server, api = self.start(self.tight(), buckets=LARGE)
        api.call("GraphCache", "PinGraphs", selector={"all": True})
        with self.assertRaises(grpc.RpcError) as caught:
            api.generate(api.request(bucket_policy=COLD_OK))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertEqual(reason(caught.exception)[0], "OUT_OF_MEMORY")
        self.assertEqual(scrape(server).sum(EVICTIONS, reason="memory_budget"), 0)
        self.assertTrue(api.generate(api.request(width=256, height=256)).images[0].data)


class AddressSpaceTest(MemoryTestCase):
    def test_a_limit_on_addresses_below_the_machines_memory(self):
        """As `ulimit -v` sets it. Guard: BytesToReserve in core/backends/cpu/binding/arena.cc."""
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

        _, api = self.start(buckets=SMALL, prepare=limit)
        self.assertTrue(api.generate(api.request()).images[0].data)


class StateTest(MemoryTestCase):
    def test_pictures_hold_memory_until_their_end_of_whatever_kind(self):
        """Guard: state_bytes_ in core/engine/loop/picture_loop.cc, and the lanes' part of it."""
        _, api = self.start(buckets=LARGE)
        single = api.request(width=256, height=256, num_inference_steps=150)
        long = api.request(width=256, height=256, num_inference_steps=150, num_images_per_prompt=4)
        state = lambda: self.report(api).state_bytes
        self.assertEqual(state(), 0)
        by_deadline = api.start_generate(long, timeout=5)
        wait_until(lambda: state() > 0, "no state while pictures are drawn")
        self.assertEqual(by_deadline.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        wait_until(lambda: state() == 0, "state after a deadline")
        held = []
        for request in (long, single):
            stepping = api.stream(request)
            next(event for event in stepping if event.progress.step > 1)  # it has its lane, of two rows
            held.append(state())
            stepping.cancel()
            wait_until(lambda: state() == 0, "state after a stream's cancellation")
        self.assertEqual(held[0], held[1])  # bytes of four images and of one
        cancelled = api.start_generate(single)
        wait_until(lambda: state() > 0, "no state while a picture is drawn")
        cancelled.cancel()
        wait_until(lambda: state() == 0, "state after a cancellation")
        self.assertTrue(api.generate(api.request(width=256, height=256)).images[0].data)
        wait_until(lambda: state() == 0, "state after the end")
