"""Signals: what runs may finish, what comes is refused."""

import http.client
import signal
import time
import unittest

import grpc

from own_server import OwnServerTestCase
from server_process import DEADLINE, Server, reason, wait_until


class DrainTest(OwnServerTestCase):
    def running(self, api, **fields):
        """A call that has reached its first step, and what it told until then."""
        events = api.stream(api.request(width=256, height=256, **fields))
        for event in events:
            if event.HasField("progress") and event.progress.step > 0:
                return events
        self.fail("no progress")

    def refusal(self, api):
        """The error of the first request that is refused: until the engine knows of the signal, it draws beside what runs."""
        while True:
            try:
                api.generate(api.request(), timeout=0.2)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                    return error

    def test_a_server_that_does_nothing_stops_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server, _ = self.start()
            start = time.monotonic()
            server.signal(number)
            self.assertEqual(server.wait(), 0)
            self.assertLess(time.monotonic() - start, 10)

    def test_a_running_request_finishes(self):
        server, api = self.start("--drain-timeout=110s")
        events = self.running(api, num_inference_steps=8)
        server.signal(signal.SIGTERM)
        self.assertEqual(list(events)[-1].WhichOneof("event"), "completed")
        self.assertEqual(server.wait(), 0)

    def test_health_says_so_and_new_requests_are_refused(self):
        server, api = self.start("--drain-timeout=110s")
        api.type("latent.v1.GenerateResponse")  # reflection, while the server has nothing better to do
        events = self.running(api, num_inference_steps=150)
        server.signal(signal.SIGTERM)
        server.wait_for_log(lambda entry: entry["message"] == "stopping")
        error = self.refusal(api)
        self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(reason(error), ("DRAINING", True))
        self.assertEqual(api.health("liveness"), "SERVING")
        self.assertEqual(api.health(), "NOT_SERVING")
        events.cancel()
        self.assertEqual(server.wait(), 0)

    def test_http_says_so_too(self):
        """Guard: HttpServer::BeginDrain, which goes on listening."""
        server, api = self.start("--drain-timeout=110s", "--http-listen=127.0.0.1:0")
        address = server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"].removeprefix("http on ")
        events = self.running(api, num_inference_steps=150)
        server.signal(signal.SIGTERM)
        server.wait_for_log(lambda entry: entry["message"] == "stopping")
        wait_until(lambda: self.ask(address, "GET", "/readyz").status == 503, "it is ready still")
        self.assertEqual(self.ask(address, "GET", "/healthz").status, 200)
        refused = self.ask(address, "POST", "/v1/images/generations", b'{"prompt": "a star"}')
        self.assertEqual(refused.status, 503)
        self.assertGreater(int(refused.headers["Retry-After"]), 0)
        events.cancel()
        self.assertEqual(server.wait(), 0)

    def ask(self, address, method, path, body=None):
        connection = http.client.HTTPConnection(address, timeout=DEADLINE)
        self.addCleanup(connection.close)
        connection.request(method, path, body)
        return connection.getresponse()

    def test_what_takes_too_long_is_cancelled(self):
        server, api = self.start("--drain-timeout=0s")
        events = self.running(api, num_inference_steps=150, num_images_per_prompt=16)
        server.signal(signal.SIGTERM)
        with self.assertRaises(grpc.RpcError) as caught:
            list(events)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.CANCELLED)
        self.assertEqual(reason(caught.exception), ("DRAINING", True))
        self.assertEqual(server.wait(), 0)

    def test_a_second_signal_ends_it_at_once(self):
        server, api = self.start("--drain-timeout=110s")
        self.running(api, num_inference_steps=150, num_images_per_prompt=16)
        server.signal(signal.SIGTERM)
        server.wait_for_log(lambda entry: entry["message"] == "stopping")
        server.signal(signal.SIGINT)
        self.assertEqual(server.wait(), 128 + signal.SIGINT)

    def test_a_signal_while_loading(self):
        server = Server()
        self.addCleanup(server.kill)
        server.listening()
        server.signal(signal.SIGTERM)
        self.assertEqual(server.wait(), 0)


if __name__ == "__main__":
    unittest.main()
