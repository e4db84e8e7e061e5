"""AsyncLatentPipeline: the same for asyncio, with grpc.aio."""

import asyncio
import inspect
import os
import time
from typing import TYPE_CHECKING, Any, AsyncGenerator, AsyncIterator, List, Mapping, Optional, Union, cast

import grpc
import grpc.aio

from .animation import VideoCollector, VideoOutput, prepare_video
from .call import Collector, LatentOutput, PictureCollector, PreparedCall, prepare, unpack_metadata
from .connection import Endpoint, Tls
from .errors import LatentError, Unavailable, error_of_call, make_error
from .events import Event
from .files import FileInput
from .generation import CANCEL_SECONDS, PICTURES, VIDEOS, Call, Generation, Service
from .pipeline import AnyEvent
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

_END = getattr(grpc.aio, "EOF")
_LOCALLY_CANCELLED = "Locally cancelled by application!"  # grpc.aio's words


class AsyncEventStream(AsyncIterator[AnyEvent]):
    """The events of a request. Leaving it (aclose(), the end of an `async with`, cancelling the task) cancels the request; where an
    `async for` is left in its middle, soon after."""

    def __init__(self, request_id: str, events: AsyncGenerator[AnyEvent, None]) -> None:
        self.request_id = request_id
        self._events = events

    def __aiter__(self) -> "AsyncEventStream[AnyEvent]":
        return self

    async def __anext__(self) -> AnyEvent:
        return await self._events.__anext__()

    async def __aenter__(self) -> "AsyncEventStream[AnyEvent]":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._events.aclose()


