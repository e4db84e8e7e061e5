"""Memory under sizes of clients' choosing: what is refused is counted, leaves nothing and ends no server."""

import unittest

import grpc

from control_group import ControlGroup
from metrics import METRICS, scrape
from server_process import ALLOW_COLD, COLD_OK, Api, Server, reason, wait_until

MIB = 1 << 20


class ColdMemoryTestCase(unittest.TestCase):
    def start(self, *arguments, **options):
        server = Server(METRICS, ALLOW_COLD, "--threads=1", *arguments, **options)
        self.addCleanup(server.kill)
        server.start()
        api = Api(server.address)
        self.addCleanup(api.close)
        return server, api

    def outcome(self, api, width, height):
        """The reason for which a picture of that size is refused; empty: it was drawn."""
        try:
            api.generate(api.request(width=width, height=height, bucket_policy=COLD_OK, num_inference_steps=1))
        except grpc.RpcError as error:
            self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED, error.details())
            return reason(error)[0]
        return ""


class RefusedSizesTest(ColdMemoryTestCase):
    def test_refused_sizes_leave_nothing_and_are_counted(self):
        """Guard: CheckFits in core/engine/prepare/admission.cc and DropUnused in cold_requests.cc; Reject in picture_loop.cc."""
        server, api = self.start("--memory=128MiB")
        # From the largest down, so that each is planned before it is refused.
        sizes = [(side, side - less) for side in range(1024, 560, -8) for less in (0, 8, 16)]
        settled = 100  # by then malloc has what it keeps
        for size in sizes[:settled]:
            self.assertEqual(self.outcome(api, *size), "OUT_OF_MEMORY")
        before = scrape(server)
        resident = server.resident_bytes()
        for size in sizes[settled:]:
            self.assertEqual(self.outcome(api, *size), "OUT_OF_MEMORY")
        # A graph of one of these sizes alone is a tenth of a MiB, its kernels are more.
        self.assertLess(server.resident_bytes() - resident, 16 * MIB)

        def definitions(metrics):
            return metrics.sum("latentd_memory_bytes", kind="graph_definitions")

        # The refusal is out before what was planned for it has gone.
        wait_until(lambda: definitions(scrape(server)) <= definitions(before), "what was refused stays in memory")
        after = scrape(server)
        for name in ("latentd_graph_cache_entries", "latentd_graph_compilations_total"):
            self.assertEqual(after.sum(name), before.sum(name), name)
        self.assertEqual(after.sum("latentd_requests_rejected_total", reason="oom"), len(sizes))
        self.assertEqual(after.sum("latentd_out_of_memory_total", stage="admission"), len(sizes))
        # The same measures see it where something stays.
        self.assertEqual(self.outcome(api, 128, 64), "")
        drawn = scrape(server)
        self.assertGreater(drawn.sum("latentd_graph_cache_entries"), after.sum("latentd_graph_cache_entries"))
        self.assertGreater(drawn.sum("latentd_memory_bytes", kind="graph_definitions"),
                           after.sum("latentd_memory_bytes", kind="graph_definitions"))
        self.assertGreater(drawn.sum("latentd_graph_compilations_total"),
                           after.sum("latentd_graph_compilations_total"))


class ControlGroupTest(ColdMemoryTestCase):
    def test_a_server_in_a_small_control_group_outlives_any_sizes(self):
        """Guard: kReserve in core/engine/models/memory_budget.h."""
        try:
            group = ControlGroup("memory", 430 * MIB)
        except OSError as error:
            self.skipTest(f"no control group can be made here, where another test bounds the memory: {error}")
        self.addCleanup(group.remove)
        server, api = self.start(buckets="256x256", prepare=group.enter)
        # From the largest down, so that each is planned before it is refused.
        for height in range(1016, 696, -40):
            for width in range(1024, 664, -40):
                self.assertEqual(self.outcome(api, width, height), "OUT_OF_MEMORY", (width, height))
        self.assertIsNone(server.process.poll())
        self.assertTrue(api.generate(api.request(width=256, height=256, num_inference_steps=1)).images)
        server.kill()  # before its group


if __name__ == "__main__":
    unittest.main()
