"""HTTP through HAProxy as it is in deploy/haproxy: two replicas, streams, what operators alone may ask, a replica that goes."""

import base64
import http.client
import json
import pathlib
import tempfile
import unittest

import server_process
from cluster import Balancer, free_addresses
from metrics import METRICS, scrape
from server_process import DEADLINE, Api, Server

PROMPT = "a red circle on a blue background"
NAMES = ("a", "b")


class ClusterHttpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        folder = pathlib.Path(folder.name)
        grpc, cls.https = free_addresses(3), dict(zip((*NAMES, "c"), free_addresses(3)))  # the last ones have no server
        cls.listen, cls.other_listen = free_addresses(2)
        cls.replicas = {}
        for name, address in zip(NAMES, grpc):
            cls.replicas[name] = Server(METRICS, "--threads=1", f"--http-listen={cls.https[name]}", listen=address,
                                        cache=folder / "cache")
            cls.addClassCleanup(cls.replicas[name].kill)
            cls.replicas[name].start()
        cls.balancers = [Balancer(grpc, folder / f"haproxy-{number}.log", variables={
            "LATENTD_HTTP_LISTEN": listen, **{f"LATENTD_HTTP_{name.upper()}": each for name, each in cls.https.items()}})
                         for number, listen in enumerate((cls.listen, cls.other_listen))]
        for balancer in cls.balancers:
            cls.addClassCleanup(balancer.close)
        cls.wait_until_up(set(NAMES))

    @classmethod
    def wait_until_up(cls, names):
        for balancer in cls.balancers:
            for backend in ("replicas-http", "replicas-http-videos"):
                server_process.wait_until(lambda: balancer.up(backend) == names, f"{names} get requests over HTTP")

    def ask(self, method, path, listen=None, **fields):
        connection = http.client.HTTPConnection(listen or self.listen, timeout=DEADLINE)
        self.addCleanup(connection.close)
        body = json.dumps({"prompt": PROMPT, "size": "64x64", "num_inference_steps": 2, "seed": 7, **fields})
        connection.request(method, path, body if method == "POST" else None, {"Content-Type": "application/json"})
        return connection.getresponse()

    def draw(self):
        answer = self.ask("POST", "/v1/images/generations")
        self.assertEqual(answer.status, 200)
        return base64.b64decode(json.load(answer)["data"][0]["b64_json"])

    def pictures(self):
        return {name: int(scrape(self.replicas[name]).sum("latentd_images_generated_total")) for name in NAMES}

    def test_a_picture_is_that_of_grpc_and_requests_go_to_both(self):
        before = self.pictures()
        drawn = {self.draw() for _ in range(4)}
        self.assertTrue(all(count > before[name] for name, count in self.pictures().items()), self.pictures())
        api = Api(self.replicas["a"].address)
        self.addCleanup(api.close)
        self.assertEqual(drawn, {api.generate(api.request(prompt=PROMPT)).images[0].data})

    def test_events_come_while_the_picture_is_drawn(self):
        answer = self.ask("POST", "/v1/images/generations", stream=True, partial_images=2, num_inference_steps=40)
        self.assertEqual(answer.getheader("Content-Type").partition(";")[0], "text/event-stream")
        before = sum(self.pictures().values())
        first = answer.readline()
        while not first.startswith(b"event:"):
            first = answer.readline()
        self.assertIn(b"partial_image", first)
        self.assertEqual(sum(self.pictures().values()), before)  # it is not finished yet
        self.assertIn(b"completed", answer.read())

    def test_operators_ask_a_replica_and_not_all(self):
        for path in ("/latent/v1/memory", "/latent/v1/graphs", "/latent/v1/memory/", "/latent/v1/graphs/?x=1"):
            self.assertEqual(self.ask("GET", path).status, 403, path)
        self.assertEqual(self.ask("GET", "/latent/v1/capabilities").status, 200)

    def test_the_replica_that_drains_gets_nothing_new(self):
        """Runs last: the replica is gone then."""
        self.replicas["b"].process.terminate()
        self.wait_until_up({"a"})
        self.assertTrue(self.draw())

    def test_jobs_of_a_client_stay_at_one_replica(self):
        """Asks for a job that no replica has: what answers 404 is what would have it."""
        def answered():
            return {name: scrape(self.replicas[name]).sum("latentd_http_responses_total", api="openai", code="4xx") for name in NAMES}

        before = answered()
        for listen in (self.listen, self.other_listen) * 2:
            self.assertEqual(self.ask("GET", "/v1/videos/none", listen).status, 404)
        after = answered()
        self.assertEqual(sorted(after[name] - before[name] for name in NAMES), [0, 4])


if __name__ == "__main__":
    unittest.main()
