"""A real Prometheus on a real latentd that draws: rules, alerts and the dashboard's queries, as they are shipped."""

import pathlib
import sys
import tempfile
import threading
import unittest
import urllib.request

import grpc

import metrics
from prometheus_process import Prometheus
from server_process import ALLOW_COLD, COLD_OK, Api, Server

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "monitoring"))
import monitoring_files  # noqa: E402


class Load:
    """Pictures of every kind, one after the other until it is stopped; `drawn` counts them."""

    def __init__(self, address, http):
        self.api = Api(address)
        self.http = http
        self.drawn = 0
        self.failure = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            start = self.api.generate(self.api.request()).images[0].data
            while not self.stopping.is_set():
                self.api.generate(self.api.request(refine=True, num_inference_steps=4))
                self.api.generate(self.api.request(width=96, image=start, strength=0.6))
                list(self.api.stream(self.api.request(num_images_per_prompt=2)))
                self._refused(self.api.request(width=9))
                with urllib.request.urlopen(f"http://{self.http}/v1/models", timeout=60) as answer:
                    answer.read()
                self.drawn += 4
        except Exception as error:  # told by stop(), on the test's own thread
            self.failure = error

    def _refused(self, request):
        try:
            self.api.generate(request)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.INVALID_ARGUMENT:
                raise

    def stop(self):
        self.stopping.set()
        self.thread.join()
        self.api.close()
        if self.failure is not None:
            raise self.failure


class WatchedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cache = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.cache.cleanup)
        cls.server = Server(metrics.METRICS, ALLOW_COLD, "--http-listen=127.0.0.1:0", cache=cls.cache.name)
        cls.addClassCleanup(cls.server.kill)
        cls.prometheus = Prometheus(metrics.metrics_address(cls.server))
        cls.addClassCleanup(cls.prometheus.kill)
        address = cls.server.start().address
        http = cls.server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"].removeprefix("http on ")
        cls.load = Load(address, http)
        cls.addClassCleanup(cls.load.stop)
        cls.prometheus.wait_for("two scrapes of pictures", lambda: cls.seen("latentd_images_generated_total") >= 2)

    @classmethod
    def seen(cls, counter):
        """How many different values its sum has had."""
        return len({value for values in cls.prometheus.values(f"sum({counter}) > 0").values() for value in values})

    def test_every_rule_is_evaluated_without_error(self):
        loaded = [rule for group in self.prometheus.ask("rules")["groups"] for rule in group["rules"]]
        self.assertEqual({rule["name"] for rule in loaded},
                         {*monitoring_files.rules("recording.yml"), *monitoring_files.rules("alerts.yml")})
        for rule in loaded:
            self.prometheus.wait_for(rule["name"], lambda: self.rule(rule["name"])["health"] != "unknown")
            self.assertEqual((self.rule(rule["name"])["health"], rule.get("lastError")), ("ok", None), rule["name"])

    def rule(self, name):
        return next(rule for group in self.prometheus.ask("rules")["groups"] for rule in group["rules"] if rule["name"] == name)

    def test_every_recording_rule_has_data(self):
        for name in monitoring_files.rules("recording.yml"):
            with self.subTest(name):
                self.prometheus.wait_for(name, lambda: self.prometheus.values(name))

    def test_every_query_of_the_dashboard_has_data(self):
        asked = monitoring_files.queries(monitoring_files.dashboard())
        self.assertGreater(len(asked), 50)
        for where, expression in asked:
            with self.subTest(where):
                self.prometheus.wait_for(expression, lambda: self.prometheus.values(expression))

    def test_the_autoscaler_sees_the_queue(self):
        query = monitoring_files.autoscaler_query("instance") + " >= 1"
        self.assertEqual(len(self.prometheus.wait_for(query, lambda: self.prometheus.values(query))), 1)

    def test_recorded_values_are_what_happens(self):
        (_, rates), = self.prometheus.values("instance:latentd_images_generated:rate5m").items()
        self.assertGreater(max(rates), 0)
        (_, errors), = self.prometheus.values("instance:latentd_request_errors:ratio5m").items()
        self.assertEqual(max(errors), 0)  # refused ones were wrong requests
        (_, compiling), = self.prometheus.values("instance:latentd_startup_compile:ratio").items()
        self.assertTrue(0 < compiling[-1] < 1, compiling)

    def test_when_a_bucket_is_cold_its_alert_fires_and_no_other(self):
        self.prometheus.wait_for("no alert is pending", lambda: not self.prometheus.ask("alerts")["alerts"])
        self.assertEqual(self.prometheus.values('ALERTS{alertstate="firing"}'), {})
        self.load.api.generate(self.load.api.request(width=72, bucket_policy=COLD_OK))
        fired = self.prometheus.wait_for("the alert", self.prometheus.firing)
        self.assertEqual([alert["labels"]["alertname"] for alert in fired], ["LatentdCompiledAfterReady"])
        instance = metrics.metrics_address(self.server)
        self.assertEqual(fired[0]["labels"], {"alertname": "LatentdCompiledAfterReady", "severity": "page",
                                              "job": "latentd", "instance": instance})
        self.assertEqual(fired[0]["annotations"]["summary"], f"{instance} compiled graphs for a request")


if __name__ == "__main__":
    unittest.main()
