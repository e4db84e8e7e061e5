"""Calls of both pipelines against a server that does what the test says."""

import asyncio
import gc
import sys
import threading
import types
import unittest
from unittest import mock

import grpc

from scripted_server import (
    DEADLINE, ScriptedServer, chunk, completed, drawing, event, fail, failing, picture, png, preview, queued, step, until_deadline,
    until_left)

import latent_client
from latent_client import AsyncLatentPipeline, LatentPipeline, messages
from latent_client.retry import RetryPolicy

Code = grpc.StatusCode
FAST = RetryPolicy(retries=2, first_pause=0.001)  # seconds


def broken(*events):
    """A step of a script: these events, and then the connection is gone, as far as its client can tell."""
    def run(request, context):
        yield from events
        fail(context, Code.UNAVAILABLE, "Socket closed")
    return run


def late(request, context):
    """A step of a script whose deadline passes when it has begun."""
    yield step(1)
    fail(context, Code.DEADLINE_EXCEEDED, "Deadline Exceeded")


class Threads:
    """How a test uses LatentPipeline."""

    @staticmethod
    def pipeline(address, **arguments):
        pipe = LatentPipeline(address, **arguments)
        pipe._retries = FAST
        return pipe

    def draw(self, server, *arguments, settings=types.MappingProxyType({}), **keywords):
        with self.pipeline(server.address, **settings) as pipe:
            return pipe(*arguments, **{"progress_bar": False, **keywords})

    def animate(self, server, *arguments, **keywords):
        with self.pipeline(server.address) as pipe:
            return pipe.animate(*arguments, **{"progress_bar": False, **keywords})

    def events(self, server, count=None, method="stream", first="p", **keywords):
        """The first so many events, or all."""
        with self.pipeline(server.address) as pipe, getattr(pipe, method)(first, **keywords) as events:
            return [next(events) for _ in range(count)] if count else list(events)

    def ask(self, server, method, *arguments, **keywords):
        with self.pipeline(server.address) as pipe:
            return getattr(pipe, method)(*arguments, **keywords)


class Tasks:
    """How it uses AsyncLatentPipeline."""

    @staticmethod
    def pipeline(address, **arguments):
        pipe = AsyncLatentPipeline(address, **arguments)
        pipe._retries = FAST
        return pipe

    def draw(self, server, *arguments, settings=types.MappingProxyType({}), **keywords):
        async def run():
            async with self.pipeline(server.address, **settings) as pipe:
                return await pipe(*arguments, **{"progress_bar": False, **keywords})
        return asyncio.run(run())

    def animate(self, server, *arguments, **keywords):
        async def run():
            async with self.pipeline(server.address) as pipe:
                return await pipe.animate(*arguments, **{"progress_bar": False, **keywords})
        return asyncio.run(run())

    def events(self, server, count=None, method="stream", first="p", **keywords):
        async def run():
            async with self.pipeline(server.address) as pipe, getattr(pipe, method)(first, **keywords) as events:
                return [await events.__anext__() for _ in range(count)] if count else [one async for one in events]
        return asyncio.run(run())

    def ask(self, server, method, *arguments, **keywords):
        async def run():
            async with self.pipeline(server.address) as pipe:
                answer = await getattr(pipe, method)(*arguments, **keywords)
                return None if answer is pipe else answer
        return asyncio.run(run())


class BrokenStreams:
    """Cases of streams that break, of pictures or videos: the service's methods `starts` and `resumes`, a `part` of a result, a whole
    `result`, a script of `all_of_it`, and what `drawn()` returns of that."""

    def test_a_server_that_does_not_know_it_begins_again(self):
        gone = failing(Code.NOT_FOUND, reason="NO_SUCH_STREAM")
        server = self.server(broken(self.part), gone, self.all_of_it)
        self.assertEqual(self.drawn(server), self.files)
        self.assertEqual(server.methods(), [self.starts, self.resumes, self.starts])
        self.fails(latent_client.NotFound, broken(self.result), gone)  # a result is there: it is not drawn twice

    def test_one_that_is_not_resumable_is_not_taken_up(self):
        server = self.server(broken(self.part), self.all_of_it)
        self.drawn(server, resumable=False)
        self.assertEqual(server.methods(), [self.starts] * 2)
        self.fails(latent_client.Unavailable, broken(self.result), resumable=False)


