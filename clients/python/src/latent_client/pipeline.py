"""LatentPipeline: a latentd as a pipeline of diffusers. Calls are those of `generation.py`, made with grpc."""

import os
import threading
import time
from typing import TYPE_CHECKING, Any, Generator, Iterator, List, Mapping, Optional, TypeVar, Union, cast

import grpc

from .animation import VideoCollector, VideoOutput, prepare_video
from .call import Collector, LatentOutput, PictureCollector, PreparedCall, prepare, unpack_metadata
from .connection import Endpoint, Tls
from .errors import Unavailable, error_of_call
from .events import Event
from .files import FileInput
from .generation import PICTURES, VIDEOS, Call, Generation, Service
from .pipeline_base import (
    HEALTH_PAUSE, PipelineBase, add_signature, add_video_signature, capabilities_call, encode_call, health_call, health_name,
    read_embeds)
from .retry import RetryPolicy
from .tensors import PromptEmbeds
from .video_events import VideoEvent

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._parameters import GenerateParameters, GenerateVideoParameters
    from .messages import GetCapabilitiesResponse, ModelInfo
    from .video_messages import GetVideoCapabilitiesResponse

AnyEvent = TypeVar("AnyEvent")


class EventStream(Iterator[AnyEvent]):
    """The events of a request. Leaving it (close(), the end of a `with`, or dropping it) cancels the request.

    `request_id` is its name in the server's log. For one thread at a time."""

    def __init__(self, request_id: str, events: Generator[AnyEvent, None, None]) -> None:
        self.request_id = request_id
        self._events = events

    def __iter__(self) -> "EventStream[AnyEvent]":
        return self

    def __next__(self) -> AnyEvent:
        return next(self._events)

    def __enter__(self) -> "EventStream[AnyEvent]":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._events.close()


