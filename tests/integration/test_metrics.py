"""/metrics of a real server: what docs/metrics.md names is there, and counts what was done."""

import pathlib
import re
import unittest
import urllib.error
import urllib.request

import grpc

import metrics
import server_process
from server_process import ALLOW_COLD, COLD_OK, DEADLINE, Api, Server

DOCUMENTATION = pathlib.Path(__file__).parents[2] / "docs" / "metrics.md"
# Their labels are known once models are loaded.
LATER = {"latentd_bucket_warm", "latentd_model_info"}


def documented():
    return set(re.findall(r"^\| `(\w+)` \|", DOCUMENTATION.read_text(), re.MULTILINE))


class MetricsTest(unittest.TestCase):
    def setUp(self):
        self.server = Server(metrics.METRICS, ALLOW_COLD)
        self.addCleanup(self.server.kill)
        self.address = metrics.metrics_address(self.server)

    def scrape(self):
        return metrics.Scrape(self.address)

    def api(self):
        api = Api(self.server.start().address)
        self.addCleanup(api.close)
        return api

    def wait_until_counted(self):
        """A call is counted when it is logged, which may be after its client has the answer."""
        self.server.wait_for_log(lambda entry: entry["message"] == "request")

    def test_everything_is_there_from_the_start(self):
        self.assertEqual(documented() - self.scrape().families - LATER, set())
        self.server.start()
        scrape = self.scrape()
        self.assertEqual(documented(), scrape.families)
        self.assertEqual(scrape.sum("latentd_server_state", state="ready"), 1)
        self.assertEqual(scrape.sum("latentd_server_state"), 1)
        self.assertGreater(scrape.sum("latentd_ready_timestamp_seconds"), 0)
        self.assertEqual(scrape.sum("latentd_requests_total"), 0)

    def test_probes_over_http_say_whether_it_is_alive_and_ready(self):
        server = Server(metrics.METRICS, "--compile-at-start=false")
        self.addCleanup(server.kill)
        address = metrics.metrics_address(server)
        server.listening().wait_for_log(lambda entry: entry["message"] == "degraded")
        self.assertEqual(self.page(address, "healthz"), (200, "ok\n"))
        code, line = self.page(address, "readyz")
        self.assertEqual(code, 503)
        self.assertTrue(line.startswith("no bucket is ready: "), line)
        api = Api(server.address)
        self.addCleanup(api.close)
        api.call("GraphCache", "WarmBuckets", selector={"all": True})
        self.assertEqual(self.page(address, "readyz"), (200, "ok\n"))

    def page(self, address, name):
        try:
            with urllib.request.urlopen(f"http://{address}/{name}", timeout=DEADLINE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def test_no_series_comes_later(self):
        """Guard: kBucket, which has "other", of kBucketLastUsed (core/metrics/families.h)."""
        api = self.api()
        series = set(self.scrape().values)
        api.generate(api.request())
        api.generate(api.request(width=72, bucket_policy=COLD_OK))
        self.wait_until_counted()
        self.assertEqual(set(self.scrape().values) - series, set())

    def test_a_picture_is_counted(self):
        api = self.api()
        before = self.scrape()
        api.generate(api.request(num_inference_steps=3))
        self.wait_until_counted()
        scrape = self.scrape()
        for name, labels, expected in (
                ("latentd_requests_total", {"method": "Generate", "code": "OK"}, 1),
                ("latentd_requests_total", {}, 1),
                ("latentd_request_duration_seconds_count", {"method": "Generate", "bucket": "64x64"}, 1),
                ("latentd_request_queue_duration_seconds_count", {"bucket": "64x64"}, 1),
                ("latentd_requests_in_flight", {}, 0),
                ("latentd_queue_depth", {}, 0),
                ("latentd_denoise_steps_total", {"model": "base"}, 3),
                ("latentd_denoise_step_duration_seconds_count", {"model": "base", "bucket": "64x64"}, 3),
                ("latentd_stage_duration_seconds_count", {"stage": "decode", "model": "base", "bucket": "64x64"}, 1),
                ("latentd_images_generated_total", {"bucket": "64x64", "format": "png"}, 1),
                ("latentd_pixels_generated_total", {}, 64 * 64)):
            with self.subTest(name=name, **labels):
                self.assertEqual(scrape.sum(name, **labels), expected)
        for name in ("latentd_graph_compilations_total", "latentd_graph_compile_failures_total",
                     "latentd_invalid_images_total", "latentd_out_of_memory_total"):
            self.assertEqual(scrape.sum(name), before.sum(name), name)

    def test_refusals_are_counted_by_reason(self):
        api = self.api()
        with self.assertRaises(grpc.RpcError):
            api.generate(api.request(width=9))
        self.wait_until_counted()
        scrape = self.scrape()
        self.assertEqual(scrape.sum("latentd_requests_rejected_total", reason="invalid"), 1)
        self.assertEqual(scrape.sum("latentd_requests_rejected_total"), 1)
        self.assertEqual(scrape.sum("latentd_requests_total", code="INVALID_ARGUMENT"), 1)
        self.assertEqual(scrape.sum("latentd_request_duration_seconds_count"), 0)

    def test_only_metrics_are_there(self):
        with self.assertRaises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(f"http://{self.address}/", timeout=server_process.DEADLINE)
        raised.exception.close()
        self.assertEqual(raised.exception.code, 404)

    def test_a_port_in_use_ends_the_start(self):
        second = Server(f"--metrics-listen={self.address}")
        self.addCleanup(second.kill)
        self.assertEqual(second.wait(), 1)
        self.assertIn(f"cannot listen on {self.address}", second.log())


if __name__ == "__main__":
    unittest.main()
