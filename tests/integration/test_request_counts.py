"""Requests are in one place at every scrape: refused, in flight, finished, cancelled or late."""

import threading
import unittest

import grpc

import metrics
from own_server import OwnServerTestCase
from server_process import wait_until

ENDS = ("latentd_requests_rejected_total", "latentd_requests_finished_total", "latentd_requests_cancelled_total",
        "latentd_deadline_misses_total")
CLIENTS, ROUNDS = 4, 6


class RequestCountsTest(OwnServerTestCase):
    def setUp(self):
        self.server, self.api = self.start(metrics.METRICS, "--queue-capacity=3", "--max-priority=1")

    def cancelled(self, **fields):
        events = self.api.stream(self.api.request(num_inference_steps=150, **fields))
        next(events, None)
        events.cancel()

    def finished(self, **fields):
        self.api.generate(self.api.request(**fields))

    def late(self, **fields):
        list(self.api.stream(self.api.request(num_inference_steps=150, **fields), timeout=0.2))

    def crowd(self, **fields):
        """More than may wait."""
        calls = [self.api.stream(self.api.request(num_inference_steps=150, **fields)) for _ in range(4)]
        try:
            for events in calls:
                next(events)
        finally:
            for events in calls:
                events.cancel()

    def wrong(self, **fields):
        self.api.generate(self.api.request(**{**fields, "width": 9}))

    def client(self, number):
        for turn in range(ROUNDS):
            for ask in (self.finished, self.cancelled, self.late, self.wrong, self.crowd):
                try:
                    ask(priority=(number + turn) % 5 - 3)
                except grpc.RpcError:
                    pass  # the queue is full, or what was to happen

    def assert_adds_up(self):
        scrape = metrics.scrape(self.server)
        in_flight = [value for series, value in scrape.values.items()
                     if series.startswith("latentd_requests_in_flight{")]
        self.assertEqual(scrape.sum("latentd_requests_received_total"),
                         sum(scrape.sum(name) for name in ENDS) + sum(in_flight))
        self.assertGreaterEqual(min(in_flight), 0)
        return scrape

    def test_they_add_up_under_load(self):
        clients = [threading.Thread(target=self.client, args=(number,)) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        while any(client.is_alive() for client in clients):
            self.assert_adds_up()
        for client in clients:
            client.join()
        wait_until(lambda: metrics.scrape(self.server).sum("latentd_requests_in_flight") == 0, "the last request's end")
        scrape = self.assert_adds_up()
        for labels in ({"reason": "invalid"}, {"reason": "queue_full"}):
            self.assertGreater(scrape.sum("latentd_requests_rejected_total", **labels), 0, labels)
        self.assertGreater(scrape.sum("latentd_requests_finished_total", outcome="completed"), 0)
        self.assertGreater(scrape.sum("latentd_requests_cancelled_total"), 0)
        self.assertEqual(scrape.sum("latentd_requests_finished_total", outcome="failed"), 0)

    def test_those_that_wait_are_there_by_priority(self):
        for priority in (0, 1, -3):
            events = self.api.stream(self.api.request(width=256, height=256, num_inference_steps=150, priority=priority))
            self.addCleanup(events.cancel)
            next(events)
        scrape = self.assert_adds_up()
        for priority in (0, 1, -3):
            self.assertEqual(scrape.sum("latentd_requests_in_flight", priority=str(priority)), 1)
        self.assertEqual(scrape.sum("latentd_requests_in_flight"), 3)


if __name__ == "__main__":
    unittest.main()
