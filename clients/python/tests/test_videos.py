"""Calls of animate() of both pipelines against a server that does what the test says."""

import io
import sys
import types
import unittest
from unittest import mock

import grpc
import numpy
import PIL.Image

from scripted_server import (
    ScriptedServer, drawing, failing, file_part, frame_chunk, png, queued, video_completed, video_event, video_preview,
    video_step)
from test_calls import BrokenStreams, Tasks, Threads, broken

import latent_client
from latent_client import Frame, VideoCompleted, VideoFile, VideoPreview, VideoProgress, VideoStarted, messages, video_messages
from latent_client.animation import prepare_video
from latent_client.files import encode_latents

Code = grpc.StatusCode
IMAGE = b"image"
RED, BLUE = png((250, 0, 0)), png((0, 0, 250))


def started():
    return video_event(started=video_messages.VideoStarted(executed_size={"width": 8, "height": 8, "num_frames": 2}))


def clip():
    """A step of a script: a video of two frames, whose second comes first."""
    return drawing(video_event(queued=queued(2).queued), started(), video_step(1), video_step(4), frame_chunk(BLUE, 1),
                   frame_chunk(RED, 0, 0, 10), frame_chunk(RED, 0, 10), video_completed())


class KeywordTest(unittest.TestCase):
    def test_they_are_diffusers(self):
        request = prepare_video(IMAGE, dict(
            width=576, height=1024, num_frames=25, fps=12, motion_bucket_id=200, noise_aug_strength=0.1, decode_chunk_size=7,
            min_guidance_scale=1, max_guidance_scale=3, num_inference_steps=20, seed=7, num_videos_per_prompt=2,
            bucket_policy="cold_ok", resumable=False, resize_mode="crop", guidance_interval=(0, 0.5),
            latents=numpy.zeros((1, 25, 4, 2, 2)), output={"file": "webp", "playback_fps": 24}), None).request
        self.assertEqual(request, video_messages.GenerateVideoRequest(
            image=IMAGE, width=576, height=1024, num_frames=25, fps=12, motion_bucket_id=200, noise_aug_strength=0.1,
            decode_chunk_size=7, min_guidance_scale=1, max_guidance_scale=3, num_inference_steps=20, seed=7,
            num_videos_per_prompt=2, bucket_policy=messages.BUCKET_POLICY_COLD_OK, resize_mode=video_messages.RESIZE_MODE_CROP,
            guidance_interval=messages.GuidanceInterval(start=0, stop=0.5), latents=encode_latents(numpy.zeros((1, 25, 4, 2, 2))),
            output=video_messages.VideoOutput(file=video_messages.VIDEO_FORMAT_WEBP, playback_fps=24)))

    def test_what_is_none_is_named(self):
        for keywords, kind, said in (
                ({"num_frame": 25}, TypeError, "did you mean num_frames"), ({"prompt": "a star"}, TypeError, "'prompt'"),
                ({"fps": 7.5}, TypeError, "^fps: must be a whole number"),
                ({"output_type": "latent"}, ValueError, "^output_type: must be one of pil, np, bytes"),
                ({"output_type": "np", "output": {"file": "avi"}}, ValueError, "^output_type: "),
                ({"output": {"file": "mp4"}}, ValueError, "^output.file: must be one of webp, apng, avi, y4m, raw, webm, not 'mp4'"),
                ({"generator": object(), "seed": 1}, ValueError, "^generator: ")):
            with self.assertRaisesRegex(kind, said):
                prepare_video(IMAGE, keywords, None)

    def test_several_videos_of_one_generator_are_refused(self):
        generator = types.SimpleNamespace(initial_seed=lambda: 7)
        self.assertEqual(prepare_video(IMAGE, {"generator": generator}, None).request.seed, 7)
        self.assertEqual(list(prepare_video(IMAGE, {"generator": [generator] * 2}, None).request.seeds), [7, 7])
        with self.assertRaisesRegex(ValueError, "^generator: one generator for several"):
            prepare_video(IMAGE, {"generator": generator, "num_videos_per_prompt": 2}, None)


