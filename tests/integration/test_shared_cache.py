"""Several servers that start at once on one cache directory."""

import unittest

from metrics import METRICS, compilations, scrape
from server_process import Api, Server
from test_graphs import READY, GraphsTestCase

SERVERS = 3


class SharedCacheTest(GraphsTestCase):
    def test_servers_that_start_together_compile_each_graph_once(self):
        """Guard: LockForCompiling in ArtifactSlot::FindOrCompile, and that Adopt lets go of the lock after it has written
        (core/compiler/artifact_slot.cc)."""
        servers = [Server(METRICS, cache=self.cache) for _ in range(SERVERS)]
        for server in servers:
            self.addCleanup(server.kill)
        pictures = set()
        for server in servers:
            api = Api(server.start().address)
            self.addCleanup(api.close)
            self.assertEqual({graph.state for graph in api.graphs() if graph.users}, {READY})
            pictures.add(self.draw(api))
        self.assertEqual(len(pictures), 1)
        graphs = len(list((self.cache / "artifacts").glob("*.latent")))
        self.assertGreater(graphs, 0)
        self.assertEqual(sum(compilations(server) for server in servers), graphs)
        self.assertEqual(list((self.cache / "quarantine").iterdir()), [])
        for server in servers:
            self.assertEqual(scrape(server).sum("latentd_graph_cache_write_failures_total"), 0)
            self.assertNotIn("compiled by another process", server.log())
        again, _ = self.start("--forbid-compile-after-ready")
        self.assertEqual(compilations(again), 0)


if __name__ == "__main__":
    unittest.main()