class LatentPipeline(PipelineBase):
    """A latentd, called as a pipeline of diffusers is. Threads may share it.

    server     "host:50051", "unix:/path", or "grpcs://host:50051"; default: LATENT_SERVER, or localhost:50051
    tls        True, or a Tls with files
    timeout    seconds that a call may take, tries and waiting included; None: as long as it takes
    retries    how often a failed call is tried again
    metadata   gRPC metadata of every call, as a proxy may ask for: {"x-team": "paint"}
    api_key    the key of a server that asks for one; default: LATENTD_API_KEY, or none
    """

    __slots__ = ("_channel", "_lock", "_pid")

    def __init__(self, server: Optional[str] = None, *, tls: Union[None, bool, Tls] = None, timeout: Optional[float] = None,
                 retries: int = 4, metadata: Optional[Mapping[str, str]] = None,
                 api_key: Optional[str] = None) -> None:
        super().__init__(Endpoint.of(server, tls), timeout, RetryPolicy(retries), unpack_metadata(metadata, api_key))
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._channel: Any = None

    def __call__(self, prompt: Optional[str] = None, **parameters: "Unpack[GenerateParameters]") -> LatentOutput:
        """Draws, and gives a LatentOutput. Keywords are the fields of latent.v1.GenerateRequest and these:

        generator               a torch.Generator on the CPU that has not been used, or a list of them
        output_type             "pil" (default), "np", "bytes" or "latent"
        callback_on_step_end    f(pipe, step, None, {"preview": PIL image or None, "image_index": n}); pipe._interrupt = True stops
        progress_bar            True or False; default: in a terminal and in Jupyter, where tqdm is installed
        timeout                 seconds, instead of the pipeline's
        return_dict             False: (images,)

        LatentError where the server or the way to it fails; TypeError and ValueError for keywords that cannot be.
        """
        call = prepare(prompt, parameters, self._timeout)
        return cast(LatentOutput, self._draw(PICTURES, call, PictureCollector(self, call, self._bar_settings)))

    def stream(self, prompt: Optional[str] = None, **parameters: "Unpack[GenerateParameters]") -> EventStream[Event]:
        """The events of a request as they come; with `previews`, pictures of how it comes along. Keywords and errors as a call."""
        return self._stream(PICTURES, prepare(prompt, parameters, self._timeout))

    def animate(self, image: FileInput, **parameters: "Unpack[GenerateVideoParameters]") -> VideoOutput:
        """Draws a video that begins with an image, and gives a VideoOutput. Keywords are the fields of
        latent.v1.GenerateVideoRequest and those of a call for pictures; output_type is "pil" (default), "np" or "bytes". With
        output={"file": "webp"} each video is a file. A callback gets {"preview": frames as PIL images
        or None, "video_index": n}. Errors as a call for pictures.
        """
        call = prepare_video(image, parameters, self._timeout)
        return cast(VideoOutput, self._draw(VIDEOS, call, VideoCollector(self, call, self._bar_settings)))

    def stream_video(self, image: FileInput, **parameters: "Unpack[GenerateVideoParameters]") -> EventStream[VideoEvent]:
        """The events of a request for videos as they come: frames as soon as they are decoded, and with
        `previews` small ones before. Keywords and errors as animate()."""
        return self._stream(VIDEOS, prepare_video(image, parameters, self._timeout))

    def _draw(self, service: Service, call: PreparedCall, collector: Collector) -> Any:
        try:
            with self._stream(service, call) as events:
                for event in events:
                    collector.add(event)
                    collector.check_interrupt(events.request_id)
            return collector.output()
        finally:
            collector.close()

    def _stream(self, service: Service, call: PreparedCall) -> EventStream[Any]:
        generation = Generation(service, call.request, self._retries, call.timeout)
        return EventStream(generation.request_id, self._run(generation))

    def _run(self, generation: Generation) -> Generator[Any, None, None]:
        try:
            while not generation.completed:
                pause = yield from self._run_call(generation)
                if pause > 0:
                    time.sleep(pause)
        finally:
            self._end(generation)

    def _run_call(self, generation: Generation) -> Generator[Any, None, float]:
        """Makes one call, and says how long to wait before the next."""
        messages = self._open_stream(generation.next_call())
        try:
            while True:
                try:
                    message = next(messages)
                except StopIteration:
                    return generation.ended()
                except grpc.RpcError as failure:
                    error = error_of_call(failure, generation.request_id)
                    return generation.failed(error)
                yield from generation.receive(message)
        finally:
            messages.cancel()

    def _end(self, generation: Generation) -> None:
        cancel = generation.cancel_call()
        if cancel is not None:
            try:
                self._unary(cancel)
            except grpc.RpcError:
                pass  # the server is gone, or has ended it already

    def encode_prompt(self, prompt: Optional[str] = None, **parameters: Any) -> PromptEmbeds:
        """Encodes a prompt by the model's text encoders: a PromptEmbeds of numpy arrays, in the order of diffusers' encode_prompt
        of SDXL. Keywords are the fields of latent.v1.EncodeRequest, and `timeout`; `device` changes nothing. Errors as a call,
        which is not tried again."""
        return read_embeds(self._ask(encode_call(prompt, parameters, self._timeout)))

    def capabilities(self) -> "GetCapabilitiesResponse":
        """Models, buckets, noise schedulers and limits. Unavailable until the server has loaded its checkpoints."""
        found: "GetCapabilitiesResponse" = self._ask(capabilities_call(PICTURES))
        return found

    def video_capabilities(self) -> "GetVideoCapabilitiesResponse":
        """The same of videos; without models where the server draws none."""
        found: "GetVideoCapabilitiesResponse" = self._ask(capabilities_call(VIDEOS))
        return found

    def models(self) -> "List[ModelInfo]":
        """The models that `model` may name, the default first."""
        return list(self.capabilities().models)

    def health(self, service: str = "") -> str:
        """"SERVING" or "NOT_SERVING"; `service` may be "latent.v1.ImageGeneration" or "liveness"."""
        return health_name(self._ask(health_call(service)))

    def wait_until_ready(self, timeout: float = 600) -> "LatentPipeline":
        """Returns once the server serves. Unavailable where it does not in so many seconds."""
        end = time.monotonic() + timeout
        while True:
            try:
                if self.health() == "SERVING":
                    return self
                error = Unavailable("the server does not serve yet", code="UNAVAILABLE")
            except Unavailable as failure:
                error = failure
            if time.monotonic() + HEALTH_PAUSE > end:
                raise error
            time.sleep(HEALTH_PAUSE)

    def close(self) -> None:
        """Closes the connection; calls that run fail. A later call opens it again."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def __enter__(self) -> "LatentPipeline":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open_channel(self) -> Any:
        """The channel; a new one in a process that was forked, where gRPC's does not work."""
        if self._pid != os.getpid():
            self._lock, self._channel, self._pid = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._channel is None:
                self._channel = self._endpoint.open(grpc)
            return self._channel

    def _ask(self, call: Call) -> Any:
        try:
            return self._unary(call)
        except grpc.RpcError as failure:
            raise error_of_call(failure) from failure


add_signature(LatentPipeline.__call__)
add_signature(LatentPipeline.stream)
add_video_signature(LatentPipeline.animate)
add_video_signature(LatentPipeline.stream_video)