class AsyncLatentPipeline(PipelineBase):
    """LatentPipeline's twin, with its arguments: `await pipe(...)`, `async for event in pipe.stream(...)`.

    Tasks of one event loop may share it. Cancelling a task cancels its request on the server."""

    __slots__ = ("_channel", "_loop", "_pid")

    def __init__(self, server: Optional[str] = None, *, tls: Union[None, bool, Tls] = None, timeout: Optional[float] = None,
                 retries: int = 4, metadata: Optional[Mapping[str, str]] = None,
                 api_key: Optional[str] = None) -> None:
        super().__init__(Endpoint.of(server, tls), timeout, RetryPolicy(retries), unpack_metadata(metadata, api_key))
        self._channel: Any = None
        self._loop: Any = None
        self._pid = os.getpid()

    async def __call__(self, prompt: Optional[str] = None, **parameters: "Unpack[GenerateParameters]") -> LatentOutput:
        """As LatentPipeline's; callback_on_step_end may be a coroutine function."""
        call = prepare(prompt, parameters, self._timeout)
        return cast(LatentOutput, await self._draw(PICTURES, call, PictureCollector(self, call, self._bar_settings)))

    def stream(self, prompt: Optional[str] = None, **parameters: "Unpack[GenerateParameters]") -> AsyncEventStream[Event]:
        """As LatentPipeline's; no coroutine."""
        return self._stream(PICTURES, prepare(prompt, parameters, self._timeout))

    async def animate(self, image: FileInput, **parameters: "Unpack[GenerateVideoParameters]") -> VideoOutput:
        """As LatentPipeline's; callback_on_step_end may be a coroutine function."""
        call = prepare_video(image, parameters, self._timeout)
        return cast(VideoOutput, await self._draw(VIDEOS, call, VideoCollector(self, call, self._bar_settings)))

    def stream_video(self, image: FileInput, **parameters: "Unpack[GenerateVideoParameters]") -> AsyncEventStream[VideoEvent]:
        """As LatentPipeline's; no coroutine."""
        return self._stream(VIDEOS, prepare_video(image, parameters, self._timeout))

    async def _draw(self, service: Service, call: PreparedCall, collector: Collector) -> Any:
        try:
            async with self._stream(service, call) as events:
                async for event in events:
                    returned = collector.add(event)
                    if inspect.isawaitable(returned):
                        await returned
                    collector.check_interrupt(events.request_id)
            return collector.output()
        finally:
            collector.close()

    def _stream(self, service: Service, call: PreparedCall) -> AsyncEventStream[Any]:
        generation = Generation(service, call.request, self._retries, call.timeout)
        return AsyncEventStream(generation.request_id, self._run(generation))

    async def _run(self, generation: Generation) -> AsyncGenerator[Any, None]:
        try:
            while not generation.completed:
                messages = self._open_stream(generation.next_call())
                try:
                    error: Optional[LatentError] = None
                    while error is None:
                        message, error = await _read(messages, generation.request_id)
                        if message is None:
                            break
                        for event in generation.receive(message):
                            yield event
                finally:
                    messages.cancel()
                pause = generation.failed(error) if error else generation.ended()
                if pause > 0:
                    await asyncio.sleep(pause)
        finally:
            await self._end(generation)

    async def _end(self, generation: Generation) -> None:
        cancel = generation.cancel_call()
        if cancel is not None:
            # A task that is cancelled a second time leaves, and the server is told all the same.
            await asyncio.shield(asyncio.ensure_future(self._quietly(cancel)))

    async def _quietly(self, call: Call) -> None:
        try:
            await asyncio.wait_for(self._unary(call), CANCEL_SECONDS)
        except (grpc.RpcError, asyncio.TimeoutError):
            pass  # the server is gone, or has ended it already

    async def encode_prompt(self, prompt: Optional[str] = None, **parameters: Any) -> PromptEmbeds:
        """As LatentPipeline's."""
        return read_embeds(await self._ask(encode_call(prompt, parameters, self._timeout)))

    async def capabilities(self) -> "GetCapabilitiesResponse":
        """Models, buckets, noise schedulers and limits. Unavailable until the server has loaded its checkpoints."""
        found: "GetCapabilitiesResponse" = await self._ask(capabilities_call(PICTURES))
        return found

    async def video_capabilities(self) -> "GetVideoCapabilitiesResponse":
        """As LatentPipeline's."""
        found: "GetVideoCapabilitiesResponse" = await self._ask(capabilities_call(VIDEOS))
        return found

    async def models(self) -> "List[ModelInfo]":
        """The models that `model` may name, the default first."""
        return list((await self.capabilities()).models)

    async def health(self, service: str = "") -> str:
        """"SERVING" or "NOT_SERVING"; `service` may be "latent.v1.ImageGeneration" or "liveness"."""
        return health_name(await self._ask(health_call(service)))

    async def wait_until_ready(self, timeout: float = 600) -> "AsyncLatentPipeline":
        """Returns once the server serves. Unavailable where it does not in so many seconds."""
        end = time.monotonic() + timeout
        while True:
            try:
                if await self.health() == "SERVING":
                    return self
                error = Unavailable("the server does not serve yet", code="UNAVAILABLE")
            except Unavailable as failure:
                error = failure
            if time.monotonic() + HEALTH_PAUSE > end:
                raise error
            await asyncio.sleep(HEALTH_PAUSE)

    async def close(self) -> None:
        """Closes the connection; calls that run fail. A later call opens it again."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def __aenter__(self) -> "AsyncLatentPipeline":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _open_channel(self) -> Any:
        """The channel of this event loop and this process: those of others do not work here."""
        loop = asyncio.get_running_loop()
        if self._channel is None or self._loop is not loop or self._pid != os.getpid():
            self._channel, self._loop, self._pid = self._endpoint.open(grpc.aio), loop, os.getpid()
        return self._channel

    async def _ask(self, call: Call) -> Any:
        try:
            return await self._unary(call)
        except grpc.RpcError as failure:
            raise error_of_call(failure) from failure


async def _read(messages: Any, request_id: str) -> "tuple[Any, Optional[LatentError]]":
    """The next message of a call, and its error where it failed; neither at its end."""
    try:
        message = await messages.read()
        return (None if message is _END else message), None
    except grpc.RpcError as failure:
        return None, error_of_call(failure, request_id)
    except asyncio.CancelledError:
        # grpc.aio raises this for a status CANCELLED of the server too.
        if not messages.done() or await messages.details() == _LOCALLY_CANCELLED:
            raise
        trailing = dict(tuple(await messages.trailing_metadata() or ()))
        return None, make_error("CANCELLED", await messages.details() or "", trailing.get("grpc-status-details-bin", b""), request_id)


add_signature(AsyncLatentPipeline.__call__)
add_signature(AsyncLatentPipeline.stream)
add_video_signature(AsyncLatentPipeline.animate)
add_video_signature(AsyncLatentPipeline.stream_video)
