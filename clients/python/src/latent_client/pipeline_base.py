"""Parts of a pipeline that are the same with grpc and grpc.aio: what it is made with, diffusers' methods that change nothing here,
how a call is begun, its short calls."""

import inspect
import logging
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

from ._descriptors import message_class
from .connection import Endpoint
from .generation import PICTURES, VIDEOS, Call, Service
from .request import (
    CALL_KEYWORDS, ENCODE_KEYWORDS, IMAGE, PROMPT, field_names, make_encode_request, video_field_names)
from .retry import RetryPolicy
from .tensors import PromptEmbeds, to_embeds

_LOG = logging.getLogger("latent_client")
SHORT_CALL = 10.0  # seconds that a call without a picture may take
HEALTH_PAUSE = 0.2  # seconds between questions to a server that is not ready
_HEALTH = "/grpc.health.v1.Health/Check"
_ENCODE = PICTURES.path("Encode")
# A method's name, by which service has which limits and models.
_CAPABILITIES = {PICTURES: "GetCapabilities", VIDEOS: "GetVideoCapabilities"}
_RESPONSES = {
    PICTURES.path(PICTURES.start): "latent.v1.GenerateEvent", PICTURES.path(PICTURES.resume): "latent.v1.GenerateEvent",
    VIDEOS.path(VIDEOS.start): "latent.v1.VideoEvent", VIDEOS.path(VIDEOS.resume): "latent.v1.VideoEvent",
    **{service.path(service.cancel): "latent.v1.CancelGenerationResponse" for service in (PICTURES, VIDEOS)},
    _ENCODE: "latent.v1.EncodeResponse", _HEALTH: "grpc.health.v1.HealthCheckResponse",
    **{service.path(method): f"latent.v1.{method}Response" for service, method in _CAPABILITIES.items()},
}
# Methods of diffusers' pipelines about memory and speed, which are the server's; those that change pictures are missing, and so fail.
_WITHOUT_EFFECT = frozenset(
    f"{verb}_{what}" for verb in ("enable", "disable")
    for what in ("attention_slicing", "vae_slicing", "vae_tiling", "xformers_memory_efficient_attention", "model_cpu_offload",
                 "sequential_cpu_offload", "group_offload"))


class PipelineBase:
    """State that does not change; a pipeline takes no other attributes, so that `pipe.scheduler = ...`, which would do nothing,
    is an error: noise schedulers are named in a call."""

    __slots__ = ("_bar_settings", "_endpoint", "_metadata", "_retries", "_timeout")

    def __init__(self, endpoint: Endpoint, timeout: Optional[float], retries: RetryPolicy,
                 metadata: Tuple[Tuple[str, str], ...]) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._retries = retries
        self._metadata = metadata
        self._bar_settings: Dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._endpoint.target!r}{', tls' if self._endpoint.tls else ''})"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in _WITHOUT_EFFECT:
            return self.to
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def to(self, *arguments: Any, **keywords: Any) -> Any:
        """Returns the pipeline: where the model lies is the server's."""
        return self

    def set_progress_bar_config(self, **settings: Any) -> Any:
        """Settings of tqdm for later calls; disable=True shows none."""
        self._bar_settings = settings
        return self

    def _open_channel(self) -> Any:
        """The channel that calls are made on, of grpc or of grpc.aio."""
        raise NotImplementedError

    def _open_stream(self, call: Call) -> Any:
        return self._begin(self._open_channel().unary_stream, call)

    def _unary(self, call: Call) -> Any:
        return self._begin(self._open_channel().unary_unary, call)

    def _begin(self, kind: Callable[..., Any], call: Call) -> Any:
        method = kind(call.method, request_serializer=_serialize,
                      response_deserializer=message_class(_RESPONSES[call.method]).FromString)
        return method(call.message, timeout=call.timeout, metadata=call.metadata + self._metadata)


def add_signature(function: Any) -> None:
    """Lets help() and editors show the keywords of a call, which are the request's fields."""
    _set_signature(function, PROMPT, field_names(), None)


def add_video_signature(function: Any) -> None:
    """The same of a call that draws videos."""
    _set_signature(function, IMAGE, video_field_names(), inspect.Parameter.empty)


def _set_signature(function: Any, first: str, fields: Sequence[str], default: Any) -> None:
    keyword, optional = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    named = [name for name in (*fields, *CALL_KEYWORDS) if name != first]
    function.__signature__ = inspect.Signature([
        inspect.Parameter("self", optional), inspect.Parameter(first, optional, default=default),
        *(inspect.Parameter(name, keyword, default=None) for name in named)])


def _serialize(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def capabilities_call(service: Service) -> Call:
    method = _CAPABILITIES[service]
    return Call(service.path(method), message_class(f"latent.v1.{method}Request")(), SHORT_CALL, ())


def encode_call(prompt: Optional[str], parameters: Mapping[str, Any], default_timeout: Optional[float]) -> Call:
    """The call of encode_prompt(). TypeError and ValueError as make_request()."""
    fields = {name: value for name, value in parameters.items() if name not in ENCODE_KEYWORDS}
    timeout = parameters.get("timeout")
    return Call(_ENCODE, make_encode_request(prompt, fields), default_timeout if timeout is None else timeout, ())


def read_embeds(response: Any) -> PromptEmbeds:
    for warning in response.warnings:
        _LOG.warning("%s", warning)
    return to_embeds(response)


def health_call(service: str) -> Call:
    return Call(_HEALTH, message_class("grpc.health.v1.HealthCheckRequest")(service=service), SHORT_CALL, ())


def health_name(response: Any) -> str:
    """The name of the status in a HealthCheckResponse."""
    return str(response.ServingStatus.Name(response.status))
