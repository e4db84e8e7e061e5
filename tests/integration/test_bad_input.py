"""Bad input gets an answer that names the mistake, and the server goes on."""

import unittest

import grpc

import png
from server_process import DEADLINE, facts, reason, violations
from shared_server import SharedServerTestCase


class BadInputTest(SharedServerTestCase):
    ARGUMENTS = (f"--max-request-bytes={8 << 20}", "--allow-import")

    def refusal(self, request):
        """The error of both methods, which is the same."""
        errors = []
        for call in (self.api.generate, lambda message: list(self.api.stream(message))):
            with self.assertRaises(grpc.RpcError) as caught:
                call(request)
            errors.append(caught.exception)
        self.assertEqual(errors[0].code(), errors[1].code())
        self.assertEqual(errors[0].details(), errors[1].details())
        self.assertLess(len(errors[0].details()), 4096)
        return errors[0]

    def assert_refused(self, *fields, **values):
        error = self.refusal(self.api.request(**values))
        self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT, error)
        self.assertLessEqual(set(fields), set(violations(error)), error)

    def test_sizes(self):
        for size in (0, -8, 100, 1 << 20, -(1 << 31), (1 << 31) - 8):
            with self.subTest(size=size):
                self.assert_refused("width", "height", width=size, height=size)

    def test_steps(self):
        for steps in (0, -1, 10_000):
            self.assert_refused("num_inference_steps", num_inference_steps=steps)

    def test_programs_are_told_the_limits_of_what_is_wrong(self):
        can = self.api.capabilities()
        for names, wrong in ((("min_side", "max_side", "side_multiple", "max_pixels"), {"width": 1 << 20}),
                             (("min_steps", "max_steps"), {"num_inference_steps": 0}),
                             (("max_guidance_scale",), {"guidance_scale": 1e300}),
                             (("max_feature_cache_interval",), {"feature_cache_interval": 11}),
                             (("max_images_per_prompt",), {"num_images_per_prompt": 10_000}),
                             (("min_priority", "max_priority"), {"priority": 4}),
                             ((), {"strength": 2.0})):
            with self.subTest(wrong=wrong):
                error = self.refusal(self.api.request(**wrong))
                self.assertEqual(reason(error), ("BAD_FIELDS", False))
                self.assertEqual({name: float(value) for name, value in facts(error).items()},
                                 {name: getattr(can, name) for name in names})

    def test_numbers_that_are_none(self):
        for value in (float("nan"), float("inf"), -1.0, 1e300):
            self.assert_refused("guidance_scale", guidance_scale=value)
        for interval in ({"start": 0.5}, {"start": -0.1, "stop": 1}, {"stop": 1.5}):
            with self.subTest(interval=interval):
                self.assert_refused("guidance_interval", guidance_interval=interval)

    def test_prompts(self):
        self.assert_refused("prompt", prompt="")
        self.assert_refused("prompt", prompt="a" * (1 << 20))

    def test_text_that_is_not_utf8(self):
        message = self.api.request().SerializeToString()
        for field, bad in ((2, b"\xff\xfe"), (4, b"\xed\xa0\x80"), (13, b"\xc3(")):
            error = self.refusal(message + bytes([field << 3 | 2, len(bad)]) + bad)
            self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
            name = {2: "prompt", 4: "negative_prompt", 13: "scheduler"}[field]
            self.assertEqual(list(violations(error)), [name])

    def test_bytes_that_are_no_request(self):
        error = self.refusal(b"\x12\xff\xff\xff\x7f")
        self.assertEqual((error.code(), reason(error)[0]), (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED"))

    def methods(self):
        """The paths of all methods that are described."""
        for service in self.api.services():
            if service.startswith("latent.v1.") or service.startswith("grpc.health."):
                for method in self.api.pool.FindServiceByName(service).methods:
                    yield f"/{service}/{method.name}", method.input_type.full_name

    def raw_refusal(self, path, data):
        call = self.api.channel_of(path).unary_stream(path)
        with self.assertRaises(grpc.RpcError) as caught:
            list(call(data, timeout=DEADLINE))
        return caught.exception

    def test_every_method_names_bytes_that_are_no_message_of_its_type(self):
        methods = list(self.methods())
        self.assertGreater(len(methods), 15)
        for path, type_name in methods:
            with self.subTest(method=path):
                error = self.raw_refusal(path, b"\xff\xff\xff")
                self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT, error)
                self.assertEqual(reason(error)[0], "MALFORMED")
                self.assertIn(type_name, error.details())

    def test_every_method_names_fields_that_it_does_not_know(self):
        unknown = b"\xb8\xa6\x02\x01"  # field 4711
        for path, _ in self.methods():
            with self.subTest(method=path):
                # The message is grpc's, and a newer probe may send what a newer one has.
                if path == "/grpc.health.v1.Health/Check":
                    self.assertTrue(self.api.channel.unary_unary(path)(unknown, timeout=DEADLINE))
                if path.startswith("/grpc.health."):
                    continue
                error = self.raw_refusal(path, unknown)
                self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT, error)
                self.assertIn("4711", violations(error))

    def test_capabilities_list_the_fields_that_a_request_may_have(self):
        fields = self.api.capabilities().request_fields
        described = self.api.pool.FindMessageTypeByName("latent.v1.GenerateRequest").fields
        self.assertLessEqual({field.name for field in described}, set(fields))
        self.assertIn("output.format", fields)

    def test_schedulers(self):
        self.assert_refused("scheduler", scheduler="magic")

    def test_what_excludes_each_other(self):
        picture = png.write(64, 64, bytes(64 * 3))
        self.assert_refused("strength", image=picture, strength=0.5, denoising_start=0.5)
        self.assert_refused("seeds", seeds=[1, 2])
        self.assert_refused("latents", image=picture, latents=b"any")

    def test_latents(self):
        for latents in (b"", b"not a file", b"\xff" * 8 + b"{}", bytes(1 << 20)):
            with self.subTest(latents=latents[:20]):
                self.assert_refused("latents", latents=latents)

    def test_pictures(self):
        whole = png.write(64, 64, bytes(64 * 3))
        for picture in (b"", b"not a picture", whole[:50], whole[:8] + b"\0" * 100):
            with self.subTest(picture=picture[:20]):
                self.assert_refused("image", image=picture, num_inference_steps=4)

    def test_a_decompression_bomb(self):
        bomb = png.write(30_000, 30_000, bytes(30_000 * 3))
        self.assertLess(len(bomb), 4 << 20)
        self.assert_refused("image", image=bomb)

    def test_every_bad_field_is_named_at_once(self):
        error = self.refusal(self.api.request(width=7, height=-1, num_inference_steps=0, guidance_scale=99.0,
                                              scheduler="magic", prompt="", model="none", strength=2.0))
        self.assertLessEqual({"width", "height", "num_inference_steps", "guidance_scale", "scheduler", "prompt",
                              "model", "strength"}, set(violations(error)))

    def test_requests_have_a_limit(self):
        error = self.refusal(self.api.request(image=bytes(9 << 20)))
        self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)

    def test_answers_stay_small(self):
        error = self.refusal(self.api.request(seeds=range(10_000), scheduler="x" * 60_000, timestep_spacing="y" * 60_000))
        details = dict(error.trailing_metadata())["grpc-status-details-bin"]
        self.assertLess(len(details) + len(error.details()), 4096)

    def test_methods_that_do_not_exist(self):
        method = self.api.channel.unary_unary("/latent.v1.ImageGeneration/Nothing")
        with self.assertRaises(grpc.RpcError) as caught:
            method(b"")
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)

    def tearDown(self):
        self.assertIsNone(self.server.process.poll(), self.server.log())
        self.assertEqual(len(self.api.generate(self.api.request(num_inference_steps=1)).images), 1)


if __name__ == "__main__":
    unittest.main()
