"""Stock clients of the APIs that latentd has over HTTP, unmodified: openai, huggingface_hub and webuiapi (foreign_clients.txt), and
older majors of the first two, each in a Python of its own (older_clients.txt, foreign_calls.py)."""

import asyncio
import base64
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request
import warnings

import run

HERE = pathlib.Path(__file__).parent
NEWEST = run.install_client(HERE / "foreign_clients.txt")
sys.path.append(str(NEWEST))

import huggingface_hub  # noqa: E402
import huggingface_hub.errors  # noqa: E402
import openai  # noqa: E402
import PIL.Image  # noqa: E402
import webuiapi  # noqa: E402

import png  # noqa: E402
import test_video  # noqa: E402
from metrics import METRICS, scrape  # noqa: E402
from server_process import DEADLINE, Api, Server, wait_until  # noqa: E402
from shared_server import SharedServerTestCase  # noqa: E402

PROMPT = "a red circle on a blue background"
IMAGE = png.write(64, 64, bytes(range(192)))
LONG = {"num_inference_steps": 150, "num_images_per_prompt": 4}
LORAS = HERE.parent / "golden/loras"


def pixels(image):
    """(size, bytes) of a picture of PIL's or a file."""
    if isinstance(image, bytes):
        image = PIL.Image.open(io.BytesIO(image))
    return image.size, image.convert("RGB").tobytes()


