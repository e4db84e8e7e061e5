"""A server in this process that does what a test tells it, call by call, and remembers what it was asked."""

import concurrent.futures
import io
import threading

import grpc
import PIL.Image

import python_client

python_client.use()

from latent_client import messages, video_messages  # noqa: E402
from latent_client._descriptors import message_class  # noqa: E402

SERVICE, VIDEO_SERVICE = "latent.v1.ImageGeneration", "latent.v1.VideoGeneration"
DEADLINE = 60  # seconds, for what takes milliseconds


def png(color=(200, 10, 10), size=(8, 8)):
    output = io.BytesIO()
    PIL.Image.new("RGB", size, color).save(output, "PNG")
    return output.getvalue()


def event(**fields):
    return messages.GenerateEvent(**fields)


def queued(position=1):
    return event(queued=messages.Queued(position=position))


def step(number, total=4, image=0):
    return event(progress=messages.Progress(image_index=image, stage=messages.STAGE_STEPS, step=number, total_steps=total,
                                            model="base"))


def preview(number, image=0):
    return event(preview=messages.Preview(image_index=image, step=number, total_steps=4, size={"width": 8, "height": 8},
                                          mime_type="image/png", data=png()))


def chunk(data, begin=0, end=None, index=0, seed=7):
    return event(image_chunk=messages.ImageChunk(
        index=index, seed=seed + index, size={"width": 8, "height": 8}, mime_type="image/png", offset=begin,
        total_bytes=len(data), data=data[begin:end]))


def completed(warnings=()):
    return event(completed=messages.Completed(
        parameters=messages.GenerateRequest(prompt="p", seeds=[7], bucket_policy=messages.BUCKET_POLICY_EXACT),
        warnings=list(warnings), executed_size={"width": 8, "height": 8}, guidance_stopped_after=[3], skipped_rows=1, shallow_evaluations=2))


def video_event(**fields):
    return video_messages.VideoEvent(**fields)


def video_step(number, total=4, video=0):
    return video_event(progress=video_messages.VideoProgress(video_index=video, stage=messages.STAGE_STEPS, step=number,
                                                             total_steps=total, model="video"))


def video_preview(number, data, video=0):
    return video_event(preview=video_messages.VideoPreview(
        video_index=video, step=number, total_steps=4, size={"width": 8, "height": 8, "num_frames": 2}, mime_type="image/webp",
        data=data))


def frame_chunk(data, frame, begin=0, end=None, video=0):
    return video_event(frame_chunk=video_messages.FrameChunk(
        video_index=video, frame=frame, seed=7 + video, size={"width": 8, "height": 8}, mime_type="image/png", offset=begin,
        total_bytes=len(data), data=data[begin:end]))


def file_part(data, begin=0, end=None, video=0, total=0):
    return video_event(video_chunk=video_messages.VideoChunk(
        video_index=video, seed=7 + video, size={"width": 8, "height": 8, "num_frames": 2}, mime_type="image/webp", offset=begin,
        total_bytes=len(data) if end is None else total, data=data[begin:end]))


def video_completed(warnings=(), **output):
    return video_event(completed=video_messages.VideoCompleted(
        parameters=video_messages.GenerateVideoRequest(num_frames=2, fps=7, seeds=[7], output=output), warnings=list(warnings),
        executed_size={"width": 8, "height": 8, "num_frames": 2}))


def detail(name, message):
    packed = message_class("google.protobuf.Any")()
    packed.type_url, packed.value = f"type.googleapis.com/google.rpc.{name}", message.SerializeToString()
    return packed


def fail(context, code, message="no", reason="", retry=None, violations=(), metadata=None, domain="latentd"):
    """Ends the call with google.rpc's details, as latentd does."""
    status = message_class("google.rpc.Status")(code=code.value[0], message=message)
    if reason:
        info = message_class("google.rpc.ErrorInfo")(reason=reason, domain=domain, metadata=metadata or {})
        status.details.append(detail("ErrorInfo", info))
    if retry is not None:
        info = message_class("google.rpc.RetryInfo")()
        info.retry_delay.seconds, info.retry_delay.nanos = divmod(int(retry * 1e9), 10**9)
        status.details.append(detail("RetryInfo", info))
    if violations:
        bad = message_class("google.rpc.BadRequest")()
        for field, description in violations:
            bad.field_violations.add(field=field, description=description)
        status.details.append(detail("BadRequest", bad))
    if status.details:
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(code, message)


