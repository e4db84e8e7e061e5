#!/usr/bin/env python3
"""The whole load bench in time that does not pass, on servers that only wait."""

import asyncio
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from full_size import machine  # noqa: E402
from timeless import timeless  # noqa: E402
from traffic import bench, calls, promises, report  # noqa: E402
from traffic.calls import MISSED, OK, Attempt  # noqa: E402
from traffic.mixture import area_of, patient  # noqa: E402


class FakeServer:
    """Draws `places` pictures at a time, each `slowness` times as long as alone; refuses where many wait."""

    servers = {}
    places, slowness, queue = 2, 1.0, 40

    def __init__(self, *_):
        self.address, self.pid, self.waiting = f"{type(self).__name__} {len(self.servers)}", os.getpid(), 0
        self.free = asyncio.Semaphore(self.places)
        self.servers[self.address] = self

    def step_seconds(self, job):
        return self.slowness * area_of(job.size) / 64 ** 2 / 100

    async def draw(self, job):
        async with self.free:
            await asyncio.sleep(job.images * job.steps * self.step_seconds(job))

    def stop(self):
        del self.servers[self.address]


class FakePeer(FakeServer):
    places, slowness, queue = 1, 1.5, 10_000


class FakeClient:
    Latentd, Peer = FakeServer, FakePeer
    descriptors = staticmethod(lambda address: None)

    class Client:
        def __init__(self, addresses, described):
            self._server = FakeServer.servers[addresses[0]]

        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            pass

        async def send(self, job, timeout):
            start = calls.now()
            if self._server.waiting >= self._server.queue:
                return Attempt("RESOURCE_EXHAUSTED", 0.0, reason="QUEUE_FULL", retry_seconds=1.0)
            self._server.waiting += 1
            try:
                await asyncio.wait_for(self._server.draw(job), timeout)
            except asyncio.TimeoutError:
                return Attempt(MISSED, calls.now() - start)
            finally:
                self._server.waiting -= 1
            took = calls.now() - start
            left = [self._server.step_seconds(job) * step for step in reversed(range(job.steps))]
            return Attempt(OK, took, tuple(took - seconds for seconds in left))

    class Crowd(Client):
        def __init__(self, address, described, size):
            super().__init__({0: address}, described)

        async def play(self, jobs, deadline):
            return await calls.play(self.send, jobs, lambda job: deadline, patient)