class ForeignClientsTest(SharedServerTestCase):
    ARGUMENTS = ("--http-listen=127.0.0.1:0", f"--adapters={LORAS}")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        line = cls.server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"]
        cls.url = "http://" + line.removeprefix("http on ")

    def setUp(self):
        self.openai = openai.OpenAI(**self.openai_options())
        self.addCleanup(self.openai.close)
        self.hugging_face = huggingface_hub.InferenceClient(base_url=self.url + "/hf")
        self.web_ui = self.new_web_ui()

    def openai_options(self):
        return {"base_url": self.url + "/v1", "api_key": "none", "timeout": DEADLINE, "max_retries": 0}

    def new_web_ui(self):
        return webuiapi.WebUIApi(host="127.0.0.1", port=int(self.url.rpartition(":")[2]))

    def grpc_pictures(self, **fields):
        return [image.data for image in self.api.generate(self.api.request(prompt=PROMPT, **fields)).images]

    def wait_until_one_runs(self):
        def runs():
            with urllib.request.urlopen(self.url + "/sdapi/v1/progress", timeout=DEADLINE) as answer:
                return json.load(answer)["state"]["sampling_step"] > 0
        wait_until(runs, "no request has begun")

    def test_openai_draws_what_grpc_does(self):
        models = [model.id for model in self.openai.models.list()]
        answer = self.openai.images.generate(model=models[0], prompt=PROMPT, n=2, size="64x64",
                                             extra_body={"num_inference_steps": 2, "seed": 7})
        self.assertEqual([base64.b64decode(image.b64_json) for image in answer.data],
                         self.grpc_pictures(num_images_per_prompt=2))
        self.assertEqual([image.seed for image in answer.data], [7, 8])

    def test_openai_takes_the_stream(self):
        stream = self.openai.images.generate(prompt=PROMPT, size="64x64", stream=True, partial_images=2,
                                             extra_body={"num_inference_steps": 40, "seed": 7})
        events = list(stream)
        self.assertEqual(events[-1].type, "image_generation.completed")
        self.assertTrue(all(event.type == "image_generation.partial_image" for event in events[:-1]))
        self.assertEqual(base64.b64decode(events[-1].b64_json), *self.grpc_pictures(num_inference_steps=40))

    def test_openai_edits_and_varies(self):
        few = {"num_inference_steps": 4, "seed": 7}
        edited = self.openai.images.edit(image=IMAGE, prompt=PROMPT, size="64x64", extra_body=few)
        self.assertEqual(base64.b64decode(edited.data[0].b64_json),
                         *self.grpc_pictures(image=IMAGE, strength=0.6, num_inference_steps=4))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            varied = self.openai.images.create_variation(image=IMAGE, size="64x64", extra_body=few)
        self.assertEqual(pixels(base64.b64decode(varied.data[0].b64_json))[0], (64, 64))

    def test_openai_says_what_is_wrong(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.openai.images.edit(image=[IMAGE, IMAGE], prompt=PROMPT)
        self.assertEqual(caught.exception.param, "image")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.openai.images.generate(prompt=PROMPT, size="60x64")
        self.assertEqual(caught.exception.param, "size")
        self.assertTrue(caught.exception.request_id)
        with self.assertRaises(openai.NotFoundError) as caught:
            self.openai.images.generate(prompt=PROMPT, model="no-such-model")
        self.assertEqual(caught.exception.code, "model_not_found")

    def test_openai_leaves_and_its_work_stops(self):
        async def leave():
            async with openai.AsyncOpenAI(**self.openai_options()) as client:
                task = asyncio.create_task(client.images.generate(
                    prompt=PROMPT, size="64x64", extra_body={**LONG, "request_id": "openai-leaves"}))
                await asyncio.to_thread(self.wait_until_one_runs)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        asyncio.run(leave())
        line = self.server.request_line("openai-leaves")
        self.assertEqual((line["code"], line["http"]), ("CANCELLED", 499))

    def test_hugging_faces_client_draws_what_grpc_does(self):
        small = {"num_inference_steps": 4, "seed": 7}
        drawn = self.hugging_face.text_to_image(PROMPT, width=64, height=64, **small)
        self.assertEqual(pixels(drawn), pixels(*self.grpc_pictures(num_inference_steps=4)))
        drawn = self.hugging_face.image_to_image(IMAGE, prompt=PROMPT, num_inference_steps=4, strength=0.6, seed=7,
                                                 target_size={"width": 64, "height": 64})
        self.assertEqual(pixels(drawn),
                         pixels(*self.grpc_pictures(image=IMAGE, strength=0.6, num_inference_steps=4)))
        with self.assertRaises(huggingface_hub.errors.HfHubHTTPError) as caught:
            self.hugging_face.text_to_image(PROMPT, extra_body={"no_such_field": 1})
        self.assertIn("no_such_field", str(caught.exception))

    def test_the_web_uis_client_draws_what_grpc_does(self):
        # An empty negative prompt is encoded where it is said, as in diffusers and the web UI.
        of_web_ui = {"scheduler": "Euler a", "prompt_syntax": "PROMPT_SYNTAX_A1111", "negative_prompt": ""}
        drawn = self.web_ui.txt2img(prompt=PROMPT, steps=2, width=64, height=64, seed=7, cfg_scale=3,
                                    sampler_name="Euler a")
        self.assertEqual(pixels(drawn.image), pixels(*self.grpc_pictures(guidance_scale=3, **of_web_ui)))
        self.assertEqual(drawn.info["seed"], 7)
        image = PIL.Image.open(io.BytesIO(IMAGE))
        drawn = self.web_ui.img2img(images=[image], prompt=PROMPT, steps=4, width=64, height=64, seed=7, cfg_scale=3,
                                    sampler_name="Euler a", denoising_strength=0.6)
        self.assertEqual(pixels(drawn.image), pixels(*self.grpc_pictures(
            guidance_scale=3, image=IMAGE, strength=0.6, num_inference_steps=4, **of_web_ui)))
        with self.assertRaisesRegex(RuntimeError, "422.*tiling"):
            self.web_ui.txt2img(prompt=PROMPT, tiling=True)

    def test_the_web_uis_client_finds_its_way(self):
        self.assertIn(self.web_ui.util_get_current_model(), self.web_ui.util_get_model_names())
        self.assertIn("Euler a", self.web_ui.util_get_sampler_names())
        self.web_ui.util_set_model(self.web_ui.util_get_current_model())
        options = self.web_ui.get_options()
        self.assertEqual(options["sd_model_checkpoint"], self.web_ui.util_get_current_model())
        self.assertIsNone(self.web_ui.set_options(options))

    def test_the_web_uis_client_draws_with_loras(self):
        self.assertLessEqual({"kohya", "diffusers"}, {lora["name"] for lora in self.web_ui.get_loras()})
        drawn = self.web_ui.txt2img(prompt=f"{PROMPT}<lora:kohya:0.8>", steps=2, width=64, height=64, seed=7, cfg_scale=3,
                                    sampler_name="Euler a")
        adapters = [{"name": "kohya", "weight": 0.8}]
        fields = {"guidance_scale": 3, "scheduler": "Euler a", "prompt_syntax": "PROMPT_SYNTAX_A1111", "negative_prompt": ""}
        self.assertEqual(pixels(drawn.image), pixels(*self.grpc_pictures(adapters=adapters, **fields)))
        self.assertNotEqual(pixels(drawn.image), pixels(*self.grpc_pictures(**fields)))

    def test_the_web_uis_client_sees_progress_and_interrupts(self):
        errors = []

        def draw():
            try:
                self.web_ui.txt2img(prompt=PROMPT, steps=150, n_iter=4, width=64, height=64)
            except RuntimeError as error:
                errors.append(error)

        drawing = threading.Thread(target=draw)
        drawing.start()
        other, seen = self.new_web_ui(), []
        wait_until(lambda: seen.append(other.get_progress()) or seen[-1]["progress"] > 0, "no progress")
        self.assertLess(seen[-1]["progress"], 1)
        self.assertEqual((seen[-1]["state"]["job_count"], seen[-1]["state"]["sampling_steps"]), (1, 150))
        other.interrupt()
        drawing.join(DEADLINE)
        self.assertIn("503", str(errors))


class OlderClientsTest(SharedServerTestCase):
    """Clients that cannot be imported beside the newest: each test is a Python that has one."""

    ARGUMENTS = ("--http-listen=127.0.0.1:0",)

    @classmethod
    def setUpClass(cls):
        cls.folders = run.install_groups(HERE / "older_clients.txt")
        super().setUpClass()
        line = cls.server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"]
        cls.url = "http://" + line.removeprefix("http on ")
        cls.few = [cls.grpc(seed=seed) for seed in (7, 8)]
        cls.edited = cls.grpc(image=IMAGE, strength=0.6)

    @classmethod
    def grpc(cls, **fields):
        return cls.api.generate(cls.api.request(prompt=PROMPT, **{"num_inference_steps": 4, **fields})).images[0].data

    def came(self, version):
        """Draws with a client of that version; returns what came."""
        name = version.partition("==")[0].replace("-", "_")
        environment = {**os.environ, "PYTHONPATH": f"{self.folders[version]}:{NEWEST}:{HERE}"}
        done = subprocess.run([sys.executable, HERE / "foreign_calls.py", name, self.url], capture_output=True, text=True,
                              timeout=DEADLINE, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        came = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(came["version"], version.partition("==")[2])
        return came

    def files(self, texts):
        return [base64.b64decode(text) for text in texts]

    def test_openai(self):
        for version in ("openai==1.109.1", "openai==2.54.0"):
            with self.subTest(version):
                came = self.came(version)
                self.assertEqual(self.files(came["drawn"]), self.few)
                self.assertEqual(self.files(came["edited"]), [self.edited])
                self.assertEqual(came["events"][-1], "image_generation.completed")
                self.assertEqual(self.files([came["streamed"]]), self.few[:1])
                self.assertEqual(came["refused"], ["size", True])

    def test_hugging_face(self):
        for version in ("huggingface_hub==0.36.2", "huggingface_hub==1.33.0"):
            with self.subTest(version):
                came = self.came(version)
                self.assertEqual(self.files([came["drawn"], came["edited"]]), [pixels(self.few[0])[1], pixels(self.edited)[1]])
                self.assertIn("no_such_field", came["refused"])


class ForeignVideosTest(test_video.VideoTestCase):
    """openai's client.videos, of a server that draws videos alone."""

    SMALL = {"num_frames": 5, "num_inference_steps": 3, "seed": 7}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.flag(), "--http-listen=127.0.0.1:0", demo=False).start()
        cls.addClassCleanup(cls.server.kill)
        line = cls.server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"]
        cls.client = openai.OpenAI(base_url="http://" + line.removeprefix("http on ") + "/v1", api_key="none", timeout=DEADLINE,
                                   max_retries=0)
        cls.addClassCleanup(cls.client.close)
        cls.api = Api(cls.server.address)
        cls.addClassCleanup(cls.api.close)

    def create(self, **fields):
        return self.create_of(test_video.image(), **fields)

    def create_of(self, picture, **fields):
        return self.client.videos.create(prompt="", input_reference=("photo.png", picture, "image/png"), size="64x64",
                                         extra_body={**self.SMALL, **fields})

    def test_it_draws_what_grpc_does(self):
        video = self.client.videos.create_and_poll(prompt="waves", input_reference=("photo.png", test_video.image(), "image/png"),
                                                   size="64x64", poll_interval_ms=20, extra_body=self.SMALL)
        self.assertEqual((video.status, video.progress, video.size, video.seconds), ("completed", 100, "64x64", "0.714"), video)
        self.assertIn("prompt", video.model_extra["latentd"]["warnings"][0])
        output = self.api.type("latent.v1.VideoOutput")(file=test_video.WEBP_FILE)
        drawn = test_video.files_of(self.draw(self.api, output=output))
        self.assertEqual(self.client.videos.download_content(video.id).read(), drawn[0])
        self.assertIn(video.id, [each.id for each in self.client.videos.list()])
        self.assertTrue(self.client.videos.delete(video.id).deleted)
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.videos.retrieve(video.id)
        self.assertEqual(caught.exception.code, "no_such_video")

    def test_deleting_stops_its_work(self):
        video = self.create(num_inference_steps=150, request_id="videos-deleted")
        wait_until(lambda: self.client.videos.retrieve(video.id).model_extra["latentd"]["step"] > 0, "no step was made")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.videos.download_content(video.id)
        self.assertEqual(caught.exception.code, "video_not_ready")
        self.client.videos.delete(video.id)
        line = self.server.request_line("videos-deleted")
        self.assertEqual((line["code"], line["method"]), ("CANCELLED", "openai.videos"))

    def test_it_says_what_is_wrong(self):
        for fields, bad in (({"num_frames": 4}, "num_frames"), ({"fps": 0}, "fps"), ({"motion_bucket_id": 1024}, "motion_bucket_id"),
                            ({"noise_aug_strength": -1}, "noise_aug_strength"), ({"max_guidance_scale": 31}, "max_guidance_scale"),
                            ({"decode_chunk_size": 0}, "decode_chunk_size"), ({"output_format": "mp4"}, "output_format"),
                            ({"nonsense": 1}, "nonsense"), ({"resumable": True}, "resumable"),
                            ({"num_videos_per_prompt": 2}, "num_videos_per_prompt")):
            with self.subTest(fields), self.assertRaises(openai.BadRequestError) as caught:
                self.create(**fields)
            named = [violation["field"] for violation in caught.exception.body["latentd"]["violations"]]
            self.assertIn(bad, named)
        for picture in (b"", b"no picture", test_video.image(1, 1)):
            with self.subTest(picture[:10]):
                with self.assertRaises(openai.BadRequestError) as caught:
                    self.create_of(picture)
                self.assertEqual(caught.exception.param, "input_reference")
        video = self.client.videos.poll(self.create_of(test_video.image()[:60]).id, poll_interval_ms=20)  # found when it is decoded
        self.assertEqual((video.status, video.error.code), ("failed", "invalid_argument"))
        self.assertIn("image", video.error.message)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.videos.create(prompt="", size="64x64", extra_body=self.SMALL)
        self.assertEqual(caught.exception.param, "image")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.videos.create(prompt="", model="no-such-model", size="64x64")
        self.assertEqual(caught.exception.code, "model_not_found")


class RefusalsTest(unittest.TestCase):
    """Refusals of a server with one place in its queue, whose callers need a key."""

    KEY = "a-key-of-twenty-four-characters"

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        keys = pathlib.Path(folder.name, "keys")
        keys.write_text(f"web {cls.KEY}\n")
        keys.chmod(0o600)
        cls.server = Server(METRICS, "--http-listen=127.0.0.1:0", f"--api-key-file={keys}", "--queue-capacity=1")
        cls.addClassCleanup(cls.server.kill)
        cls.server.start()
        line = cls.server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"]
        cls.url = "http://" + line.removeprefix("http on ") + "/v1"

    def client(self, **options):
        made = openai.OpenAI(**{"base_url": self.url, "api_key": self.KEY, "timeout": DEADLINE, "max_retries": 0, **options})
        self.addCleanup(made.close)
        return made

    def test_openai_with_another_key_is_told_so(self):
        with self.assertRaises(openai.AuthenticationError) as caught:
            self.client(api_key="another").images.generate(prompt=PROMPT, size="64x64")
        self.assertEqual(caught.exception.code, "invalid_api_key")
        self.assertTrue(self.client().models.list())

    def test_the_web_uis_client_shows_its_key_as_a_password(self):
        port = int(self.url.rpartition(":")[2].removesuffix("/v1"))
        web_ui = webuiapi.WebUIApi(host="127.0.0.1", port=port)
        with self.assertRaisesRegex(RuntimeError, "401"):
            web_ui.txt2img(prompt=PROMPT, steps=2, width=64, height=64)
        web_ui.set_auth("anybody", self.KEY)
        self.assertEqual(web_ui.txt2img(prompt=PROMPT, steps=2, width=64, height=64).image.size, (64, 64))

    def test_openai_comes_again_when_the_queue_was_full(self):
        full, refused = threading.Event(), []

        def note(response):
            if response.status_code != 200:
                refused.append(response.status_code)
                full.set()

        def fill():
            stream = self.client().images.generate(prompt=PROMPT, size="64x64", stream=True, partial_images=1,
                                                   extra_body={"num_inference_steps": 150})
            full.wait(DEADLINE)
            stream.close()

        running = threading.Thread(target=fill)
        running.start()
        wait_until(lambda: scrape(self.server).sum("latentd_queue_depth") > 0, "the queue is full")
        client = self.client(max_retries=5, http_client=openai.DefaultHttpxClient(event_hooks={"response": [note]}))
        answer = client.images.generate(prompt=PROMPT, size="64x64", extra_body={"num_inference_steps": 2})
        running.join(DEADLINE)
        self.assertTrue(answer.data[0].b64_json)
        self.assertEqual(set(refused), {429})


if __name__ == "__main__":
    unittest.main()
