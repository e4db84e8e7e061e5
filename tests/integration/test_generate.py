"""Pictures, from a stock client."""

import concurrent.futures
import json
import os
import re
import struct
import tempfile
import unittest

import grpc

import png
from server_process import ALLOW_COLD, COLD_OK, DEADLINE, Api, Server
from shared_server import SharedServerTestCase

STAGE_STEPS = 3  # latent.v1.Stage


class GenerateTest(SharedServerTestCase):
    ARGUMENTS = (ALLOW_COLD,)

    def test_a_prompt_becomes_a_png(self):
        response = self.api.generate(self.api.request(width=96, height=64))
        self.assertEqual(len(response.images), 1)
        image = response.images[0]
        self.assertEqual((image.mime_type, image.seed, image.size.width, image.size.height), ("image/png", 7, 96, 64))
        width, height, rows, texts = png.read(image.data)
        self.assertEqual((width, height), (96, 64))
        self.assertGreater(len(set(rows)), 8)
        self.assertIn("Seed: 7", texts["parameters"])

    def test_the_same_seed_gives_the_same_picture_and_another_does_not(self):
        pictures = [self.api.generate(self.api.request(seed=seed)).images[0].data for seed in (1, 1, 2)]
        self.assertEqual(pictures[0], pictures[1])
        self.assertNotEqual(pictures[0], pictures[2])

    def test_the_stream_tells_what_happens(self):
        events = list(self.api.stream(self.api.request(request_id="my-stream", num_inference_steps=3)))
        kinds = [event.WhichOneof("event") for event in events]
        self.assertEqual(kinds[:2], ["queued", "started"])
        self.assertEqual(kinds[-1], "completed")
        self.assertEqual({event.request_id for event in events}, {"my-stream"})
        steps = [event.progress.step for event in events if event.HasField("progress")]
        self.assertEqual(steps, sorted(steps))
        self.assertLessEqual(set(steps), {0, 1, 2, 3})
        self.assertTrue(steps)

    def test_chunks_of_the_stream_are_the_unary_picture(self):
        request = self.api.request(width=640, height=512, num_inference_steps=1, bucket_policy=COLD_OK)
        request.output.format = 4  # FORMAT_RAW_RGB8
        data = b""
        for event in self.api.stream(request):
            if event.HasField("image_chunk"):
                self.assertEqual(event.image_chunk.offset, len(data))
                self.assertLessEqual(len(event.image_chunk.data), 1 << 20)
                data += event.image_chunk.data
        self.assertEqual(len(data), 640 * 512 * 3)
        self.assertEqual(self.api.generate(request).images[0].data, data)

    def test_several_pictures_have_seeds_of_their_own(self):
        response = self.api.generate(self.api.request(num_images_per_prompt=2))
        self.assertEqual([image.seed for image in response.images], [7, 8])
        alone = self.api.generate(self.api.request(seed=8)).images[0].data
        self.assertEqual(png.read(response.images[1].data)[2], png.read(alone)[2])

    def test_formats(self):
        for number, magic in ((2, b"\xff\xd8\xff"), (3, b"RIFF")):
            request = self.api.request()
            request.output.format = number
            self.assertTrue(self.api.generate(request).images[0].data.startswith(magic))

    def test_the_parameters_that_come_back_draw_the_same_picture(self):
        request = self.api.request()
        request.ClearField("seed")
        first = self.api.generate(request)
        again = self.api.generate(first.completed.parameters)
        self.assertEqual(first.images[0].data, again.images[0].data)
        self.assertEqual(first.completed.parameters.guidance_scale, 5.0)

    def latents(self, **fields):
        request = self.api.request(**fields)
        request.output.format = 5  # FORMAT_LATENT
        return self.api.generate(request).images[0]

    def test_latents_come_as_a_safetensors_file(self):
        image = self.latents(width=96, height=64)
        self.assertEqual((image.mime_type, image.size.width), ("application/octet-stream", 96))
        header_bytes, = struct.unpack("<Q", image.data[:8])
        tensor = json.loads(image.data[8:8 + header_bytes])["latents"]
        self.assertEqual((tensor["dtype"], tensor["shape"]), ("F32", [1, 4, 8, 12]))
        self.assertEqual(len(image.data), 8 + header_bytes + 4 * 4 * 8 * 12)

    def test_latents_are_what_a_picture_starts_from(self):
        noise = self.latents().data  # any numbers will do
        seeds = [png.read(self.api.generate(self.api.request(seed=seed, latents=noise)).images[0].data)[2]
                 for seed in (1, 2)]
        self.assertEqual(seeds[0], seeds[1])  # euler draws nothing else
        self.assertNotEqual(png.read(self.api.generate(self.api.request(seed=1)).images[0].data)[2], seeds[0])

    def test_a_guidance_interval_guides_some_steps(self):
        def rows(**fields):
            response = self.api.generate(self.api.request(num_inference_steps=4, **fields))
            return png.read(response.images[0].data)[2]

        guided, unguided = rows(), rows(guidance_scale=1)
        self.assertEqual(rows(guidance_interval={"start": 0, "stop": 1}), guided)
        self.assertEqual(rows(guidance_interval={"start": 0, "stop": 0.2}), unguided)  # int(4 * 0.2) steps
        late = rows(guidance_interval={"start": 0.5, "stop": 1})
        self.assertNotIn(late, (guided, unguided))
        self.assertEqual(rows(guidance_interval={"start": 0.5, "stop": 1}, batch_invariant=True), late)

    def test_guidance_stops_once_it_adds_little(self):
        def draw(**fields):
            return self.api.generate(self.api.request(num_inference_steps=8, guidance_scale=1.1, **fields))

        answer = draw(guidance_stop="GUIDANCE_STOP_AUTO")
        rows, texts = png.read(answer.images[0].data)[2:]
        after, = answer.completed.guidance_stopped_after
        self.assertIn(after, range(3, 8))
        self.assertEqual(answer.completed.skipped_rows, 8 - after)
        self.assertIn(f"Guidance stop: auto (after step {after})", texts["parameters"])
        whole = draw()
        self.assertNotEqual(png.read(whole.images[0].data)[2], rows)
        self.assertEqual((list(whole.completed.guidance_stopped_after), whole.completed.skipped_rows), ([], 0))
        self.assertNotIn("Guidance stop", png.read(whole.images[0].data)[3]["parameters"])
        again = self.api.generate(answer.completed.parameters)
        self.assertEqual(again.images[0].data, answer.images[0].data)

    def test_image_to_image_and_refiner(self):
        start = self.api.generate(self.api.request()).images[0].data
        redone = self.api.generate(self.api.request(image=start, strength=0.5, num_inference_steps=4))
        self.assertNotEqual(redone.images[0].data, start)
        refined = self.api.generate(self.api.request(refine=True, num_inference_steps=4))
        times = {(one.stage, one.model): one.time.ToNanoseconds() for one in refined.completed.timings.stages}
        self.assertGreater(times[STAGE_STEPS, "base"], 0)
        self.assertGreater(times[STAGE_STEPS, "refiner"], 0)

    def masked(self, image, **fields):
        """A request that draws over the right half of a picture of 64x64."""
        mask = png.write(64, 64, bytes(32 * 3) + b"\xff" * 32 * 3)
        return self.api.request(image=image, mask_image=mask, num_inference_steps=6, **fields)

    def test_a_mask_says_what_is_drawn_over(self):
        image = self.api.generate(self.api.request(prompt="a red circle on a blue background")).images[0].data
        halves = []
        for prompt in ("a green star on a white background", "a black ring on a yellow background"):
            request = self.masked(image, prompt=prompt)
            request.output.format = 5  # FORMAT_LATENT: the decoder mixes both halves
            latents = struct.unpack("<256f", self.api.generate(request).images[0].data[-1024:])
            halves.append([[latents[at:at + 4] for at in range(begin, 256, 8)] for begin in (0, 4)])
        self.assertEqual(halves[0][0], halves[1][0])
        self.assertNotEqual(halves[0][1], halves[1][1])
        used = self.api.generate(self.masked(image)).completed.parameters
        self.assertEqual((used.strength, used.mask_image), (0.9999, b""))

    def test_a_crop_is_put_back_into_the_picture(self):
        """Guard: Overlay in DrawnPicture; Plan::picture_size, which says what the answer may have."""
        row = b"".join(bytes((x, 255 - x, 90)) for x in range(200))
        image = png.write(200, 150, row)
        mask = png.write(200, 150, bytes(120 * 3) + b"\xff" * 40 * 3 + bytes(40 * 3))
        request = self.api.request(image=image, mask_image=mask, padding_mask_crop=8, num_inference_steps=4)
        drawn = self.api.generate(request)
        self.assertEqual((drawn.images[0].size.width, drawn.images[0].size.height), (200, 150))
        width, height, rows, texts = png.read(drawn.images[0].data)
        self.assertEqual((width, height), (200, 150))
        for got in rows:
            self.assertEqual((got[:120 * 3], got[160 * 3:]), (row[:120 * 3], row[160 * 3:]))
        self.assertNotEqual(rows[70][120 * 3:160 * 3], row[120 * 3:160 * 3])
        self.assertIn("Inpaint area: Only masked, Masked area padding: 8", texts["parameters"])
        used = drawn.completed.parameters
        self.assertEqual((used.padding_mask_crop, used.width, used.height), (8, 64, 64))
        softer = png.read(self.api.generate(self.api.request(
            image=image, mask_image=mask, padding_mask_crop=8, mask_blur=5, num_inference_steps=4)).images[0].data)[2]
        self.assertNotEqual(softer[70][117 * 3:120 * 3], row[117 * 3:120 * 3])  # greys are mixed

    def test_what_a_mask_keeps_may_be_put_back(self):
        image = self.api.generate(self.api.request(prompt="a red circle on a blue background")).images[0].data
        original = png.read(image)[2]
        through, kept = (png.read(self.api.generate(self.masked(image, preserve_unmasked=keeps)).images[0].data)[2]
                         for keeps in (False, True))
        left, right = slice(0, 32 * 3), slice(32 * 3, None)
        self.assertNotEqual([row[left] for row in through], [row[left] for row in original])
        self.assertEqual([row[left] for row in kept], [row[left] for row in original])
        self.assertEqual([row[right] for row in kept], [row[right] for row in through])

    def test_greys_of_a_differential_mask_say_how_much_changes(self):
        image = self.api.generate(self.api.request(prompt="a red circle on a blue background")).images[0].data
        original = png.read(image)[2]

        def change(grey):
            """How far each channel is from the image's, on the average."""
            drawn = self.api.generate(self.api.request(image=image, mask_image=png.write(64, 64, bytes([grey]) * 64 * 3),
                                                       differential=True, seed=5, num_inference_steps=8))
            self.assertTrue(drawn.completed.parameters.differential)
            self.assertEqual(drawn.completed.parameters.strength, 1)
            _, _, rows, texts = png.read(drawn.images[0].data)
            self.assertIn("Differential mask: True", texts["parameters"])
            return sum(abs(a - b) for got, row in zip(rows, original) for a, b in zip(got, row)) / (64 * 64 * 3)

        little, half, much = map(change, (0, 128, 255))
        self.assertLess(little, half)
        self.assertLess(half, much)
        for fields, said in (({"padding_mask_crop": 8}, "padding_mask_crop"), ({"preserve_unmasked": True}, "preserve_unmasked")):
            with self.assertRaises(grpc.RpcError) as caught:
                self.api.generate(self.masked(image, differential=True, **fields))
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn(f"{said}: must not be set with differential", caught.exception.details())

    def test_a_crop_of_nothing_is_refused(self):
        image = png.write(80, 64, bytes(80 * 3))
        for mask, said in ((png.write(80, 64, bytes(80 * 3)), "black all over"),
                           (png.write(64, 64, b"\xff" * 64 * 3), "must have the size of image")):
            with self.assertRaises(grpc.RpcError) as caught:
                self.api.generate(self.api.request(image=image, mask_image=mask, padding_mask_crop=0))
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn(said, caught.exception.details())

    def test_pictures_with_and_without_a_mask_share_steps(self):
        image = self.api.generate(self.api.request()).images[0].data
        requests = [self.masked(image, seed=1), self.api.request(seed=2, num_inference_steps=8),
                    self.masked(image, seed=3, scheduler="euler_ancestral"), self.api.request(seed=4, image=image, strength=0.6)]
        alone = [self.api.generate(request).images[0].data for request in requests]
        with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
            together = list(pool.map(lambda request: self.api.generate(request).images[0].data, requests))
        self.assertEqual(together, alone)

    def test_a_mask_needs_an_image_and_to_be_one(self):
        image = self.api.generate(self.api.request()).images[0].data
        for fields in ({"mask_image": image}, {"image": image, "mask_image": b"no image"}, {"image": image, "mask_image": b""}):
            with self.assertRaises(grpc.RpcError) as caught:
                self.api.generate(self.api.request(**fields))
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("mask_image", caught.exception.details())

    def test_dropped_tokens_are_counted(self):
        response = self.api.generate(self.api.request(prompt="circle " * 100))
        self.assertGreater(response.completed.dropped_tokens, 0)

    def test_what_cannot_fit_into_one_message_is_refused_at_once(self):
        request = self.api.request(width=2048, height=2048, bucket_policy=COLD_OK)
        with self.assertRaises(grpc.RpcError) as caught:
            self.api.generate(request)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("GenerateStream", caught.exception.details())

    def test_capabilities(self):
        capabilities = self.api.capabilities()
        self.assertEqual([model.component for model in capabilities.models], ["base", "refiner"])
        self.assertTrue(capabilities.can_refine)
        self.assertFalse(any(model.inpaints for model in capabilities.models))
        self.assertEqual(capabilities.models[0].default_mask_strength, 0.9999)
        self.assertIn("euler", capabilities.schedulers)

    def test_a_scheduler_may_be_named_as_other_programs_name_it(self):
        capabilities = self.api.capabilities()
        names = {each.name: each for each in capabilities.noise_schedulers}
        self.assertEqual(list(names), list(capabilities.schedulers))
        self.assertIn("DPM++ 2M SDE", names["dpmpp_2m_sde"].aliases)
        self.assertIn("karras", names["dpmpp_2m_sde"].grids)
        self.assertEqual(list(names["ddim"].grids), [])
        ours, theirs = (self.api.generate(self.api.request(scheduler=name, num_inference_steps=2))
                        for name in ("dpmpp_2m_sde_karras", "DPM++ 2M SDE Karras"))
        self.assertEqual(theirs.completed.parameters.scheduler, "dpmpp_2m_sde_karras")
        self.assertEqual(theirs.images[0].data, ours.images[0].data)
        with self.assertRaises(grpc.RpcError) as caught:
            self.api.generate(self.api.request(scheduler="dpmpp_2m_sed"))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("did you mean dpmpp_2m_sde", caught.exception.details())

    def test_health(self):
        self.assertEqual(self.api.health(), "SERVING")
        self.assertEqual(self.api.health("latent.v1.ImageGeneration"), "SERVING")
        with self.assertRaises(grpc.RpcError) as caught:
            self.api.health("nothing")
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_prompts_are_not_logged(self):
        self.api.generate(self.api.request(prompt="xylophone", negative_prompt="zeppelin", request_id="quiet"))
        self.server.request_line("quiet")
        self.assertNotIn("xylophone", self.server.log())
        self.assertNotIn("zeppelin", self.server.log())

    def test_a_call_that_belongs_to_a_trace_says_so_in_its_log_line(self):
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        self.api.start_generate(self.api.request(request_id="traced"),
                                metadata=[("traceparent", f"00-{trace}-00f067aa0ba902b7-01")]).result(DEADLINE)
        self.assertEqual(self.server.request_line("traced")["trace_id"], trace)
        self.api.generate(self.api.request(request_id="not-traced"))
        self.assertNotIn("trace_id", self.server.request_line("not-traced"))


