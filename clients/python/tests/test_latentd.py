"""Both pipelines against a real latentd with the demo checkpoint."""

import asyncio
import io
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest

import PIL.Image

import python_client

python_client.use()

import certificates  # noqa: E402
import latent_client  # noqa: E402
import server_process  # noqa: E402
import video_checkpoint  # noqa: E402
from latent_client import AsyncLatentPipeline, LatentPipeline, Tls  # noqa: E402
from shared_server import SharedServerTestCase  # noqa: E402
from test_resume import CutConnection  # noqa: E402

PROJECT = python_client.SOURCES.parents[1]
PROMPT = "a red circle on a blue background"
SIDE = 320
SMALL = {"width": 64, "height": 64, "num_inference_steps": 2, "seed": 7, "progress_bar": False}
LARGE = {**SMALL, "width": SIDE, "height": SIDE, "output": {"format": "raw_rgb8"}, "output_type": "bytes"}


class LatentdTest(SharedServerTestCase):
    BUCKETS = f"64x64,{SIDE}x{SIDE}"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pipe = LatentPipeline(cls.server.address)
        cls.addClassCleanup(cls.pipe.close)

    def test_it_draws_what_any_other_client_gets(self):
        theirs = self.api.generate(self.api.request(prompt=PROMPT)).images[0]
        ours = self.pipe(PROMPT, **SMALL, output_type="bytes")
        self.assertEqual((ours.images, ours.seeds), ([theirs.data], [7]))
        picture = self.pipe(PROMPT, **SMALL).images[0]
        self.assertEqual((picture.size, picture.tobytes()), ((64, 64), PIL.Image.open(io.BytesIO(theirs.data)).tobytes()))

    def test_its_parameters_draw_it_again(self):
        first = self.pipe(PROMPT, width=64, height=64, num_inference_steps=2, original_size=(128, 96), eta=0.5, output_type="bytes")
        self.assertIn("eta has no effect", " ".join(first.warnings))
        self.assertGreater(first.timings.total, 0)
        again = self.pipe(**first.parameters, output_type="bytes")
        self.assertEqual((again.images, again.seeds), (first.images, first.seeds))

    def test_its_embeddings_draw_what_the_prompts_draw(self):
        raw = {**SMALL, "output": {"format": "raw_rgb8"}, "output_type": "bytes"}
        drawn = self.pipe(PROMPT, negative_prompt="blue", **raw)
        embeds = self.pipe.encode_prompt(PROMPT, negative_prompt="blue")
        self.assertEqual([array.shape for array in embeds], [(1, 77, 160), (1, 77, 160), (1, 96), (1, 96)])
        self.assertEqual(self.pipe(**embeds._asdict(), **raw).images, drawn.images)
        lists = {name: array.tolist() for name, array in embeds._asdict().items()}
        self.assertEqual(self.pipe(**lists, **raw).images, drawn.images)
        self.assertNotEqual(self.pipe(PROMPT, **raw).images, drawn.images)

    def test_its_keywords_are_the_servers_fields(self):
        fields = {path.partition(".")[0] for path in self.pipe.capabilities().request_fields}
        self.assertEqual(set(latent_client.request.field_names()), fields)
        self.assertEqual([model.component for model in self.pipe.models()], ["base", "refiner"])
        self.assertEqual(self.pipe.health("latent.v1.ImageGeneration"), "SERVING")

    def test_pictures_and_masks_in_every_form(self):
        source = self.pipe(PROMPT, **SMALL).images[0]
        mask = PIL.Image.new("L", (64, 64), 0)
        mask.paste(255, (0, 0, 32, 64))
        file = io.BytesIO()
        source.save(file, "PNG")
        given = {**SMALL, "num_inference_steps": 4, "strength": 0.6, "output_type": "bytes"}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "source.png")
            path.write_bytes(file.getvalue())
            mask.save(pathlib.Path(folder, "mask.png"))
            drawn = [self.pipe("a star", image=image, mask_image=mask_image, **given).images for image, mask_image in (
                (source, mask), (path, f"{folder}/mask.png"), (file.getvalue(), mask.convert("1")))]
        self.assertEqual(drawn[0], drawn[1])
        self.assertEqual(drawn[0], drawn[2])
        self.assertNotEqual(drawn[0], self.pipe("a star", image=source, **given).images)

    def test_latents_there_and_back(self):
        latents = self.pipe(PROMPT, **SMALL, output_type="latent").images
        self.assertEqual(latents.shape, (1, 4, 8, 8))
        file, = self.pipe(PROMPT, **SMALL, output={"format": "latent"}, output_type="bytes").images
        array, as_file, other = (self.pipe(PROMPT, **SMALL, latents=noise, output_type="bytes").images
                                 for noise in (latents, file, latents * 0.5))
        self.assertEqual(array, as_file)
        self.assertNotEqual(array, other)

    def test_previews_on_the_way(self):
        events = list(self.pipe.stream(PROMPT, previews=1, **{**SMALL, "num_inference_steps": 3}))
        previews = [event for event in events if isinstance(event, latent_client.Preview)]
        self.assertTrue(previews)
        self.assertEqual({preview.image.format for preview in previews}, {"JPEG"})
        self.assertIsInstance(events[-1], latent_client.Completed)
        self.assertEqual({event.request_id for event in events}, {events[0].request_id})

    def test_a_connection_that_is_cut_changes_no_byte(self):
        whole = self.pipe(PROMPT, num_images_per_prompt=2, **LARGE)
        with CutConnection(self.server.address, SIDE * SIDE * 3 + 20_000) as proxy, LatentPipeline(proxy.address) as pipe:
            cut = pipe(PROMPT, num_images_per_prompt=2, **LARGE)
            self.assertEqual(proxy.connections, 2)
        self.assertEqual((cut.images, cut.seeds), (whole.images, whole.seeds))
        self.assertEqual(len(whole.images), 2)

    def test_the_same_with_asyncio(self):
        async def run(address):
            async with AsyncLatentPipeline(address) as pipe:
                return await pipe(PROMPT, **LARGE)

        whole = asyncio.run(run(self.server.address)).images
        with CutConnection(self.server.address, SIDE * SIDE * 3 // 2) as proxy:
            self.assertEqual(asyncio.run(run(proxy.address)).images, whole)
            self.assertEqual(proxy.connections, 2)
        self.assertEqual(self.pipe(PROMPT, **LARGE).images, whole)

    def test_leaving_the_iterator_stops_the_work(self):
        with self.pipe.stream(PROMPT, **{**LARGE, "num_inference_steps": 150, "num_images_per_prompt": 16}) as events:
            next(event for event in events if isinstance(event, latent_client.Progress))
        self.assertEqual(self.server.request_line(events.request_id)["code"], "CANCELLED")
        # Nothing of it is kept: its name is free.
        self.pipe(PROMPT, **SMALL, request_id=events.request_id)

    def test_interrupting_stops_the_work(self):
        def stop(pipe, *_):
            pipe._interrupt = True

        with self.assertRaises(latent_client.Cancelled) as caught:
            self.pipe(PROMPT, callback_on_step_end=stop, **{**LARGE, "num_inference_steps": 150})
        self.assertEqual(self.server.request_line(caught.exception.request_id)["code"], "CANCELLED")

    def test_errors_as_the_server_says_them(self):
        with self.assertRaises(latent_client.NoSuchBucket) as caught:
            self.pipe(PROMPT, width=128, height=64)
        self.assertEqual(set(caught.exception.metadata["buckets"].split(",")), set(self.BUCKETS.split(",")))
        with self.assertRaises(latent_client.InvalidRequest) as caught:
            self.pipe(PROMPT, **{**SMALL, "width": 63}, eta=2)
        self.assertEqual({violation.field for violation in caught.exception.violations}, {"width", "eta"})
        with self.assertRaises(latent_client.NoVideoModel):
            self.pipe.animate(PIL.Image.new("RGB", (8, 8)))
        with self.assertRaises(latent_client.PredictedOverrun) as caught:
            self.pipe(PROMPT, timeout=5, **{**LARGE, "num_inference_steps": 150, "num_images_per_prompt": 16})
        self.assertIn("predicted_seconds", caught.exception.metadata)

    def test_threads_share_a_pipeline(self):
        drawn = {}

        def draw(seed):
            drawn[seed] = self.pipe(PROMPT, **{**SMALL, "seed": seed}).seeds

        threads = [threading.Thread(target=draw, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(server_process.DEADLINE)
        self.assertEqual(drawn, {seed: [seed] for seed in range(4)})


class VideoTest(SharedServerTestCase):
    BUCKETS = "64x64"
    SMALL = {"width": 64, "height": 64, "num_frames": 5, "num_inference_steps": 3, "seed": 7, "progress_bar": False}

    @classmethod
    def setUpClass(cls):
        cls.ARGUMENTS = (video_flag(cls),)
        super().setUpClass()
        cls.pipe = LatentPipeline(cls.server.address)
        cls.addClassCleanup(cls.pipe.close)

    @classmethod
    def image(cls):
        return PIL.Image.linear_gradient("L").resize((40, 30))

    def animate(self, **keywords):
        return self.pipe.animate(self.image(), **{**self.SMALL, **keywords})

    def test_its_frames_are_those_of_its_files(self):
        output = self.animate()
        video, = output.frames
        self.assertEqual([frame.size for frame in video], [(64, 64)] * 5)
        self.assertEqual(len({frame.tobytes() for frame in video}), 5)
        self.assertEqual((output.seeds, output.executed_size, output.num_frames), ([7], (64, 64), 5))
        file, = self.animate(output={"file": "apng"}).files
        with PIL.Image.open(io.BytesIO(file)) as opened:
            for number, frame in enumerate(video):
                opened.seek(number)
                self.assertEqual(opened.convert("RGB").tobytes(), frame.tobytes())

    def test_its_parameters_draw_it_again(self):
        first = self.animate(motion_bucket_id=200, decode_chunk_size=9, num_videos_per_prompt=2, output_type="np")
        self.assertEqual(first.frames.shape, (2, 5, 64, 64, 3))
        self.assertIn("decode_chunk_size", " ".join(first.warnings))
        again = self.pipe.animate(self.image(), **first.parameters, output_type="np")
        self.assertEqual((again.frames.tobytes(), again.seeds), (first.frames.tobytes(), [7, 8]))
        self.assertNotEqual(self.animate(output_type="np").frames.tobytes(), first.frames[:1].tobytes())

    def test_previews_on_the_way(self):
        events = list(self.pipe.stream_video(self.image(), previews=1, **{**self.SMALL, "num_inference_steps": 100}))
        previews = [event for event in events if isinstance(event, latent_client.VideoPreview)]
        self.assertTrue(previews)
        for preview in previews:
            self.assertEqual([frame.size for frame in preview.frames], [preview.size] * preview.num_frames)

    def test_the_same_with_asyncio(self):
        async def run():
            async with AsyncLatentPipeline(self.server.address) as pipe:
                events = [event async for event in pipe.stream_video(self.image(), **self.SMALL)]
                return await pipe.animate(self.image(), **self.SMALL, output_type="bytes"), events

        output, events = asyncio.run(run())
        frames = sorted((event for event in events if isinstance(event, latent_client.Frame)), key=lambda event: event.frame)
        self.assertEqual([[frame.data for frame in frames]], output.frames)
        self.assertEqual([self.animate(output_type="bytes").frames, len(frames)], [output.frames, 5])
        self.assertIsInstance(events[-1], latent_client.VideoCompleted)

    def test_a_connection_that_is_cut_changes_no_byte(self):
        for output in ({"format": "raw_rgb8"}, {"file": "apng"}):
            whole = self.animate(output=output, num_videos_per_prompt=2, output_type="bytes")
            half = sum(len(data) for data in [*whole.files, *(frame for video in whole.frames for frame in video)]) // 2
            with CutConnection(self.server.address, half) as proxy, LatentPipeline(proxy.address) as pipe:
                cut = pipe.animate(self.image(), **self.SMALL, output=output, num_videos_per_prompt=2, output_type="bytes")
                self.assertEqual(proxy.connections, 2)
            self.assertEqual((cut.frames, cut.files, cut.seeds), (whole.frames, whole.files, whole.seeds))

    def test_its_keywords_are_the_servers_fields(self):
        told = self.pipe.video_capabilities()
        fields = {path.partition(".")[0] for path in told.request_fields}
        self.assertEqual(set(latent_client.request.video_field_names()), fields)
        self.assertEqual([model.name for model in told.models], ["video"])

    def test_leaving_the_iterator_stops_the_work(self):
        with self.pipe.stream_video(self.image(), **{**self.SMALL, "num_inference_steps": 150}) as events:
            next(event for event in events if isinstance(event, latent_client.VideoProgress))
        self.assertEqual(self.server.request_line(events.request_id)["code"], "CANCELLED")

    def test_errors_as_the_server_says_them(self):
        with self.assertRaises(latent_client.NoSuchBucket) as caught:
            self.animate(num_frames=4)
        self.assertEqual(caught.exception.metadata["buckets"], video_checkpoint.BUCKET)
        with self.assertRaises(latent_client.InvalidRequest) as caught:
            self.animate(fps=0, motion_bucket_id=1024)
        self.assertEqual({violation.field for violation in caught.exception.violations}, {"fps", "motion_bucket_id"})


def video_flag(test_case):
    """--video of a small checkpoint, which is there as long as the test case."""
    folder = tempfile.TemporaryDirectory()
    test_case.addClassCleanup(folder.cleanup)
    checkpoint = video_checkpoint.write_checkpoint(pathlib.Path(folder.name, "svd"))
    return f"--video={checkpoint},buckets={video_checkpoint.BUCKET}"


class DocumentationTest(SharedServerTestCase):
    BUCKETS = "64x64"  # the size of requests that set none, too

    @classmethod
    def setUpClass(cls):
        cls.ARGUMENTS = (video_flag(cls),)
        super().setUpClass()

    def test_examples_do_what_they_say(self):
        examples, readme = (re.findall(r"^```python\n(.*?)^```", file.read_text(), re.MULTILINE | re.DOTALL)
                            for file in (PROJECT / "docs/python.md", python_client.SOURCES / "README.md"))
        self.assertEqual(readme, examples[:1])
        self.assertGreater(len(examples), 3)
        for example in examples:
            with tempfile.TemporaryDirectory() as folder:
                PIL.Image.new("RGB", (64, 64)).save(f"{folder}/lighthouse.png")
                example = example.replace("localhost:50051", self.server.address)
                done = subprocess.run([sys.executable, "-W", "error", "-c", example], cwd=folder, capture_output=True, text=True,
                                      env={"PYTHONPATH": ":".join(sys.path)}, timeout=server_process.DEADLINE)
                self.assertEqual((done.returncode, done.stderr), (0, ""), example)


class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        servers, clients, cls.others = (certificates.Authority(pathlib.Path(folder.name), name) for name in ("servers", "clients", "others"))
        shown, cls.client = servers.issue("server"), clients.issue("client")
        cls.ca = servers.pem
        cls.server = server_process.Server(f"--tls-cert={shown.certificate}", f"--tls-key={shown.key}",
                                           f"--tls-client-ca={clients.pem}", buckets="64x64")
        cls.addClassCleanup(cls.server.kill)
        cls.server.start()

    def draw(self, tls, scheme=""):
        with LatentPipeline(scheme + self.server.address, tls=tls) as pipe:
            return pipe(PROMPT, **SMALL).images[0].size

    def tls(self, **others):
        return Tls(**{"ca": self.ca, "cert": self.client.certificate, "key": str(self.client.key), **others})

    def test_with_a_client_certificate(self):
        self.assertEqual(self.draw(self.tls()), (64, 64))
        self.assertEqual(self.draw(self.tls(ca=self.ca.read_bytes(), server_name="localhost"), "grpcs://"), (64, 64))

        async def run():
            async with AsyncLatentPipeline(self.server.address, tls=self.tls()) as pipe:
                return (await pipe(PROMPT, **SMALL)).images[0].size
        self.assertEqual(asyncio.run(run()), (64, 64))

    def test_without_one(self):
        with self.assertRaises(latent_client.Unauthenticated):
            self.draw(Tls(ca=self.ca))

    def test_with_one_of_another_authority(self):
        other = self.others.issue("client")
        with self.assertRaises((latent_client.PermissionDenied, latent_client.Unauthenticated)):
            self.draw(self.tls(cert=other.certificate, key=other.key))

    def test_a_server_that_is_not_trusted_is_asked_once(self):
        with self.assertRaises(latent_client.Unavailable) as caught:
            self.draw(self.tls(ca=self.others.pem))
        self.assertTrue(latent_client.retry.was_never_there(caught.exception), caught.exception.message)


if __name__ == "__main__":
    unittest.main()