class Cases(BrokenStreams):
    starts, resumes = "GenerateStream", "ResumeStream"
    part, result, all_of_it, files = chunk(png(), 0, 10), chunk(png()), staticmethod(picture()), [png()]

    def drawn(self, server, **keywords):
        return self.draw(server, "p", output_type="bytes", **keywords).images

    def server(self, *script):
        server = ScriptedServer(*script)
        self.addCleanup(server.stop)
        return server

    def fails(self, kind, *script, **keywords):
        """(error, server) of a call that fails so."""
        server = self.server(*script)
        with self.assertRaises(kind) as caught:
            self.draw(server, "p", **keywords)
        self.assertIs(type(caught.exception), kind)
        return caught.exception, server

    def test_embeddings(self):
        def encode(request, context):
            half = messages.Tensor(dtype=messages.Tensor.DTYPE_FLOAT16, shape=[2, 1], data=b"\x00\x3c\x00\xc0")
            return messages.EncodeResponse(prompt_embeds=half, pooled_prompt_embeds=messages.Tensor(shape=[1], data=bytes(4)),
                                           warnings=["12 tokens are not read"])
        server = self.server(encode)
        with self.assertLogs("latent_client", "WARNING") as logged:
            embeds = self.ask(server, "encode_prompt", "a star", device="cuda", dtype="float16", timeout=30)
        states, negative, pooled, negative_pooled = embeds
        self.assertEqual((states.tolist(), pooled.tolist(), negative, negative_pooled), ([[[1], [-2]]], [[0]], None, None))
        self.assertIn("12 tokens", logged.output[0])
        self.assertEqual(server.calls, [("Encode", messages.EncodeRequest(prompt="a star", dtype=messages.Tensor.DTYPE_FLOAT16))])
        self.assertLess(server.remaining, 31)
        drawn = self.server(picture())
        self.draw(drawn, **embeds._asdict())
        (_, request), = drawn.calls
        self.assertEqual((request.prompt_embeds.shape, request.prompt_embeds.data), ([1, 2, 1], b"\x00\x3c\x00\xc0"))
        self.assertFalse(request.HasField("negative_prompt_embeds"))

    def test_embeddings_that_are_refused(self):
        def refuse(request, context):
            fail(context, Code.INVALID_ARGUMENT, "no", "INVALID_FIELDS", violations=[("clip_skip", "must be at most 2")])
        with self.assertRaises(latent_client.InvalidRequest) as caught:
            self.ask(self.server(refuse), "encode_prompt", "a star", clip_skip=9)
        self.assertEqual(caught.exception.field, "clip_skip")

    def test_a_key_is_sent_with_every_call(self):
        server = self.server(picture(), picture(), picture(), picture())
        self.draw(server, "p", settings={"api_key": "the-key-of-all"})
        self.assertEqual(server.metadata["authorization"], "Bearer the-key-of-all")
        with mock.patch.dict("os.environ", {"LATENTD_API_KEY": "the-key-outside"}):
            for given, sent in (({}, "Bearer the-key-outside"), ({"api_key": ""}, None),
                                ({"metadata": {"Authorization": "Basic x"}}, "Basic x")):
                with self.subTest(given=given):
                    self.draw(server, "p", settings=given)
                    self.assertEqual(server.metadata.get("authorization"), sent)

    def test_a_key_that_cannot_be_sent_is_refused_and_not_told(self):
        for settings, name in (({"api_key": "secret\n"}, "api_key"), ({"api_key": "secret key"}, "api_key"), ({}, "LATENTD_API_KEY")):
            with self.subTest(settings=settings), mock.patch.dict("os.environ", {"LATENTD_API_KEY": "secr\u00e9t"}):
                with self.assertRaisesRegex(ValueError, f"^{name}: ") as caught:
                    self.pipeline("localhost:1", **settings)
                self.assertNotIn("secr", str(caught.exception))
        with self.assertRaisesRegex(ValueError, "but not both"):
            self.pipeline("localhost:1", api_key="a-key", metadata={"AUTHORIZATION": "Bearer x"})
        self.assertNotIn("a-key", repr(self.pipeline("localhost:1", api_key="a-key")))

    def test_a_picture(self):
        server = self.server(drawing(queued(), step(1), chunk(png(), 0, 10), chunk(png(), 10), completed(["eta has no effect"])))
        with self.assertLogs("latent_client", "WARNING") as logged:
            output = self.draw(server, "a star", width=64, height=32, num_inference_steps=4)
        self.assertEqual(output.images[0].getpixel((0, 0)), (200, 10, 10))
        self.assertIs(output[0], output.images)
        self.assertEqual((output.seeds, output.executed_size, output.warnings), ([7], (8, 8), ["eta has no effect"]))
        self.assertEqual(output.guidance_stopped_after, [3])
        self.assertEqual(output.parameters, {"prompt": "p", "seeds": [7], "bucket_policy": "exact"})
        self.assertIn("eta has no effect", logged.output[0])
        (method, request), = server.calls
        self.assertEqual((method, request.prompt, request.resumable, request.HasField("seed")), ("GenerateStream", "a star", True, True))
        self.assertGreater(len(request.request_id), 16)
        self.assertEqual(server.metadata["x-latent-bucket"], "64x32")
        self.assertIn(f"latent-client/{latent_client.__version__}", server.metadata["user-agent"])
        self.assertGreater(server.remaining, 1e9)  # gRPC's word for none
        self.assertEqual(server.cancelled, [])

    def test_output_types(self):
        for output_type, read in (("bytes", lambda images: images[0] == png()), ("np", lambda images: images.shape == (1, 8, 8, 3)),
                                  ("pil", lambda images: images[0].size == (8, 8)), (None, lambda images: images[0].size == (8, 8))):
            self.assertTrue(read(self.draw(self.server(picture()), "p", output_type=output_type).images), output_type)
        images, = self.draw(self.server(picture()), "p", return_dict=False)
        self.assertEqual(len(images), 1)
        with self.assertRaisesRegex(ValueError, "output_type: must be one of"):
            self.draw(self.server(), "p", output_type="pt")

    def test_several_pictures(self):
        blue = png((0, 0, 250))
        server = self.server(drawing(chunk(png()), chunk(blue, index=1), completed()))
        output = self.draw(server, "p", seed=7, num_images_per_prompt=2, output_type="bytes")
        self.assertEqual((output.images, output.seeds), ([png(), blue], [7, 8]))

    def test_events(self):
        server = self.server(drawing(queued(3), event(started=messages.Started(executed_size={"width": 8, "height": 8})), step(1),
                                     preview(1), chunk(png()), completed()))
        events = self.events(server, previews=1)
        self.assertEqual([type(one).__name__ for one in events],
                         ["Queued", "Started", "Progress", "Preview", "Image", "Completed"])
        self.assertEqual((events[0].position, events[0].estimated_wait, events[2].stage, events[2].step), (3, None, "steps", 1))
        self.assertEqual((events[3].image.size, events[4].data, events[4].image.size), ((8, 8), png(), (8, 8)))
        self.assertEqual(server.calls[0][1].previews.every_n_steps, 1)

    def test_bad_keywords_fail_before_any_call(self):
        server = self.server()
        with self.assertRaisesRegex(TypeError, "num_inference_steps"):
            self.draw(server, "p", num_inference_step=3)
        self.assertEqual(server.calls, [])

    def test_a_server_that_is_loading_is_asked_again(self):
        loading = failing(Code.UNAVAILABLE, reason="LOADING", retry=0.001)
        server = self.server(loading, loading, picture())
        self.draw(server, "p")
        requests = [request for _, request in server.calls]
        self.assertEqual(server.methods(), ["GenerateStream"] * 3)
        self.assertEqual(requests[0], requests[2])  # the same seed and name

    def test_not_for_ever(self):
        full = failing(Code.RESOURCE_EXHAUSTED, "the queue is full", reason="QUEUE_FULL", retry=0.002, metadata={"queued": "16"})
        error, server = self.fails(latent_client.QueueFull, full, full, full)
        self.assertEqual((error.retry_after, error.metadata, error.message), (0.002, {"queued": "16"}, "the queue is full"))
        self.assertEqual(len(server.calls), 3)
        self.assertEqual(error.request_id, server.calls[0][1].request_id)

    def test_what_no_other_try_mends_is_not_tried_again(self):
        violations = [("width", "must be a multiple of 8"), ("eta", "must be from 0 to 1")]
        error, server = self.fails(latent_client.InvalidRequest, failing(Code.INVALID_ARGUMENT, "two bad fields", reason="BAD_FIELDS",
                                                                         violations=violations))
        self.assertIsInstance(error, ValueError)
        self.assertEqual((error.field, [tuple(one) for one in error.violations]), ("width", violations))
        self.assertEqual(str(error), "two bad fields (INVALID_ARGUMENT, BAD_FIELDS)")
        self.assertEqual((len(server.calls), server.cancelled), (1, []))

    def test_each_error_has_its_class(self):
        for kind, parent, code, reason in (
                (latent_client.NoSuchBucket, ValueError, Code.INVALID_ARGUMENT, "NO_SUCH_BUCKET"),
                (latent_client.BucketCold, Exception, Code.FAILED_PRECONDITION, "BUCKET_COLD"),
                (latent_client.BucketCold, Exception, Code.FAILED_PRECONDITION, "COMPILE_FORBIDDEN"),
                (latent_client.CheckpointChanged, Exception, Code.FAILED_PRECONDITION, "CHECKPOINT_CHANGED"),
                (latent_client.OutOfMemory, latent_client.ResourceExhausted, Code.RESOURCE_EXHAUSTED, "OUT_OF_MEMORY"),
                (latent_client.PredictedOverrun, TimeoutError, Code.DEADLINE_EXCEEDED, "PREDICTED_OVERRUN"),
                (latent_client.StreamExists, Exception, Code.ALREADY_EXISTS, "STREAM_EXISTS"),
                (latent_client.Unauthenticated, Exception, Code.UNAUTHENTICATED, ""),
                (latent_client.PermissionDenied, Exception, Code.PERMISSION_DENIED, ""),
                (latent_client.NotFound, Exception, Code.NOT_FOUND, ""),
                (latent_client.ServerError, Exception, Code.INTERNAL, ""),
                (latent_client.ServerError, Exception, Code.UNIMPLEMENTED, ""),
                (latent_client.Cancelled, Exception, Code.CANCELLED, "STREAM_DROPPED"),
                (latent_client.ResourceExhausted, Exception, Code.RESOURCE_EXHAUSTED, "")):
            error, server = self.fails(kind, failing(code, "said", reason=reason))
            self.assertIsInstance(error, parent)
            self.assertEqual((error.code, error.reason, error.message, len(server.calls)), (code.name, reason, "said", 1))

    def test_reasons_of_others_are_not_latentds(self):
        error, _ = self.fails(latent_client.InvalidRequest, failing(Code.INVALID_ARGUMENT, reason="NO_SUCH_BUCKET", domain="proxy"))
        self.assertEqual((error.reason, error.metadata), ("", {}))

    def test_details_that_cannot_be_read(self):
        def run(request, context):
            context.set_trailing_metadata((("grpc-status-details-bin", b"\xff\xff"),))
            context.abort(Code.INVALID_ARGUMENT, "no")
            yield
        self.fails(latent_client.InvalidRequest, run)

    def test_a_server_that_cancels_is_asked_again(self):
        server = self.server(failing(Code.CANCELLED, "the server stopped"), picture())
        self.draw(server, "p")
        self.assertEqual(len(server.calls), 2)

    def test_a_broken_stream_is_taken_up_where_it_broke(self):
        first, second = png(), png((1, 2, 250), (9, 9))
        server = self.server(broken(step(1), chunk(first), chunk(second, 0, 20, index=1)), broken(),
                             drawing(chunk(second, 20, index=1), completed()))
        output = self.draw(server, "p", num_images_per_prompt=2, output_type="bytes")
        self.assertEqual(output.images, [first, second])
        self.assertEqual(server.methods(), ["GenerateStream", "ResumeStream", "ResumeStream"])
        for _, request in server.calls[1:]:
            self.assertEqual((request.request_id, request.received_images, request.received_bytes),
                             (server.calls[0][1].request_id, 1, 20))

    def test_a_stream_that_ends_without_its_end_is_a_broken_one(self):
        server = self.server(drawing(step(1)), drawing(chunk(png()), completed()))
        self.draw(server, "p")
        self.assertEqual(server.methods(), ["GenerateStream", "ResumeStream"])

    def test_a_first_call_that_got_there_without_its_answer(self):
        server = self.server(broken(), failing(Code.ALREADY_EXISTS, reason="STREAM_EXISTS"), drawing(chunk(png()), completed()))
        self.draw(server, "p")
        self.assertEqual(server.methods(), ["GenerateStream", "GenerateStream", "ResumeStream"])

    def test_what_cannot_be_taken_up_is_cancelled(self):
        _, server = self.fails(latent_client.Unavailable, broken(step(1)), broken(), broken())
        self.assertEqual(server.cancelled, [server.calls[0][1].request_id])

    def test_chunks_that_do_not_fit_are_no_picture(self):
        for parts in ((chunk(png(), 0, 10), chunk(png(), 11)), (chunk(png(), 0, 10), chunk(png(), 10, index=1)),
                      (chunk(png(), 0, 10), event(image_chunk=messages.ImageChunk(offset=10, seed=7, total_bytes=len(png()),
                                                                                  data=png())))):
            error, server = self.fails(latent_client.ServerError, drawing(*parts))
            self.assertEqual((error.code, len(server.calls), len(server.cancelled)), ("DATA_LOSS", 1, 1))

    def test_leaving_cancels(self):
        server = self.server(until_left)
        seen, = self.events(server, 1)
        self.assertEqual(server.cancelled, [seen.request_id or server.calls[0][1].request_id])
        self.assertTrue(server.ended.wait(DEADLINE))
        server = self.server(until_left)
        self.events(server, 1, resumable=False)
        self.assertTrue(server.ended.wait(DEADLINE))
        self.assertEqual(server.cancelled, [])

    def test_deadlines(self):
        server = self.server(picture())
        self.draw(server, "p", timeout=50)
        self.assertTrue(0 < server.remaining < 51, server.remaining)  # gRPC sends it in few digits, rounded up
        error, _ = self.fails(latent_client.DeadlineExceeded, until_deadline, timeout=0.3)
        self.assertIsInstance(error, TimeoutError)
        # One that passes behind the first event, however long that takes to come.
        _, server = self.fails(latent_client.DeadlineExceeded, late)
        self.assertEqual(len(server.cancelled), 1)
        # A pause that is longer than what is left is not waited for.
        self.fails(latent_client.QueueFull, failing(Code.RESOURCE_EXHAUSTED, reason="QUEUE_FULL", retry=900), timeout=500)

    def test_callback(self):
        seen = []

        def callback(pipe, index, timestep, values):
            seen.append((index, timestep, values["preview"] and values["preview"].size, values["image_index"]))
            pipe._interrupt = index == 1

        error, server = self.fails(latent_client.Cancelled, drawing(step(1), preview(1), step(2), step(3), chunk(png()), completed()),
                                   callback_on_step_end=callback)
        self.assertEqual(seen, [(0, None, None, 0), (1, None, (8, 8), 0)])
        request_id = server.calls[0][1].request_id
        self.assertEqual((server.cancelled, error.request_id), ([request_id], request_id))

    def test_progress_bar(self):
        shown = []

        class Bar:
            def __init__(self, **settings):
                self.n, self.total = 0, None
                shown.append(settings)

            def update(self, count):
                self.n += count
                shown.append((self.n, self.total))

            def set_description(self, text):
                shown.append(text)

            def close(self):
                shown.append("closed")

        tqdm = types.SimpleNamespace(tqdm=Bar)
        with mock.patch.dict(sys.modules, {"tqdm": types.SimpleNamespace(auto=tqdm), "tqdm.auto": tqdm}):
            self.draw(self.server(drawing(queued(2), step(1), step(4), step(2, image=1), chunk(png()), completed())), "p",
                      num_images_per_prompt=2, progress_bar=True)
        self.assertEqual(shown, [{"total": None, "unit": "step"}, "queued: 2 before", (1, 8), (4, 8), (6, 8), "", "closed"])
        with mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.auto": None}):
            self.draw(self.server(picture()), "p", progress_bar=True)

    def test_other_calls(self):
        server = self.server()
        server.health = [0, 2, 1]  # UNKNOWN, NOT_SERVING, SERVING
        self.ask(server, "wait_until_ready", 60)
        self.assertEqual(server.health, [1])
        self.assertEqual(self.ask(server, "health"), "SERVING")
        self.assertEqual([model.component for model in self.ask(server, "models")], ["base"])
        server.health = [2]
        with self.assertRaisesRegex(latent_client.Unavailable, "does not serve yet"):
            self.ask(server, "wait_until_ready", 0)

    def test_where_nothing_listens_it_is_asked_once(self):
        server = self.server()
        server.stop()
        with mock.patch("latent_client.generation.RetrySchedule.pause_after") as pause:
            with self.assertRaises(latent_client.Unavailable) as caught:
                self.draw(server, "p")
        pause.assert_not_called()
        self.assertIsInstance(caught.exception, ConnectionError)
        self.assertIsInstance(caught.exception.__cause__, grpc.RpcError)


