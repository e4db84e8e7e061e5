"""The order of requests, refusals, and the forecasts that waiting clients get."""

import unittest

import grpc

from metrics import scrape
from own_server import OwnServerTestCase
from server_process import reason, violations

# Without guidance, which is one row.
LONG = {"width": 256, "height": 256, "num_inference_steps": 150, "guidance_scale": 1}


class SchedulingTestCase(OwnServerTestCase):
    def running(self, api, **fields):
        """A call that has reached its first step."""
        events = api.stream(api.request(**fields))
        self.addCleanup(events.cancel)
        next(event for event in events if event.HasField("progress") and event.progress.step > 0)
        return events

    def learn(self, api):
        """The seconds of a step at 256x256."""
        api.generate(api.request(**{**LONG, "num_inference_steps": 4}))


class DeadlineTest(SchedulingTestCase):
    def test_one_that_is_too_short_is_refused_at_once(self):
        server, api = self.start("--metrics-listen=127.0.0.1:0")
        for _ in range(4):  # before, it would be tried: nothing else runs
            self.learn(api)
        with self.assertRaises(grpc.RpcError) as caught:
            list(api.stream(api.request(**LONG, num_images_per_prompt=16), timeout=5))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertEqual(reason(caught.exception), ("PREDICTED_OVERRUN", False))  # coming back would not help
        metrics = scrape(server)
        self.assertEqual(metrics.sum("latentd_requests_rejected_total", reason="predicted_overrun"), 1)
        self.assertEqual(metrics.sum("latentd_deadline_misses_total"), 0)


class QueuedTest(SchedulingTestCase):
    def test_who_waits_is_told_its_place_and_its_time(self):
        _, api = self.start("--rows=1")
        self.learn(api)
        self.running(api, **LONG)
        waiting = api.stream(api.request(**LONG))
        self.addCleanup(waiting.cancel)
        queued = next(waiting).queued
        self.assertEqual(queued.position, 1)
        self.assertGreater(queued.estimated_wait.ToTimedelta().total_seconds(), 0)
        self.assertGreater(queued.estimated_total.ToTimedelta(), queued.estimated_wait.ToTimedelta())

    def test_who_moves_up_is_told_so(self):
        _, api = self.start("--rows=1")
        calls = []
        for _ in range(3):
            calls.append(api.stream(api.request(**LONG)))
            self.addCleanup(calls[-1].cancel)
            next(calls[-1])  # it is in the queue
        first, second, third = calls
        second.cancel()
        positions = []
        for event in third:
            positions.append(event.queued.position)
            if positions[-1] == 1:
                break
        first.cancel()
        next(event for event in third if event.HasField("started"))


class PriorityTest(SchedulingTestCase):
    def test_the_highest_is_the_operators_to_say(self):
        _, api = self.start()
        with self.assertRaises(grpc.RpcError) as caught:
            api.generate(api.request(priority=1))
        self.assertEqual(violations(caught.exception)["priority"], "must be -3 to 0 for this caller, is 1")
        _, api = self.start("--max-priority=2")
        self.assertEqual(api.capabilities().max_priority, 2)
        api.generate(api.request(priority=2))

    def test_the_urgent_one_begins_first(self):
        _, api = self.start("--max-priority=3", "--rows=1")
        running = self.running(api, **LONG)
        usual = api.stream(api.request(**LONG))
        self.addCleanup(usual.cancel)
        self.assertEqual(next(usual).queued.position, 1)
        urgent = api.stream(api.request(**LONG, priority=3))
        self.addCleanup(urgent.cancel)
        self.assertEqual(next(urgent).queued.position, 1)
        next(event for event in usual if event.queued.position == 2)  # it is told
        running.cancel()
        next(event for event in urgent if event.HasField("started"))


if __name__ == "__main__":
    unittest.main()
