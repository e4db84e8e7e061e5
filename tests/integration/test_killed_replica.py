"""kill -9 of a replica while clients stream: they are told, it comes back from its cache, and pictures are the same."""

import pathlib
import tempfile
import unittest

from metrics import METRICS, compilations
from open_streams import SIDE, OpenStreams, fields_of, room_for
from server_process import Api, Server

SEEDS = (1, 2, 3, 4)


class KilledReplicaTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, cache, *arguments):
        server = Server(METRICS, room_for(len(SEEDS)), *arguments, buckets=f"64x64,{SIDE}x{SIDE}",
                        cache=self.folder / cache).start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        return server, api

    def drawn(self, api):
        """The first image of each request that is cut; and a small one."""
        requests = [api.request(), *(api.request(**fields_of(seed)) for seed in SEEDS)]
        return [api.generate(request).images[0].data for request in requests]

    def test_clients_are_told_and_the_cache_brings_it_back(self):
        killed, api = self.start("a")
        self.assertGreater(compilations(killed), 0)
        before = self.drawn(api)
        _, other = self.start("b")
        streams = OpenStreams(killed.address, SEEDS)
        streams.wait_until_drawn()
        killed.kill()
        self.assertEqual([code for code, _ in streams.ends()], ["UNAVAILABLE"] * len(SEEDS))
        self.assertEqual(self.drawn(other), before)
        again, api = self.start("a", "--forbid-compile-after-ready")
        self.assertEqual(self.drawn(api), before)
        self.assertEqual(compilations(again), 0)
        self.assertEqual(list((self.folder / "a/quarantine").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