class PipelineTest(Threads, Cases, unittest.TestCase):
    def test_dropping_the_iterator_cancels(self):
        server = self.server(until_left)
        with self.pipeline(server.address) as pipe:
            for _ in pipe.stream("p"):
                break
            gc.collect()
            self.assertEqual(len(server.cancelled), 1)

    def test_threads_share_a_pipeline(self):
        server = self.server(*[picture()] * 8)
        outputs = []
        with self.pipeline(server.address) as pipe:
            threads = [threading.Thread(target=lambda: outputs.append(pipe("p", output_type="bytes"))) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE)
        self.assertEqual([output.images for output in outputs], [[png()]] * 8)
        self.assertEqual(len({request.request_id for _, request in server.calls}), 8)

    def test_interrupting_one_call_leaves_the_others(self):
        def stop(pipe, *_):
            pipe._interrupt = True
        server = self.server(drawing(step(1), step(2)), picture())
        with self.pipeline(server.address) as pipe:
            with self.assertRaises(latent_client.Cancelled):
                pipe("p", callback_on_step_end=stop)
            pipe("p")

    def test_metadata_and_the_environment(self):
        server = self.server(picture())
        with mock.patch.dict("os.environ", {"LATENT_SERVER": server.address}):
            with LatentPipeline(metadata={"Authorization": "Bearer x"}) as pipe:
                pipe("p")
        self.assertEqual(server.metadata["authorization"], "Bearer x")

    def test_it_can_be_used_again_after_close(self):
        server = self.server(picture(), picture())
        pipe = self.pipeline(server.address)
        for _ in range(2):
            pipe("p")
            pipe.close()