class WholeBenchTest(unittest.TestCase):
    def measure(self, *arguments, missing=None, failures=0):
        options = bench.parse(["--buckets=64x64,128x128", "--small=64x64", "--latentd=latentd", "--peer-python=python", *arguments])
        described = {"gpu": None, "cpus": 2, "cpu": "a processor", "latentd": "latentd 0.1.0", "commit": "abc"}

        async def run():
            session = bench.Session(options, pathlib.Path("/nowhere"), FakeClient)
            await bench.measure(session)
            session.stop()
            return session

        with mock.patch.object(machine, "describe", return_value=described), \
                mock.patch.object(bench.peer_process, "missing", return_value=missing), contextlib.redirect_stdout(io.StringIO()):
            session = timeless(run())
        self.assertEqual(FakeServer.servers, {})
        self.assertEqual(session.failures, failures)
        return session.document

    def test_two_at_a_time_keep_up_with_more_than_one_and_a_slow_peer_with_less(self):
        found = self.measure("--only=capacity", "--seconds=100", "--rates=0.02:2", "--windows=4")["capacity"]
        rates = [found[name]["best"]["rate"] for name in ("latentd", "fifo", "peer")]
        self.assertGreater(rates[0], 1.5 * rates[1])
        self.assertGreater(rates[1], rates[2])
        self.assertEqual(len({found[name]["at_same_rate"]["rate"] for name in found}), 1)

    def test_small_pictures_wait_for_large_ones_where_only_one_is_drawn(self):
        found = self.measure("--only=isolation", "--seconds=10")["isolation"]
        self.assertAlmostEqual(found["latentd"]["beside"]["p99"], 0.04)
        self.assertAlmostEqual(found["fifo"]["beside"]["p99"], 50 * 4 / 100 + 0.04)
        self.assertAlmostEqual(found["fifo"]["quiet"]["p99"], 0.04)

    def test_a_short_picture_beside_a_long_one_waits_for_nothing_where_two_are_drawn(self):
        for each in self.measure("--only=arrival")["arrival"].values():
            self.assertAlmostEqual(each["waits"]["p99"], 0)
            self.assertEqual(each["waits"]["count"], 40)

    def test_a_short_picture_beside_a_long_one_waits_for_that_where_one_is_drawn(self):
        with mock.patch.object(FakeServer, "places", 1):
            found = self.measure("--only=arrival")["arrival"]["64x64"]
        self.assertGreater(found["waits"]["p50"], 0.25 * 50 / 100)

    def test_short_requests_beside_long_ones_wait_for_all_of_them_where_one_is_drawn_at_a_time(self):
        with mock.patch.object(FakeServer, "places", 1):
            found = self.measure("--only=passing")["passing"]
        first, last = found[0], found[3]
        self.assertEqual((first["steps"], first["beside"], last["beside"]), (2, 1, 16))
        self.assertAlmostEqual(first["alone"], 0.02)
        self.assertIsNone(first["requests"])  # the long one has ended after a second
        self.assertIsNone(last["pictures"])

    def test_short_requests_beside_long_ones_wait_for_nobody_where_there_is_room(self):
        with mock.patch.object(FakeServer, "places", 99):
            document = self.measure("--only=passing")
        self.assertAlmostEqual(document["passing"][3]["pictures"], document["passing"][3]["alone"])
        self.assertIn(("the shortest requests take at most 4 times as long beside long ones as alone", True), promises.of(document))

    def test_short_requests_are_as_many_as_the_options_say(self):
        options = ("--only=arrival,passing", "--arrivals=5", "--short-steps=2", "--long-ones=1,16")
        with mock.patch.object(FakeServer, "places", 99):
            document = self.measure(*options)
        self.assertEqual({each["waits"]["count"] for each in document["arrival"].values()}, {5})
        self.assertEqual([(each["guided"], each["steps"], each["beside"]) for each in document["passing"]],
                         [(True, 2, 1), (True, 2, 16), (False, 2, 1), (False, 2, 16)])

    def test_overload_is_refused_and_who_comes_back_may_be_served(self):
        document = self.measure("--only=overload", "--capacity=4", "--overload-seconds=10", "--overload-deadline=5")
        found = document["overload"]["contestants"]
        self.assertEqual(document["overload"]["capacity_is"], "--capacity")
        self.assertGreater(found["latentd"]["refusals"]["by_reason"]["QUEUE_FULL"], 10)
        self.assertGreater(found["latentd"]["refusals"]["came_back_and_served"], 0)
        self.assertEqual(found["peer"]["refusals"]["by_reason"], {})
        self.assertEqual(sum(each["asked"] for each in found["latentd"]["callers"]), found["latentd"]["asked"])
        self.assertGreater(found["latentd"]["goodput"]["work"], found["peer"]["goodput"]["work"])

    def test_without_a_peer_the_others_are_measured(self):
        document = self.measure("--only=isolation", "--seconds=4", missing="no torch")
        self.assertEqual(set(document["isolation"]), {"latentd", "fifo"})
        self.assertIn("left out: diffusers behind gRPC: no torch", report.tables(document))

    def test_a_contestant_that_fails_leaves_and_the_others_go_on(self):
        with mock.patch.object(FakePeer, "draw", side_effect=OSError("out of memory")):
            document = self.measure("--only=isolation", "--seconds=4", failures=1)
        self.assertEqual(set(document["isolation"]), {"latentd", "fifo"})
        self.assertEqual(document["left_out"], {"peer": "failed in first pictures: out of memory"})

    def test_tables_have_all_of_it_and_can_be_shown_again(self):
        document = json.loads(json.dumps(self.measure("--seconds=10", "--windows=2", "--overload-seconds=5")))
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(document, file)
            file.flush()
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                self.assertEqual(bench.main([f"--show={file.name}"]), 0)
        for title in ("**alone**", "**90 % of deadlines kept**", "**10 times the capacity of",
                      "**small pictures beside a large one (64x64, 4 steps; 128x128, 50 steps)**", "| what latentd promises |"):
            self.assertIn(title, said.getvalue())


if __name__ == "__main__":
    unittest.main()
