"""Spans: what a collector of traces gets from a server with --otlp-endpoint, and when."""

import pathlib
import signal
import socket
import tempfile
import unittest

import grpc

from certificates import Authority
from collector import Collector, attributes
from metrics import METRICS, scrape
from server_process import DEADLINE, Api, Server, wait_until

ERROR = 2  # Status.StatusCode
INTERNAL, SERVER = 1, 2  # SpanKind
MOST_WAITING = 2048  # spans that may wait
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


def traceparent(flags, trace=TRACE):
    return [("traceparent", f"00-{trace}-{PARENT}-{flags}")]


def address_of_nobody():
    """(an address of this machine without a listener, the socket that keeps others from it). A Collector may have it too:
    gRPC's servers share ports."""
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    keeper.bind(("127.0.0.1", 0))
    return f"127.0.0.1:{keeper.getsockname()[1]}", keeper


class TracesTestCase(unittest.TestCase):
    def collect(self, *where, **named):
        collector = Collector(*where, **named)
        self.addCleanup(collector.stop)
        return collector

    def start(self, *arguments, **named):
        server = Server(*arguments, **{"buckets": "64x64", **named}).start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        return server, api


class TracesTest(TracesTestCase):
    def test_a_picture_of_two_models_is_a_tree(self):
        collector = self.collect()
        server, api = self.start(f"--otlp-endpoint={collector.address}", METRICS,
                                 environment={"OTEL_SERVICE_NAME": "stars",
                                              "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=a%20test"})
        request = api.request(request_id="refined", num_inference_steps=5, refine=True, denoising_end=0.6)
        api.start_generate(request, metadata=[*traceparent("01"), ("tracestate", "congo=1")]).result(DEADLINE)
        call, work = collector.wait_for_call("refined")

        self.assertEqual(call.trace_id.hex(), TRACE)
        self.assertEqual(call.parent_span_id.hex(), PARENT)
        self.assertEqual(call.trace_state, "congo=1")
        self.assertEqual((call.name, call.kind, call.status.code), ("latent.v1.ImageGeneration/Generate", SERVER, 0))
        self.assertEqual(attributes(call), {
            "rpc.system": "grpc", "rpc.service": "latent.v1.ImageGeneration", "rpc.method": "Generate",
            "rpc.grpc.status_code": 0, "latentd.request_id": "refined", "latentd.width": 64, "latentd.height": 64,
            "latentd.steps": 5, "latentd.images": 1})

        base, refiner, image = {"latentd.model": "base"}, {"latentd.model": "refiner"}, {"latentd.image": 0}
        self.assertEqual([(span.name, attributes(span)) for span in work],
                         [("queue", {}), ("text", base), ("steps", {**image, **base, "latentd.steps": 3}), ("text", refiner),
                          ("steps", {**image, **refiner, "latentd.steps": 2}), ("decode", image), ("encode_file", image)])
        for span in work:
            self.assertEqual((span.parent_span_id, span.kind), (call.span_id, INTERNAL))
        times = [(span.start_time_unix_nano, span.end_time_unix_nano) for span in work]
        ends = [call.start_time_unix_nano, *(time for both in times for time in both), call.end_time_unix_nano]
        self.assertEqual(ends, sorted(ends))  # one after the other, within the call
        self.assertGreater(call.end_time_unix_nano - call.start_time_unix_nano, 0)

        self.assertEqual(collector.unknown, 0)
        version = server.wait_for_log(lambda entry: "version" in entry)["version"]
        self.assertEqual(collector.resources[0], {"service.name": "stars", "service.version": version,
                                                  "deployment.environment": "a test"})
        self.assertEqual(server.request_line("refined")["trace_id"], TRACE)
        sent = len(work) + 1
        wait_until(lambda: scrape(server).sum("latentd_spans_sent_total") == sent, "the spans were not counted")

    def test_who_is_recorded(self):
        collector = self.collect()
        server, api = self.start(f"--otlp-endpoint=http://{collector.address}")
        api.start_generate(api.request(request_id="unrecorded"), metadata=traceparent("00")).result(DEADLINE)
        with self.assertRaises(grpc.RpcError):
            api.generate(api.request(request_id="refused", prompt="", width=9))
        api.generate(api.request(request_id="alone", num_images_per_prompt=2))
        call, work = collector.wait_for_call("alone")
        self.assertEqual(call.parent_span_id, b"")
        self.assertEqual(server.request_line("alone")["trace_id"], call.trace_id.hex())
        self.assertEqual(server.request_line("unrecorded")["trace_id"], TRACE)
        self.assertEqual(sorted(attributes(span).get("latentd.image", -1) for span in work), [-1, -1, 0, 0, 0, 1, 1, 1])
        refused, below = collector.wait_for_call("refused")
        self.assertEqual((refused.status.code, below), (ERROR, []))
        self.assertEqual(attributes(refused)["rpc.grpc.status_code"], grpc.StatusCode.INVALID_ARGUMENT.value[0])
        self.assertEqual(server.stop(), 0)
        self.assertEqual({span.trace_id for span in collector.spans}, {call.trace_id, refused.trace_id})

    def test_without_the_flag_there_are_none(self):
        collector = self.collect()
        server, api = self.start(METRICS, environment={"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}"})
        api.start_generate(api.request(), metadata=traceparent("01")).result(DEADLINE)
        self.assertEqual(scrape(server).sum("latentd_spans_sent_total") + scrape(server).sum("latentd_spans_dropped_total"), 0)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(collector.spans, [])

    def test_the_last_spans_are_sent_before_the_end(self):
        collector = self.collect()
        server, api = self.start(f"--otlp-endpoint={collector.address}", buckets="256x256")
        events = api.stream(api.request(request_id="last", width=256, height=256, num_inference_steps=4))
        next(event for event in events if event.HasField("progress"))
        server.signal(signal.SIGTERM)
        self.assertEqual(list(events)[-1].WhichOneof("event"), "completed")
        self.assertEqual(server.wait(), 0)
        self.assertIn("last", [attributes(span).get("latentd.request_id") for span in collector.spans])

    def test_a_collector_with_a_certificate(self):
        with tempfile.TemporaryDirectory() as folder:
            authority = Authority(pathlib.Path(folder), "authority")
            pair = authority.issue("collector")
            credentials = grpc.ssl_server_credentials([(pair.key.read_bytes(), pair.certificate.read_bytes())])
            collector = self.collect("localhost:0", credentials=credentials)
            _, api = self.start(f"--otlp-endpoint=https://{collector.address}",
                                environment={"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(authority.pem)})
            api.generate(api.request(request_id="secure"))
            collector.wait_for_call("secure")


class CollectorAwayTest(TracesTestCase):
    def test_pictures_come_and_spans_wait_up_to_a_bound(self):
        address, keeper = address_of_nobody()
        self.addCleanup(keeper.close)
        server, api = self.start(f"--otlp-endpoint={address}", METRICS)
        first = api.generate(api.request(request_id="first")).images[0].data
        server.wait_for_log(lambda entry: entry["message"] == "spans cannot be sent")
        for _ in range(MOST_WAITING):  # one span each
            with self.assertRaises(grpc.RpcError):
                api.generate(api.request(width=9))
        self.assertEqual(api.generate(api.request()).images[0].data, first)
        wait_until(lambda: scrape(server).sum("latentd_spans_dropped_total", reason="queue_full") > 0, "none was dropped")
        collector = self.collect(address)
        collector.wait_for(MOST_WAITING)
        collector.wait_for_call("first")
        server.wait_for_log(lambda entry: entry["message"] == "spans are sent again")
        api.generate(api.request(request_id="later"))
        collector.wait_for_call("later")
        self.assertEqual(server.stop(), 0)
        self.assertEqual(sum("spans cannot be sent" in line for line in server.lines), 1)

    def test_a_server_ends_without_it(self):
        address, keeper = address_of_nobody()
        self.addCleanup(keeper.close)
        server, api = self.start(f"--otlp-endpoint={address}")
        api.generate(api.request())
        self.assertEqual(server.stop(), 0)
        self.assertTrue(any("spans were not sent before the end" in line for line in server.lines))


if __name__ == "__main__":
    unittest.main()