class Cases(BrokenStreams):
    starts, resumes = "GenerateVideo", "ResumeVideo"
    part, result, all_of_it, files = frame_chunk(RED, 0, 0, 10), frame_chunk(RED, 0), staticmethod(clip()), [[RED, BLUE]]

    def drawn(self, server, **keywords):
        return self.animate(server, IMAGE, output_type="bytes", **keywords).frames

    def server(self, *script):
        server = ScriptedServer(*script)
        self.addCleanup(server.stop)
        return server

    def fails(self, kind, *script, **keywords):
        server = self.server(*script)
        with self.assertRaises(kind) as caught:
            self.animate(server, IMAGE, **keywords)
        self.assertIs(type(caught.exception), kind)
        return caught.exception, server

    def test_frames_as_pillow_has_them_in_their_order(self):
        server = self.server(clip())
        output = self.animate(server, IMAGE, num_frames=2)
        self.assertEqual([[frame.getpixel((0, 0)) for frame in video] for video in output.frames], [[(250, 0, 0), (0, 0, 250)]])
        self.assertEqual((output[0], output.files, output.seeds), (output.frames, [], [7]))
        self.assertEqual((output.executed_size, output.num_frames), ((8, 8), 2))
        (method, request), = server.calls
        self.assertEqual((method, request.image, request.num_frames, request.HasField("seed")), ("GenerateVideo", IMAGE, 2, True))
        self.assertEqual(output.request_id, "")
        self.assertNotIn("x-latent-bucket", server.metadata)
        again = self.server(clip())
        self.animate(again, IMAGE, **output.parameters)
        (_, request), = again.calls
        self.assertEqual((request.num_frames, request.fps, list(request.seeds)), (2, 7, [7]))

    def test_other_output_types(self):
        self.assertEqual(self.animate(self.server(clip()), IMAGE, output_type="bytes").frames, [[RED, BLUE]])
        frames, = self.animate(self.server(clip()), IMAGE, output_type="bytes", return_dict=False)
        self.assertEqual(frames, [[RED, BLUE]])
        array = self.animate(self.server(clip()), IMAGE, output_type="np").frames
        self.assertEqual((array.shape, array.dtype), ((1, 2, 8, 8, 3), numpy.float32))
        numpy.testing.assert_array_equal(array[0, :, 0, 0], numpy.float32([[250, 0, 0], [0, 0, 250]]) / 255)

    def test_files_of_videos_whose_parts_are_mixed(self):
        first, second = b"first file", b"second"
        script = drawing(file_part(first, 0, 4), file_part(second, 0, 3, video=1), file_part(first, 4), file_part(second, 3, video=1),
                         video_completed(file=video_messages.VIDEO_FORMAT_WEBP))
        output = self.animate(self.server(script), IMAGE, output={"file": "webp"}, num_videos_per_prompt=2)
        self.assertEqual((output.files, output.frames, output.seeds), ([first, second], [], [7, 8]))
        self.assertEqual(output.parameters["output"], {"file": "webp"})
        self.assertEqual(self.animate(self.server(script), IMAGE, output={"file": "webp"}, return_dict=False), ([first, second],))

    def test_events_as_they_come(self):
        events = self.events(self.server(clip()), method="stream_video", first=IMAGE, request_id="clip")
        kinds = [type(event) for event in events]
        self.assertEqual(kinds, [latent_client.Queued, VideoStarted, VideoProgress, VideoProgress, Frame, Frame, VideoCompleted])
        self.assertEqual((events[1].executed_size, events[1].num_frames), ((8, 8), 2))
        self.assertEqual((events[2].video_index, events[2].stage, events[2].step, events[2].total_steps), (0, "steps", 1, 4))
        self.assertEqual([(event.frame, event.data, event.image.size) for event in events[4:6]],
                         [(1, BLUE, (8, 8)), (0, RED, (8, 8))])

    def test_an_event_of_a_file(self):
        script = drawing(file_part(b"clip"), video_completed())
        file, _ = self.events(self.server(script), method="stream_video", first=IMAGE)
        self.assertEqual(file, VideoFile("", 0, 7, (8, 8), 2, "image/webp", b"clip"))

    def test_previews_are_frames(self):
        file = io.BytesIO()
        frames = [PIL.Image.new("RGB", (8, 8), color) for color in ((250, 0, 0), (0, 0, 250))]
        frames[0].save(file, "WEBP", save_all=True, append_images=frames[1:], lossless=True)
        script = (video_step(1), video_preview(1, file.getvalue()), video_step(2), video_step(3, video=1), video_completed())
        _, preview, *_ = self.events(self.server(drawing(*script)), method="stream_video", first=IMAGE, previews=1)
        self.assertEqual(preview, VideoPreview("", 0, 1, 4, (8, 8), 2, "image/webp", file.getvalue()))
        self.assertEqual([frame.getpixel((0, 0)) for frame in preview.frames], [(250, 0, 0), (0, 0, 250)])
        seen = []
        server = self.server(drawing(*script))
        self.animate(server, IMAGE, previews=1, callback_on_step_end=lambda pipe, step, time, values: seen.append(values))
        self.assertEqual([values["preview"] and [frame.size for frame in values["preview"]] for values in seen],
                         [None, [(8, 8), (8, 8)], None])
        self.assertEqual(server.calls[0][1].previews.every_n_steps, 1)

    def test_parts_that_do_not_fit_are_no_video(self):
        for parts in ((frame_chunk(RED, 0, 0, 10), frame_chunk(RED, 0, 11)), (frame_chunk(RED, 0, 0, 10), frame_chunk(RED, 1, 10)),
                      (frame_chunk(RED, 0, 0, 10), video_completed()), (file_part(b"clip", 0, 2), video_completed()),
                      (file_part(b"clip", 1),), (file_part(b"clip", 0, 3, total=2),)):
            error, server = self.fails(latent_client.ServerError, drawing(*parts))
            self.assertEqual((error.code, len(server.calls)), ("DATA_LOSS", 1))
            self.assertIn("the server's video is broken", error.message)

    def test_errors_have_their_classes(self):
        error, server = self.fails(latent_client.NoVideoModel, failing(Code.FAILED_PRECONDITION, "none", reason="NO_VIDEO_MODEL"))
        self.assertEqual((error.reason, len(server.calls)), ("NO_VIDEO_MODEL", 1))
        error, _ = self.fails(latent_client.OutOfMemory, failing(Code.RESOURCE_EXHAUSTED, reason="OUT_OF_MEMORY",
                                                                 metadata={"decode_chunk_size": "7"}))
        self.assertEqual(error.metadata, {"decode_chunk_size": "7"})
        error, _ = self.fails(latent_client.InvalidRequest, failing(Code.INVALID_ARGUMENT, violations=[("fps", "too many")],
                                                                    reason="BAD_FIELDS"))
        self.assertEqual(error.field, "fps")

    def test_a_server_that_is_loading_is_asked_again(self):
        server = self.server(failing(Code.UNAVAILABLE, reason="LOADING", retry=0.001), clip())
        self.animate(server, IMAGE)
        self.assertEqual(server.methods(), ["GenerateVideo"] * 2)
        self.assertEqual(server.calls[0][1], server.calls[1][1])  # the same seed and name

    def test_a_broken_stream_is_taken_up_where_it_broke(self):
        server = self.server(broken(video_step(1), frame_chunk(BLUE, 1), frame_chunk(RED, 0, 0, 10)), broken(),
                             drawing(frame_chunk(RED, 0, 10), video_completed()))
        self.assertEqual(self.animate(server, IMAGE, output_type="bytes").frames, [[RED, BLUE]])
        self.assertEqual(server.methods(), ["GenerateVideo", "ResumeVideo", "ResumeVideo"])
        for _, request in server.calls[1:]:
            self.assertEqual((request.request_id, request.received_bytes), (server.calls[0][1].request_id, len(BLUE) + 10))
        server = self.server(broken(file_part(b"first", 0, 2), file_part(b"second", 0, 3, video=1)),
                             drawing(file_part(b"second", 3, video=1), file_part(b"first", 2), video_completed()))
        self.assertEqual(self.animate(server, IMAGE, output={"file": "apng"}).files, [b"first", b"second"])
        self.assertEqual(server.calls[1][1].received_bytes, 5)

    def test_leaving_cancels(self):
        server = self.server(clip())
        self.events(server, 2, method="stream_video", first=IMAGE, request_id="clip")
        self.assertEqual(server.cancelled, ["clip"])
        server = self.server(clip())
        self.events(server, 2, method="stream_video", first=IMAGE, resumable=False)
        self.assertEqual(server.cancelled, [])

    def test_warnings_are_logged(self):
        with self.assertLogs("latent_client", "WARNING") as logged:
            output = self.animate(self.server(drawing(video_completed(["decode_chunk_size is 9"]))), IMAGE)
        self.assertEqual((output.warnings, output.frames), (["decode_chunk_size is 9"], []))
        self.assertIn("decode_chunk_size is 9", logged.output[0])

    def test_a_callback_may_end_it(self):
        seen = []

        def callback(pipe, index, timestep, values):
            seen.append((index, timestep, values))
            pipe._interrupt = index == 3

        self.fails(latent_client.Cancelled, clip(), callback_on_step_end=callback)
        self.assertEqual(seen, [(0, None, {"preview": None, "video_index": 0}), (3, None, {"preview": None, "video_index": 0})])

    def test_progress_bar(self):
        shown = []

        class Bar:
            def __init__(self, **settings):
                self.n, self.total = 0, None

            def update(self, count):
                self.n += count
                shown.append((self.n, self.total))

            def set_description(self, text):
                shown.append(text)

            def close(self):
                shown.append("closed")

        tqdm = types.SimpleNamespace(tqdm=Bar)
        with mock.patch.dict(sys.modules, {"tqdm": types.SimpleNamespace(auto=tqdm), "tqdm.auto": tqdm}):
            self.animate(self.server(clip()), IMAGE, num_videos_per_prompt=2, progress_bar=True)
        self.assertEqual(shown, ["queued: 2 before", "", (1, 8), (4, 8), "", "closed"])

    def test_capabilities(self):
        told = self.ask(self.server(), "video_capabilities")
        self.assertEqual([model.name for model in told.models], ["video"])


class VideoTest(Threads, Cases, unittest.TestCase):
    pass


class AsyncVideoTest(Tasks, Cases, unittest.TestCase):
    pass


if __name__ == "__main__":
    unittest.main()