class InstructionSetTest(unittest.TestCase):
    def test_below_avx512_no_large_product_runs_on_onednns_scalar_reference(self):
        """Guard: HalfAsConvolution (core/backends/cpu/products/linear_geglu.cc) and kAsConvolution (core/backends/cpu/binding/algorithms.cc)."""
        with tempfile.TemporaryFile("w+") as verbose:
            server = Server("--precision=fp32", prepare=lambda: os.dup2(verbose.fileno(), 1), buckets="64x64",
                            environment={"DNNL_MAX_CPU_ISA": "AVX2", "DNNL_VERBOSE": "1"}).start()
            self.addCleanup(server.kill)
            api = Api(server.address)
            self.addCleanup(api.close)
            api.generate(api.request())
            self.assertEqual(server.stop(), 0)
            verbose.seek(0)
            runs = re.findall(r"onednn_verbose,exec,cpu,(\w+),([\w:]+),.*,([\dx:]+|mb\w+),[\d.]+\n", verbose.read())
        self.assertGreater(len([kind for kind, _, _ in runs if kind == "convolution"]), 100)
        # The noise scheduler's matrix, at most 4 by 6 a row, is small enough for anything.
        slow = {run for run in runs if run[1].startswith("ref") and not re.match(r"(\d+x[1-4]x[1-6]):", run[2])}
        self.assertEqual(slow, set())


if __name__ == "__main__":
    unittest.main()