def failing(*arguments, **keywords):
    """A step of a script that is one failed call."""
    def run(request, context):
        fail(context, *arguments, **keywords)
        yield  # a generator, as all steps are
    return run


def drawing(*events):
    """A step of a script that sends these."""
    def run(request, context):
        yield from events
    return run


def picture():
    return drawing(queued(), step(1), step(4), chunk(png()), completed())


class ScriptedServer:
    """`script` has a function (request, context) -> events for each call of GenerateStream, GenerateVideo and those that
    resume them, in order;
    for one of Encode its answer.

    `calls` are (method, request) of all of them; `metadata` and `remaining` (seconds) belong to the last one."""

    def __init__(self, *script, credentials=None):
        self.calls = []
        self.cancelled = []  # request_ids of CancelGeneration and CancelVideo
        self.was_cancelled = threading.Event()
        self.ended = threading.Event()  # a call of the script has been left by its client
        self.metadata = {}
        self.remaining = None
        self.health = ["SERVING"]
        self._script = list(script)
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers([self._image_handlers(), self._video_handlers(), self._health_handlers()])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _image_handlers(self):
        streams = {method: grpc.unary_stream_rpc_method_handler(self._streaming(method), request.FromString, _serialize)
                   for method, request in (("GenerateStream", messages.GenerateRequest),
                                           ("ResumeStream", messages.ResumeStreamRequest))}
        cancel = grpc.unary_unary_rpc_method_handler(self._cancel, messages.CancelGenerationRequest.FromString, _serialize)
        capabilities = grpc.unary_unary_rpc_method_handler(
            lambda request, context: messages.GetCapabilitiesResponse(models=[messages.ModelInfo(component="base")]),
            messages.GetCapabilitiesRequest.FromString, _serialize)
        encode = grpc.unary_unary_rpc_method_handler(self._encode, messages.EncodeRequest.FromString, _serialize)
        return grpc.method_handlers_generic_handler(
            SERVICE, {**streams, "Encode": encode, "CancelGeneration": cancel, "GetCapabilities": capabilities})

    def _video_handlers(self):
        streams = {method: grpc.unary_stream_rpc_method_handler(self._streaming(method), request.FromString, _serialize)
                   for method, request in (("GenerateVideo", video_messages.GenerateVideoRequest),
                                           ("ResumeVideo", video_messages.ResumeVideoRequest))}
        cancel = grpc.unary_unary_rpc_method_handler(self._cancel, messages.CancelGenerationRequest.FromString, _serialize)
        capabilities = grpc.unary_unary_rpc_method_handler(
            lambda request, context: video_messages.GetVideoCapabilitiesResponse(models=[{"name": "video"}]),
            video_messages.GetVideoCapabilitiesRequest.FromString, _serialize)
        return grpc.method_handlers_generic_handler(VIDEO_SERVICE, {**streams, "CancelVideo": cancel, "GetVideoCapabilities": capabilities})

    def _health_handlers(self):
        answer = message_class("grpc.health.v1.HealthCheckResponse")
        handler = grpc.unary_unary_rpc_method_handler(
            lambda request, context: answer(status=self.health.pop(0) if len(self.health) > 1 else self.health[0]),
            message_class("grpc.health.v1.HealthCheckRequest").FromString, _serialize)
        return grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler})

    def _streaming(self, method):
        def run(request, context):
            self.calls.append((method, request))
            self.metadata = dict(context.invocation_metadata())
            self.remaining = context.time_remaining()
            context.add_callback(self.ended.set)
            self.context = context
            yield from self._script.pop(0)(request, context)
        return run

    def _encode(self, request, context):
        self.calls.append(("Encode", request))
        self.remaining = context.time_remaining()
        return self._script.pop(0)(request, context)

    def _cancel(self, request, context):
        self.cancelled.append(request.request_id)
        self.was_cancelled.set()
        return messages.CancelGenerationResponse()

    def methods(self):
        return [method for method, _ in self.calls]

    def stop(self):
        self._server.stop(0).wait()


def until_left(request, context):
    """A step of a script that says that it has begun, and goes on until its client leaves."""
    yield step(1)
    left = threading.Event()
    if context.add_callback(left.set):
        left.wait(DEADLINE)


def until_deadline(request, context):
    time_left = context.time_remaining()
    yield step(1)
    left = threading.Event()
    context.add_callback(left.set)
    left.wait(min(time_left + 1, DEADLINE))


def _serialize(message):
    return message.SerializeToString()


