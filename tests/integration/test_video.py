"""Videos of an image (--video), over the API and by `latent animate`."""

import io
import json
import math
import pathlib
import struct
import subprocess
import tempfile
import unittest
import zlib

import grpc
import PIL.Image

import ldm_file
import png
import server_process
import video_checkpoint
import video_file
from metrics import METRICS, compilations, scrape
from server_process import DEADLINE, Api, Server, facts, reason, violations, wait_until
from test_graphs import latent
from test_resume import CutConnection

PNG, JPEG, WEBP, RAW_RGB8, LATENT = range(1, 6)  # latent.v1.Format
WEBP_FILE, APNG_FILE, AVI_FILE, Y4M_FILE, RAW_FILE, WEBM_FILE = range(1, 7)  # latent.v1.VideoFormat
SNAP, COLD_OK = 2, 3  # latent.v1.BucketPolicy
CROP = 2  # latent.v1.ResizeMode


def image(width=40, height=30):
    """A PNG of a gradient."""
    rows = b"".join(b"\0" + bytes((x * 6 + channel * 40 + y) % 256 for x in range(width) for channel in range(3))
                    for y in range(height))
    parts = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts)


def latents(frames=5):
    """A safetensors file of numbers for videos of 64x64 pixels."""
    shape = [1, frames, 4, 8, 8]
    numbers = [(7 * i % 23 - 11) / 8 for i in range(math.prod(shape))]
    header = json.dumps({"latents": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * len(numbers)]}}).encode()
    return struct.pack("<Q", len(header)) + header + struct.pack(f"<{len(numbers)}f", *numbers)


def frames_of(events):
    """{(video, frame): bytes}, put together from chunks without gaps."""
    frames = {}
    for event in events:
        if not event.HasField("frame_chunk"):
            continue
        chunk = event.frame_chunk
        place = (chunk.video_index, chunk.frame)
        assert chunk.offset == len(frames.get(place, b"")), f"a gap in {place}"
        frames[place] = frames.get(place, b"") + chunk.data
        assert len(frames[place]) <= chunk.total_bytes
    return frames


def files_of(events):
    """{video: bytes}: files of whole videos, put together from chunks without gaps."""
    files, sizes = {}, {}
    for event in events:
        if not event.HasField("video_chunk"):
            continue
        chunk = event.video_chunk
        assert chunk.offset == len(files.get(chunk.video_index, b"")), f"a gap in {chunk.video_index}"
        files[chunk.video_index] = files.get(chunk.video_index, b"") + chunk.data
        sizes[chunk.video_index] = chunk.total_bytes
    assert sizes == {video: len(file) for video, file in files.items()}
    return files


def pixels(file):
    with PIL.Image.open(io.BytesIO(file)) as opened:
        return opened.convert("RGB").tobytes()


def animation(file):
    """The frames that Pillow reads, as pixels, and how many milliseconds each is shown."""
    frames, durations = [], []
    with PIL.Image.open(io.BytesIO(file)) as opened:
        for number in range(opened.n_frames):
            opened.seek(number)
            opened.load()
            frames.append(opened.convert("RGB").tobytes())
            durations.append(opened.info["duration"])
        return frames, durations


def jpegs(avi):
    """The frames of a Motion JPEG, by its index."""
    index = avi.rindex(b"idx1")
    movi = avi.index(b"movi")
    entries = struct.unpack_from("<I", avi, index + 4)[0] // 16
    for number in range(entries):
        name, _, at, size = struct.unpack_from("<4sIII", avi, index + 8 + 16 * number)
        assert name == b"00dc"
        yield avi[movi + at + 8:movi + at + 8 + size]


def elements(data):
    """[(name, content)] of EBML (RFC 8794)."""
    found, at = [], 0
    while at < len(data):
        name = 9 - data[at].bit_length()
        size_at = at + name
        count = 9 - data[size_at].bit_length()
        size = int.from_bytes(data[size_at:size_at + count], "big") - (1 << 7 * count)
        begin = size_at + count
        assert begin + size <= len(data)
        found.append((data[at:size_at].hex(), data[begin:begin + size]))
        at = begin + size
    return found


def element(data, *path):
    """The content of the only element below those before it."""
    for name in path:
        (data,) = (content for other, content in elements(data) if other == name)
    return data


def webm_times(file):
    """Milliseconds at which the frames of a WebM begin, and the numbers of those that need no other."""
    times, keys = [], []
    for name, cluster in elements(element(file, "18538067")):
        if name != "1f43b675":
            continue
        start = int.from_bytes(element(cluster, "e7"), "big")
        for _, block in (part for part in elements(cluster) if part[0] == "a3"):
            if block[3] & 0x80:
                keys.append(len(times))
            times.append(start + int.from_bytes(block[1:3], "big", signed=True))
    return times, keys


class VideoTestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name)
        cls.checkpoint = video_checkpoint.write_checkpoint(cls.root / "svd")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    @classmethod
    def flag(cls):
        return f"--video={cls.checkpoint},buckets={video_checkpoint.BUCKET},decode-chunk={video_checkpoint.CHUNK}"

    @staticmethod
    def request(api, **fields):
        """A small video, unless the fields say otherwise; None leaves one out."""
        small = {"image": image(), "width": 64, "height": 64, "num_frames": 5, "num_inference_steps": 3, "seed": 7}
        given = {name: value for name, value in {**small, **fields}.items() if value is not None}
        return api.type("latent.v1.GenerateVideoRequest")(**given)

    @staticmethod
    def start_video(api, request, method="GenerateVideo", channel=None):
        """By `api`, or as it describes the call to another channel."""
        method = (channel or api.channel).unary_stream(f"/latent.v1.VideoGeneration/{method}", request_serializer=lambda message: message.SerializeToString(),
                                          response_deserializer=api.type("latent.v1.VideoEvent").FromString)
        return method(request, timeout=DEADLINE)

    def draw(self, api, **fields):
        return list(self.start_video(api, self.request(api, **fields)))

    def refusal(self, api, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            self.draw(api, **fields)
        return caught.exception


class VideoTest(VideoTestCase):
    """Beside pictures."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.flag(), "--metrics-listen=127.0.0.1:0", buckets="64x64").start()
        cls.addClassCleanup(cls.server.kill)
        cls.api = Api(cls.server.address)
        cls.addClassCleanup(cls.api.close)

    def test_an_image_becomes_the_frames_of_a_video(self):
        events = self.draw(self.api, request_id="moving")
        self.assertEqual({event.request_id for event in events}, {"moving"})
        started = next(event.started for event in events if event.HasField("started"))
        size = started.executed_size
        self.assertEqual((size.width, size.height, size.num_frames), (64, 64, 5))
        frames = frames_of(events)
        self.assertEqual(sorted(frames), [(0, frame) for frame in range(5)])
        self.assertEqual(len(set(frames.values())), 5)
        for data in frames.values():
            width, height, rows, _ = png.read(data)
            self.assertEqual((width, height), (64, 64))
            self.assertGreater(len(set(rows)), 1)
        steps = {event.progress.step for event in events if event.HasField("progress") and event.progress.total_steps}
        self.assertLessEqual(steps, {0, 1, 2, 3})
        completed = events[-1].completed
        used = completed.parameters
        self.assertEqual((used.width, used.height, used.num_frames, used.decode_chunk_size), (64, 64, 5, 2))
        self.assertEqual((used.fps, used.motion_bucket_id, used.noise_aug_strength), (7, 127, 0.02))
        self.assertEqual((used.min_guidance_scale, used.max_guidance_scale), (1, 3))
        self.assertEqual((list(used.seeds), used.num_videos_per_prompt), ([7], 1))
        self.assertEqual((used.model, used.output.format, used.image), ("video", PNG, b""))
        self.assertEqual(list(completed.warnings), [])
        line = self.server.request_line("moving")
        self.assertEqual((line["method"], line["images"], line["steps"], line["bucket"], line["code"]),
                         ("GenerateVideo", 5, 3, "64x64x5", "OK"))

    def test_what_was_used_draws_the_same_again(self):
        events = self.draw(self.api, num_videos_per_prompt=2, motion_bucket_id=200)
        frames = frames_of(events)
        self.assertEqual(len(frames), 10)
        again = events[-1].completed.parameters
        again.image = image()
        self.assertEqual(frames_of(self.start_video(self.api, again)), frames)
        second = frames_of(self.draw(self.api, seed=8, motion_bucket_id=200))  # a video is as one that is drawn alone
        self.assertEqual({frame: second[0, frame] for frame in range(5)}, {frame: frames[1, frame] for frame in range(5)})

    def test_parameters_change_the_video(self):
        seen = [frames_of(self.draw(self.api, **fields)) for fields in (
            {}, {"fps": 20}, {"motion_bucket_id": 1}, {"noise_aug_strength": 0.5}, {"max_guidance_scale": 6.0},
            {"min_guidance_scale": 2.5}, {"seed": 9}, {"image": image(30, 40)},
            {"image": image(30, 40), "resize_mode": CROP}, {"num_inference_steps": 4},
            {"guidance_interval": {"start": 0, "stop": 0.5}}, {"latents": latents()},
            {"sigmas": [700.0, 10.0, 1.0, 0.0], "num_inference_steps": None})]
        for i, frames in enumerate(seen):
            self.assertEqual(len(frames), 5)
            self.assertNotIn(frames, seen[:i], i)

    def test_frames_have_the_format_that_is_asked_for(self):
        output = self.api.type("latent.v1.VideoOutput")(format=WEBP, quality=50)
        events = self.draw(self.api, output=output)
        self.assertEqual({event.frame_chunk.mime_type for event in events if event.HasField("frame_chunk")}, {"image/webp"})
        for data in frames_of(events).values():
            self.assertEqual((data[:4], data[8:12]), (b"RIFF", b"WEBP"))
        self.assertEqual(events[-1].completed.parameters.output.quality, 50)

    def test_previews_show_all_frames_and_change_none(self):
        given = {"num_inference_steps": 100, "fps": 10}
        events = self.draw(self.api, previews={"every_n_steps": 2}, **given)
        self.assertEqual(frames_of(events), frames_of(self.draw(self.api, **given)))
        kinds = [event.WhichOneof("event") for event in events]
        previews = [event.preview for event in events if event.HasField("preview")]
        self.assertTrue(previews)
        self.assertLess(len(kinds) - 1 - kinds[::-1].index("preview"), kinds.index("frame_chunk"))
        for preview in previews:
            self.assertIn(preview.step, range(2, 101, 2))
            self.assertEqual((preview.total_steps, preview.mime_type), (100, "image/webp"))
            self.assertEqual((preview.size.width, preview.size.height, preview.size.num_frames), (8, 8, 5))
            frames, durations = animation(preview.data)
            self.assertEqual(([len(frame) for frame in frames], durations), ([8 * 8 * 3] * 5, [100] * 5))
        self.assertEqual(events[-1].completed.parameters.previews.every_n_steps, 2)
        self.assertEqual(list(events[-1].completed.warnings), [])

    def test_operators_name_its_bucket_with_its_frames(self):
        sizes = [(bucket.size.width, bucket.size.num_frames, bucket.model)
                 for bucket in self.api.call("Admin", "GetServerStatus").buckets]
        self.assertEqual(sorted(sizes), [(64, 0, "base"), (64, 5, "video")])

        def warm(model, **frames):
            selector = {"models": [model], "buckets": [{"width": 64, "height": 64, **frames}]}
            return list(self.api.call("GraphCache", "WarmBuckets", selector=selector))

        self.assertTrue(warm("video", num_frames=5))
        for model, frames, words in (("video", {}, "say how many frames"), ("base", {"num_frames": 5}, "no frames")):
            with self.subTest(model), self.assertRaises(grpc.RpcError) as caught:
                warm(model, **frames)
            self.assertIn(words, violations(caught.exception)["selector.buckets"])

    def draw_file(self, file, **fields):
        """The file, of the video that setUpClass's server draws of seed 7; and the events."""
        output = self.api.type("latent.v1.VideoOutput")(file=file, **fields)
        events = self.draw(self.api, output=output, request_id=f"file-{file}")
        self.assertEqual(frames_of(events), {})
        return files_of(events)[0], events

    def drawn_frames(self, format, **fields):
        """The same video as files of frames."""
        output = self.api.type("latent.v1.VideoOutput")(format=format, **fields)
        return [frame for _, frame in sorted(frames_of(self.draw(self.api, output=output)).items())]

    def test_an_animated_png_has_the_very_frames(self):
        file, events = self.draw_file(APNG_FILE)
        frames, durations = animation(file)
        self.assertEqual(frames, [pixels(frame) for frame in self.drawn_frames(PNG)])
        self.assertEqual([round(duration, 3) for duration in durations], [142.857] * 5)
        with PIL.Image.open(io.BytesIO(file)) as opened:
            self.assertRegex(opened.info["parameters"], "^Steps: 3, Sampler: Euler.* Seed: 7, .*, Motion bucket: 127, ")
        self.assertEqual({event.video_chunk.mime_type for event in events if event.HasField("video_chunk")}, {"image/apng"})
        self.assertEqual(self.server.request_line("file-2")["images"], 5)

    def test_an_animated_webp_has_the_frames(self):
        file, events = self.draw_file(WEBP_FILE, quality=95, playback_fps=12)
        frames, durations = animation(file)
        self.assertEqual(durations, [83, 84, 83, 83, 84])  # they begin on whole milliseconds
        self.assertEqual(frames, [pixels(frame) for frame in self.drawn_frames(WEBP, quality=95)])
        used = events[-1].completed.parameters.output
        self.assertEqual((used.file, used.format, used.quality, used.playback_fps), (WEBP_FILE, 0, 95, 12))
        comment = "Motion bucket: 127".encode("utf-16-be")
        self.assertTrue(comment in file or "Motion bucket: 127".encode("utf-16-le") in file)
        silent, _ = self.draw_file(WEBP_FILE, quality=95, playback_fps=12, embed_parameters=False)
        self.assertNotIn(b"EXIF", silent)
        again = events[-1].completed.parameters
        again.image = image()
        self.assertEqual(files_of(self.start_video(self.api, again)), {0: file})

    def test_an_avi_has_the_frames(self):
        file, _ = self.draw_file(AVI_FILE)
        self.assertEqual((file[:4], file[8:12]), (b"RIFF", b"AVI "))
        self.assertEqual(struct.unpack_from("<I", file, 4)[0], len(file) - 8)
        self.assertEqual(list(jpegs(file)), self.drawn_frames(JPEG))
        self.assertIn(b"Motion bucket: 127", file)

    def test_a_webm_has_the_frames_where_it_is_built_in(self):
        if WEBM_FILE not in self.api.call("VideoGeneration", "GetVideoCapabilities").video_formats:
            output = self.api.type("latent.v1.VideoOutput")(file=WEBM_FILE)
            error = self.refusal(self.api, output=output)
            self.assertEqual((error.code(), reason(error)[0]), (grpc.StatusCode.FAILED_PRECONDITION, "FORMAT_UNAVAILABLE"))
            self.assertIn("-DLATENTD_WEBM=ON", error.details())
            self.assertIn("width", violations(self.refusal(self.api, output=output, width=63)))  # a wrong field comes first
            return
        file, events = self.draw_file(WEBM_FILE, quality=80)
        self.assertEqual({event.video_chunk.mime_type for event in events if event.HasField("video_chunk")}, {"video/webm"})
        self.assertEqual(element(file, "1a45dfa3", "4282"), b"webm")
        self.assertEqual(webm_times(file), ([0, 143, 286, 429, 571], [0]))
        self.assertIn(b"Motion bucket: 127", element(file, "18538067", "1254c367", "7373", "67c8", "4487"))
        used = events[-1].completed.parameters
        self.assertEqual((used.output.file, used.output.quality), (WEBM_FILE, 80))
        used.image = image()
        self.assertEqual(files_of(self.start_video(self.api, used)), {0: file})

    def test_uncompressed_files_come_as_frames_are_decoded(self):
        raw, events = self.draw_file(RAW_FILE)
        self.assertEqual(raw, b"".join(self.drawn_frames(RAW_RGB8)))
        chunks = [event.video_chunk for event in events if event.HasField("video_chunk")]
        self.assertEqual([len(chunk.data) // (64 * 64 * 3) for chunk in chunks], [2, 2, 1])
        self.assertEqual([chunk.total_bytes for chunk in chunks], [0, 0, len(raw)])
        y4m, _ = self.draw_file(Y4M_FILE)
        header, frames = y4m.split(b"\n", 1)
        self.assertEqual(header, b"YUV4MPEG2 W64 H64 F7:1 Ip A1:1 C420jpeg XCOLORRANGE=LIMITED")
        self.assertEqual(len(frames), 5 * (len(b"FRAME\n") + 64 * 64 * 3 // 2))

    def test_several_videos_are_a_file_each(self):
        output = self.api.type("latent.v1.VideoOutput")(file=APNG_FILE)
        files = files_of(self.draw(self.api, output=output, num_videos_per_prompt=2))
        self.assertEqual(sorted(files), [0, 1])
        self.assertEqual(files[0], self.draw_file(APNG_FILE)[0])
        self.assertNotEqual(files[0], files[1])

    def test_all_bad_fields_are_named_at_once_with_their_limits(self):
        error = self.refusal(self.api, image=b"", width=63, num_frames=0, num_inference_steps=0, max_guidance_scale=31.0,
                             fps=0, motion_bucket_id=1024, noise_aug_strength=-0.1, decode_chunk_size=0, priority=9)
        self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(set(violations(error)), {
            "image", "width", "num_frames", "num_inference_steps", "max_guidance_scale", "fps", "motion_bucket_id",
            "noise_aug_strength", "decode_chunk_size", "priority"})
        self.assertEqual(reason(error)[0], "BAD_FIELDS")
        told = facts(error)
        self.assertEqual((told["max_frames"], told["max_fps"], told["max_motion_bucket_id"]), ("128", "60", "1023"))
        self.assertEqual((told["side_multiple"], told["max_guidance_scale"]), ("8", "30"))
        self.assertNotIn("max_pixels", told)

    def test_a_field_that_cannot_be_is_named(self):
        output = self.api.type("latent.v1.VideoOutput")
        for fields, bad in (({"image": b"no picture"}, "image"), ({"image": image(1, 1)}, "image"),
                            ({"image": image()[:60]}, "image"),
                            ({"sigmas": [5.0, 1.0, 0.0], "num_inference_steps": 2}, "sigmas"),
                            ({"seeds": [1, 2]}, "seeds"), ({"noise_aug_strength": float("nan")}, "noise_aug_strength"),
                            ({"bucket_policy": SNAP}, "bucket_policy"), ({"previews": {"every_n_steps": 0}}, "previews.every_n_steps"), ({"output": output(format=LATENT)}, "output.format"),
                            ({"output": output(format=PNG, quality=50)}, "output.quality"),
                            ({"output": output(file=AVI_FILE, quality=101)}, "output.quality"),
                            ({"output": output(file=RAW_FILE, format=PNG)}, "output.format"),
                            ({"output": output(file=WEBP_FILE, playback_fps=61)}, "output.playback_fps"),
                            ({"output": output(embed_parameters=True)}, "output.embed_parameters"),
                            ({"guidance_interval": {"start": 0.5, "stop": 0.25}}, "guidance_interval"),
                            ({"latents": b"no file"}, "latents"), ({"latents": b""}, "latents"),
                            ({"latents": latents(frames=4)}, "latents"),
                            ({"image": image(2, 400), "resize_mode": CROP}, "image"), ({"resize_mode": 3}, "resize_mode"),
                            ({"resumable": True}, "resumable"), ({"model": "base"}, "model"), ({"request_id": "a b"}, "request_id")):
            with self.subTest(**fields):
                error = self.refusal(self.api, **fields)
                self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
                self.assertEqual(list(violations(error)), [bad])

    def test_a_bucket_has_frames(self):
        error = self.refusal(self.api, num_frames=4)
        self.assertEqual(reason(error)[0], "NO_SUCH_BUCKET")
        self.assertEqual(list(violations(error)), ["num_frames"])
        self.assertNotIn("SNAP", violations(error)["num_frames"])
        self.assertEqual((facts(error)["requested_size"], facts(error)["buckets"]), ("64x64x4", "64x64x5"))
        error = self.refusal(self.api, decode_chunk_size=3)
        self.assertEqual((error.code(), reason(error)[0]), (grpc.StatusCode.FAILED_PRECONDITION, "BUCKET_COLD"))

    def test_who_leaves_ends_the_work(self):
        call = self.start_video(self.api, self.request(self.api, num_inference_steps=150, request_id="left"))
        next(event for event in call if event.HasField("started"))
        call.cancel()
        line = self.server.request_line("left")
        self.assertEqual((line["code"], line["images"]), ("CANCELLED", 0))
        self.assertEqual(len(frames_of(self.draw(self.api))), 5)

    def test_pictures_and_videos_have_capabilities_of_their_own(self):
        self.assertEqual([model.component for model in self.api.capabilities().models], ["base", "refiner"])
        self.assertEqual({bucket.model for bucket in self.api.capabilities().buckets}, {"base"})
        told = self.api.call("VideoGeneration", "GetVideoCapabilities")
        self.assertEqual([(model.name, model.class_name, model.family) for model in told.models],
                         [("video", "StableVideoDiffusionPipeline", "svd")])
        self.assertEqual(told.models[0].default_decode_chunk_size, 2)
        self.assertEqual([(bucket.size.width, bucket.size.height, bucket.size.num_frames, bucket.ready)
                          for bucket in told.buckets], [(64, 64, 5, True)])
        self.assertIn("output.format", told.request_fields)
        self.assertIn("output.playback_fps", told.request_fields)
        self.assertEqual(list(told.frame_formats), [PNG, JPEG, WEBP, RAW_RGB8])
        self.assertEqual([each for each in told.video_formats if each != WEBM_FILE],
                         [WEBP_FILE, APNG_FILE, AVI_FILE, Y4M_FILE, RAW_FILE])
        self.assertIn("num_frames", told.request_fields)

    def test_latent_lists_it(self):
        code, out, err = latent(self.server, "capabilities")
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"video +svd \(StableVideoDiffusionPipeline, svd\); .*, 2 frames decoded together")
        self.assertRegex(out, r"buckets 64x64x5\n +files webp, apng, avi, y4m, raw(, webm)?; or frames\n")
        code, out, err = latent(self.server, "capabilities", "--json")
        self.assertEqual(code, 0, err)
        told = json.loads(out)
        self.assertEqual([model["component"] for model in told["models"]], ["base", "refiner"])
        self.assertEqual(told["videos"]["buckets"],
                         [{"size": {"width": 64, "height": 64, "num_frames": 5}, "ready": True, "model": "video"}])
        self.assertEqual(told["videos"]["max_fps"], 60)

    def test_no_picture_is_drawn_by_it(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.api.generate(self.api.request(model="video"))
        self.assertEqual(list(violations(caught.exception)), ["model"])
        self.assertEqual(len(self.api.generate(self.api.request()).images), 1)

    def test_its_graphs_are_listed(self):
        listed = self.api.graphs(components=["image_encoder"])
        self.assertEqual([list(graph.users) for graph in listed], [["video"]])

    def animate(self, *arguments, steps=3):
        small = ("--width=64", "--height=64", "--num-frames=5", f"--num-inference-steps={steps}", "-s7")
        return latent(self.server, "animate", *arguments, *small)

    def test_latent_writes_the_frames(self):
        photo = self.folder / "photo.png"
        photo.write_bytes(image())
        code, out, err = self.animate(str(photo), f"--output={self.folder}/clip-%02d.png")
        self.assertEqual(code, 0, err)
        names = [str(self.folder / f"clip-{frame:02}.png") for frame in range(5)]
        self.assertEqual(sorted(out.split()), names)
        drawn = frames_of(self.draw(self.api))
        self.assertEqual([pathlib.Path(name).read_bytes() for name in names], [drawn[0, frame] for frame in range(5)])
        code, _, err = self.animate(str(photo), f"--output={self.folder}/clip-%02d.png")
        self.assertEqual(code, 1)
        self.assertIn("--force", err)
        code, out, err = self.animate(str(photo), f"--output={self.folder}/frames/", "--format=jpeg", "--json")
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(file.name for file in (self.folder / "frames").iterdir()),
                         [f"7-{frame:03}.jpg" for frame in range(5)])
        self.assertEqual(len(out.splitlines()), 6)

    def test_latent_crops_the_image_and_takes_latents(self):
        photo, noise = self.folder / "photo.png", self.folder / "noise.safetensors"
        photo.write_bytes(image())
        noise.write_bytes(latents())
        code, _, err = self.animate(str(photo), f"--output={self.folder}/clip.rgb", "--resize-mode=crop",
                                    "--guidance-interval=0,0.5", f"--latents={noise}")
        self.assertEqual(code, 0, err)
        given = {"resize_mode": CROP, "guidance_interval": {"start": 0, "stop": 0.5}, "latents": latents()}
        output = self.api.type("latent.v1.VideoOutput")(file=RAW_FILE)
        events = self.draw(self.api, output=output, **given)
        self.assertEqual((self.folder / "clip.rgb").read_bytes(), files_of(events)[0])
        used = events[-1].completed.parameters
        self.assertEqual((used.resize_mode, used.guidance_interval.stop, used.latents), (CROP, 0.5, b""))
        self.assertIn("Resize mode: crop", self.parameters_of(resize_mode=CROP))
        self.assertNotIn("Resize mode", self.parameters_of())

    def parameters_of(self, **fields):
        """The text in an animated PNG of the video."""
        output = self.api.type("latent.v1.VideoOutput")(file=APNG_FILE)
        with PIL.Image.open(io.BytesIO(files_of(self.draw(self.api, output=output, **fields))[0])) as opened:
            return opened.info["parameters"]

    def test_latent_writes_one_file(self):
        photo = self.folder / "photo.png"
        photo.write_bytes(image())
        has_webm = WEBM_FILE in self.api.call("VideoGeneration", "GetVideoCapabilities").video_formats
        webm = (("clip.webm", WEBM_FILE, ()),) if has_webm else ()
        for name, format, arguments in (*webm, ("clip.webp", WEBP_FILE, ()), ("clip.png", APNG_FILE, ()), ("clip.apng", APNG_FILE, ()),
                                        ("clip.AVI", AVI_FILE, ()), ("clip.y4m", Y4M_FILE, ()), ("clip.rgb", RAW_FILE, ()),
                                        ("clip.bin", RAW_FILE, ("--format=raw",))):
            with self.subTest(name):
                code, out, err = self.animate(str(photo), f"--output={self.folder}/{name}", *arguments)
                self.assertEqual((code, out), (0, f"{self.folder}/{name}\n"), err)
                self.assertEqual((self.folder / name).read_bytes(), self.draw_file(format)[0])
        code, _, err = self.animate(str(photo), f"--output={self.folder}/clip.webp")
        self.assertEqual(code, 2)
        self.assertIn("--force", err)
        code, out, err = self.animate(str(photo), f"--output={self.folder}/two.png", "-n2", "--json",
                                      "--embed-parameters=false")
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(file.name for file in self.folder.glob("two*")), ["two-1.png", "two-2.png"])
        self.assertEqual(len(out.splitlines()), 3)
        self.assertNotIn(b"parameters", (self.folder / "two-2.png").read_bytes())

    def test_latent_writes_previews_beside_the_video(self):
        photo = self.folder / "photo.png"
        photo.write_bytes(image())
        for output, beside in (("clip.avi", "clip.preview.webp"), ("clip-%02d.png", "clip-preview.webp"),
                               ("frames/", "frames/7-preview.webp")):
            with self.subTest(output):
                code, _, err = self.animate(str(photo), f"--output={self.folder}/{output}", "--previews=1", steps=100)
                self.assertEqual(code, 0, err)
                self.assertIn(f"previews: {self.folder}/{beside}\n", err)
                self.assertEqual(len(animation((self.folder / beside).read_bytes())[0]), 5)
        code, _, err = self.animate(str(photo), "--output=-", "--previews=1")
        self.assertEqual(code, 2)
        self.assertIn("--previews", err)

    def test_latent_says_what_is_wrong(self):
        text = self.folder / "text.png"
        text.write_text("no picture")
        code, _, err = self.animate(str(text), f"--output={self.folder}/x-%d.png")
        self.assertEqual(code, 4)
        self.assertIn("image", err)
        for arguments in ((), ("a.png", "b.png"), (str(text), "--output=clip.mkv"), (str(text), "--output=%s.png"),
                          (str(text), "--output=clip.jpg"), (str(text), "--output=clip.png", "--format=png"),
                          (str(text), "--output=frames/", "--format=avi"), (str(text), "--output=-", "--json"),
                          (str(text), "--output=-", "-n2")):
            self.assertEqual(self.animate(*arguments)[0], 2, arguments)


class ResumeTest(VideoTestCase):
    """A stream whose connection breaks is taken up again: the same bytes, and nothing is drawn twice."""

    STEPS = 3

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.flag(), METRICS, demo=False).start()
        cls.addClassCleanup(cls.server.kill)
        cls.api = Api(cls.server.address)
        cls.addClassCleanup(cls.api.close)

    def steps(self):
        return scrape(self.server).sum("latentd_denoise_steps_total")

    def resumed(self, request_id, size=0):
        request = self.api.type("latent.v1.ResumeVideoRequest")(request_id=request_id, received_bytes=size)
        return self.start_video(self.api, request, "ResumeVideo")

    @staticmethod
    def sent_of(events):
        """The bytes of frames and files, as they came."""
        return b"".join(event.frame_chunk.data + event.video_chunk.data for event in events)

    def test_the_rest_of_a_broken_stream_is_the_same_bytes(self):
        output = self.api.type("latent.v1.VideoOutput")
        for output in (output(format=RAW_RGB8), output(file=APNG_FILE), output(file=WEBP_FILE)):
            with self.subTest(output=str(output)):
                whole = self.draw(self.api, output=output, num_videos_per_prompt=2)
                before = self.steps()
                name = f"broken-{output.format}-{output.file}"
                # The proxy sees the call alone: what describes it would be among the bytes that it lets through.
                request = self.request(self.api, output=output, num_videos_per_prompt=2, request_id=name, resumable=True)
                events = []
                with CutConnection(self.server.address, len(self.sent_of(whole)) // 2) as proxy:
                    channel = grpc.insecure_channel(proxy.address)
                    self.addCleanup(channel.close)
                    with self.assertRaises(grpc.RpcError) as caught:
                        for event in self.start_video(self.api, request, channel=channel):
                            events.append(event)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
                self.assertTrue(events)
                rest = list(self.resumed(name))
                self.assertEqual((frames_of(rest), files_of(rest)), (frames_of(whole), files_of(whole)))
                sent, got = self.sent_of(rest), self.sent_of(events)
                self.assertLess(len(got), len(sent))
                self.assertEqual(got, sent[:len(got)])
                for size in (len(got), 1, len(sent) // 3, len(sent) - 1, len(sent)):
                    parts = list(self.resumed(name, size))
                    self.assertEqual(self.sent_of(parts), sent[size:])
                    self.assertTrue(parts[-1].HasField("completed"))
                self.assertEqual(self.steps() - before, 2 * self.STEPS)

    def test_latent_takes_it_up_by_itself(self):
        photo = self.folder / "photo.png"
        photo.write_bytes(image())

        def draw(address, name, *arguments):
            done = subprocess.run(
                [server_process.options.latent, "animate", str(photo), "--width=64", "--height=64", "--num-frames=5", "-s7",
                 f"--num-inference-steps={self.STEPS}", f"--server={address}", f"--output={self.folder}/{name}", *arguments],
                capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(done.returncode, 0, done.stderr)

        for name in ("clip{}.png", "clip{}-%d.rgb", "clip{}.webp"):
            draw(self.server.address, name.format("1"))
            whole = {file.name: file.read_bytes() for file in self.folder.glob("clip1*")}
            before = self.steps()
            with CutConnection(self.server.address, sum(map(len, whole.values())) // 2) as proxy:
                draw(proxy.address, name.format("2"), "--resumable")
                self.assertEqual(proxy.connections, 2, name)
            self.assertEqual(self.steps() - before, self.STEPS)
            again = {file.name.replace("clip2", "clip1"): file.read_bytes() for file in self.folder.glob("clip2*")}
            self.assertEqual(again, whole)
            for file in self.folder.glob("clip*"):
                file.unlink()

    def test_cancelling_ends_the_work_that_nobody_reads(self):
        request = self.request(self.api, num_inference_steps=150, num_videos_per_prompt=16, request_id="unread", resumable=True)
        call = self.start_video(self.api, request)
        next(event for event in call if event.HasField("progress"))
        call.cancel()
        self.assertEqual(self.server.request_line("unread")["code"], "CANCELLED")
        before = self.steps()
        wait_until(lambda: self.steps() > before, "the work goes on")
        with self.assertRaises(grpc.RpcError) as caught:
            list(self.start_video(self.api, request))
        self.assertEqual((caught.exception.code(), reason(caught.exception)[0]),
                         (grpc.StatusCode.ALREADY_EXISTS, "STREAM_EXISTS"))
        self.api.call("VideoGeneration", "CancelVideo", request_id="unread")
        wait_until(lambda: scrape(self.server).sum("latentd_requests_in_flight") == 0, "the work ends")
        with self.assertRaises(grpc.RpcError) as caught:
            list(self.resumed("unread"))
        self.assertEqual((caught.exception.code(), reason(caught.exception)[0]),
                         (grpc.StatusCode.NOT_FOUND, "NO_SUCH_STREAM"))


class SingleFileTest(VideoTestCase):
    """The file that was published beside the folder."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.wide = video_checkpoint.write_checkpoint(cls.root / "wide", wide=True)
        cls.cache = cls.root / "cache"

    def frames_by(self, path, *settings):
        flag = ",".join([f"--video={path}", f"buckets={video_checkpoint.BUCKET}", *settings])
        server = Server(flag, demo=False, cache=self.cache).start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        return frames_of(self.draw(api)), server

    def refused(self, path, *settings):
        server = Server(",".join([f"--video={path}", f"buckets={video_checkpoint.BUCKET}", *settings]), demo=False)
        self.addCleanup(server.kill)
        self.assertNotEqual(server.wait(), 0)
        return server.log()

    def test_it_draws_what_the_folder_draws(self):
        drawn, _ = self.frames_by(self.wide)
        self.assertEqual(len(drawn), 5)
        file = video_file.write_video_file(self.wide, self.folder / "svd_xt.safetensors")
        of_file, server = self.frames_by(file)
        self.assertEqual(of_file, drawn)
        self.assertIn("taken for 25", server.log())
        lacking = video_file.write_video_file(self.wide, self.folder / "unet_and_vae.safetensors", image_encoder=False)
        supplied, _ = self.frames_by(lacking, f"components-from={self.wide}")
        self.assertEqual(supplied, drawn)
        self.assertRegex(self.refused(lacking), "lacks image_encoder: --video=...,components-from=PATH")

    def test_what_it_does_not_say_is_a_folders_to_say(self):
        file = video_file.write_video_file(self.checkpoint, self.folder / "small.safetensors")
        self.assertRegex(self.refused(file), "make no whole heads of .*components-from")
        self.assertEqual(len(self.frames_by(file, f"components-from={self.checkpoint}")[0]), 5)

    def test_a_file_that_is_not_whole_is_refused_by_name(self):
        file = video_file.write_video_file(self.wide, self.folder / "broken.safetensors")
        tensors = ldm_file.read(file)
        name = "model.diffusion_model.input_blocks.1.1.time_pos_embed.0.weight"
        del tensors[name]
        ldm_file.write(file, tensors)
        self.assertIn(name.removeprefix("model.diffusion_model."), self.refused(file))

    def test_it_is_no_base(self):
        file = video_file.write_video_file(self.wide, self.folder / "svd.safetensors")
        server = Server(f"--base={file}", demo=False)
        self.addCleanup(server.kill)
        self.assertNotEqual(server.wait(), 0)
        self.assertIn("give it as --video", server.log())


class AloneTest(VideoTestCase):
    def start_with_cache(self):
        server = Server(self.flag(), "--metrics-listen=127.0.0.1:0", demo=False, cache=self.folder / "cache").start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        return server, api

    def test_a_server_of_videos_alone_compiles_nothing_after_a_restart(self):
        drawn = []
        for start in range(2):
            server, api = self.start_with_cache()
            drawn.append(frames_of(self.draw(api)))
            self.assertEqual(compilations(server) == 0, start == 1)
            with self.assertRaises(grpc.RpcError) as caught:
                api.generate(api.request())
            self.assertEqual(list(violations(caught.exception)), ["model"])
            self.assertEqual(server.stop(), 0)
        self.assertEqual(len(drawn[0]), 5)
        self.assertEqual(drawn[0], drawn[1])

    def test_a_server_that_is_killed_in_a_video_leaves_a_cache_that_is_whole(self):
        server, api = self.start_with_cache()
        drawn = frames_of(self.draw(api))
        self.assertEqual(server.stop(), 0)
        server, api = self.start_with_cache()
        call = self.start_video(api, self.request(api, num_inference_steps=150))
        next(event for event in call if event.HasField("progress") and event.progress.step > 1)
        server.kill()
        with self.assertRaises(grpc.RpcError) as caught:
            list(call)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
        server, api = self.start_with_cache()
        self.assertEqual(frames_of(self.draw(api)), drawn)
        self.assertEqual(compilations(server), 0)

    def test_without_a_model_of_videos_it_is_said(self):
        server = Server(buckets="64x64").start()
        self.addCleanup(server.kill)
        api = Api(server.address)
        self.addCleanup(api.close)
        error = self.refusal(api)
        self.assertEqual((error.code(), reason(error)[0]), (grpc.StatusCode.FAILED_PRECONDITION, "NO_VIDEO_MODEL"))
        self.assertEqual(len(api.call("VideoGeneration", "GetVideoCapabilities").models), 0)

    def test_the_flag_is_checked_before_anything_is_loaded(self):
        for flag, wrong in ((f"--video={self.checkpoint},buckets=64x64", "1024x576x25"),
                            (f"--video={self.checkpoint},decode-chunk=0", "decode-chunk"), ("--video=", "--video")):
            server = Server(flag, demo=False)
            self.addCleanup(server.kill)
            self.assertEqual(server.wait(), 2)
            self.assertIn(wrong, server.log())
