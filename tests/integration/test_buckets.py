"""Sizes: which are drawn, which are refused, and that nothing compiles for any of it."""

import itertools
import unittest

import grpc

import png
from metrics import METRICS, compilations
from server_process import ALLOW_COLD, COLD_OK, DEADLINE, DEMO_BUCKETS, EXACT, SNAP, Api, Server, facts, reason, violations


class BucketsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(METRICS, ALLOW_COLD).start()  # 64x64 and 96x64
        cls.api = Api(cls.server.address)

    @classmethod
    def tearDownClass(cls):
        cls.api.close()
        cls.server.kill()

    def refusal(self, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            self.api.generate(self.api.request(**fields))
        return caught.exception

    def test_a_size_that_is_not_listed_is_refused_with_the_list(self):
        error = self.refusal(width=128, height=64)
        self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("64x64", violations(error)["width"])
        self.assertIn("96x64", violations(error)["width"])
        self.assertEqual(reason(error)[0], "NO_SUCH_BUCKET")
        self.assertEqual(facts(error), {"requested_size": "128x64", "buckets": "96x64,64x64"})
        self.assertIn("BUCKET_POLICY_SNAP", violations(error)["width"])
        self.assertIn("BUCKET_POLICY_COLD_OK", violations(error)["width"])  # as this server does

    def test_snap_draws_in_the_smallest_bucket_that_covers_and_cuts_out_the_middle(self):
        wide = self.api.generate(self.api.request(width=96, height=64, original_size={"width": 80, "height": 64},
                                                  target_size={"width": 80, "height": 64}))
        snapped = self.api.generate(self.api.request(width=80, height=64, bucket_policy=SNAP))
        executed = snapped.completed.executed_size
        self.assertEqual((executed.width, executed.height), (96, 64))
        width, height, rows, _ = png.read(snapped.images[0].data)
        self.assertEqual((width, height), (80, 64))
        _, _, wide_rows, _ = png.read(wide.images[0].data)
        self.assertEqual(rows, [row[8 * 3:88 * 3] for row in wide_rows])

    def test_snap_refuses_what_no_bucket_covers(self):
        error = self.refusal(width=64, height=96, bucket_policy=SNAP)
        self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("96x64", " ".join(violations(error).values()))

    def test_cold_ok_compiles_once(self):
        before = compilations(self.server)
        request = self.api.request(width=72, height=64, bucket_policy=COLD_OK)
        first = self.api.generate(request)
        compiled = compilations(self.server)
        self.assertGreater(compiled, before)
        self.assertEqual(self.api.generate(request).images[0].data, first.images[0].data)
        self.assertEqual(compilations(self.server), compiled)

    def test_a_request_without_a_size_takes_the_bucket_nearest_to_the_models_own(self):
        default = self.api.capabilities().default_size
        self.assertEqual((default.width, default.height), (96, 64))  # the demo's own is 256x256
        request = self.api.request()
        request.ClearField("width")
        request.ClearField("height")
        drawn = self.api.generate(request)
        self.assertEqual(png.read(drawn.images[0].data)[:2], (96, 64))
        self.assertEqual((drawn.completed.parameters.width, drawn.completed.parameters.height), (96, 64))

    def test_capabilities_list_the_buckets(self):
        listed = {(bucket.size.width, bucket.size.height): bucket.ready for bucket in self.api.capabilities().buckets}
        self.assertLessEqual({(64, 64): True, (96, 64): True}.items(), listed.items())


class ColdTest(unittest.TestCase):
    def test_a_listed_bucket_that_would_have_to_be_compiled_is_cold(self):
        server = Server("--compile-at-start=false")
        self.addCleanup(server.kill)
        server.listening()
        api = Api(server.address)
        self.addCleanup(api.close)
        server.wait_for_log(lambda entry: "not ready" in entry["message"] or entry["message"] == "degraded")
        status = api.call("Admin", "GetServerStatus")
        self.assertEqual(status.state, 4)  # DEGRADED
        self.assertFalse(any(bucket.ready for bucket in status.buckets))
        self.assertTrue(all(bucket.reason for bucket in status.buckets))
        self.assertEqual(api.health(), "NOT_SERVING")
        self.assertEqual(api.health("liveness"), "SERVING")
        with self.assertRaises(grpc.RpcError) as caught:
            api.generate(api.request())
        self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        self.assertEqual(reason(caught.exception)[0], "BUCKET_COLD")
        events = api.call("GraphCache", "WarmBuckets", selector={"buckets": [{"width": 64, "height": 64}]})
        self.assertEqual(events[-1].done.failed, 0)
        self.assertEqual(api.health(), "SERVING")
        self.assertTrue(api.generate(api.request()).images[0].data)


    def test_requests_compile_nothing_by_default_and_operators_do(self):
        server = Server(METRICS, buckets="64x64").start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        before = compilations(server)
        request = api.request(width=72, bucket_policy=COLD_OK)
        with self.assertRaises(grpc.RpcError) as caught:
            api.generate(request)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        self.assertEqual(reason(caught.exception)[0], "COMPILE_FORBIDDEN")
        self.assertIn("--allow-cold-requests", caught.exception.details())
        self.assertIn("72x64 is not one of 64x64", caught.exception.details())
        self.assertEqual(compilations(server), before)
        for policy in (EXACT, SNAP):
            with self.assertRaises(grpc.RpcError) as caught:
                api.generate(api.request(width=72, bucket_policy=policy))
            self.assertEqual(reason(caught.exception)[0], "NO_SUCH_BUCKET")
            self.assertIn("--allow-cold-requests", violations(caught.exception)["width"])
            self.assertNotIn("COLD_OK", violations(caught.exception)["width"])
        events = api.call("GraphCache", "WarmBuckets", selector={"buckets": [{"width": 72, "height": 64}]})
        self.assertEqual(events[-1].done.failed, 0)
        self.assertTrue(api.generate(request).images[0].data)


class StrictTest(unittest.TestCase):
    """Everything that a request may say, and nothing compiles. Takes the place of ForbidCompiling's caller in
    core/engine/prepare/start_up.cc if that is taken out."""

    def test_mixed_load(self):
        server = Server(METRICS, ALLOW_COLD, "--forbid-compile-after-ready", buckets=DEMO_BUCKETS).start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        before = compilations(server)
        self.assertGreater(before, 0)
        start = api.generate(api.request(width=256, height=256)).images[0].data
        sizes = [(256, 256), (320, 192), (192, 320)]
        schedulers = ["euler", "euler_a", "ddim", "dpmpp_2m", "heun", "lcm"]
        pipelines = [{}, {"refine": True}, {"image": start, "strength": 0.6}]
        cases = itertools.product(schedulers, pipelines)
        calls = []
        for number, (scheduler, pipeline) in enumerate(cases):
            width, height = sizes[number % 3]
            calls.append(api.start_generate(api.request(
                width=width, height=height, scheduler=scheduler, num_inference_steps=3 + number % 4,
                guidance_scale=[1.0, 3.0, 7.5][number // 3 % 3], guidance_rescale=[0.0, 0.7][number % 2],
                num_images_per_prompt=1 + number % 2, seed=number, **pipeline)))
        for call in calls:
            self.assertTrue(call.result(DEADLINE).images)
        self.assertEqual(compilations(server), before)
        with self.assertRaises(grpc.RpcError) as caught:
            api.generate(api.request(width=128, height=128, bucket_policy=COLD_OK))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        self.assertEqual(reason(caught.exception)[0], "COMPILE_FORBIDDEN")
        self.assertEqual(compilations(server), before)


if __name__ == "__main__":
    unittest.main()