class AsyncPipelineTest(Tasks, Cases, unittest.TestCase):
    def test_cancelling_the_task_cancels_the_request(self):
        server = self.server(until_left)

        async def run():
            async with self.pipeline(server.address) as pipe:
                begun = asyncio.Event()
                task = asyncio.ensure_future(pipe("p", callback_on_step_end=lambda *_: begun.set(), progress_bar=False))
                await asyncio.wait_for(begun.wait(), DEADLINE)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task

        asyncio.run(run())
        self.assertEqual(server.cancelled, [server.calls[0][1].request_id])
        self.assertTrue(server.ended.wait(DEADLINE))

    def test_a_coroutine_as_callback(self):
        seen = []

        async def callback(pipe, index, timestep, values):
            await asyncio.sleep(0)
            seen.append(index)

        self.draw(self.server(picture()), "p", callback_on_step_end=callback)
        self.assertEqual(seen, [0, 3])

    def test_tasks_share_a_pipeline_and_loops_follow_each_other(self):
        server = self.server(*[picture()] * 4)
        pipe = self.pipeline(server.address)

        async def run():
            return await asyncio.gather(pipe("p", output_type="bytes"), pipe("p", output_type="bytes"))

        for _ in range(2):
            self.assertEqual([output.images for output in asyncio.run(run())], [[png()]] * 2)


if __name__ == "__main__":
    unittest.main()
