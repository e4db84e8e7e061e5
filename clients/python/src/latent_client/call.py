"""A call of a pipeline without its I/O: its keywords taken apart, its events collected into what the caller gets."""

import dataclasses
import logging
import os
import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from . import files
from .errors import Cancelled
from .events import Completed, Image, Preview, Progress, Size, Timings
from .messages import FORMAT_LATENT  # type: ignore[attr-defined,unused-ignore]
from .progress import ProgressBar
from .request import CALL_KEYWORDS, PROMPT, make_request, seed_parameters
from .video_events import Frame, VideoCompleted, VideoFile, VideoPreview, VideoProgress

_LOG = logging.getLogger("latent_client")

StepCallback = Callable[[Any, int, None, Dict[str, Any]], Any]


@dataclasses.dataclass
class LatentOutput:
    """The pictures of a call, and how it went.

    images         PIL images; with output_type "np" or "latent" one numpy array, with "bytes" the files
    seeds          each picture's own
    parameters     keywords that draw the same pictures again: pipe(**output.parameters)
    timings        seconds of each part
    warnings       the server's sentences on what had no effect
    guidance_stopped_after  with guidance_stop="auto", for each picture, after how many steps guidance stopped; 0: it did not
    """

    images: Any
    seeds: List[int]
    parameters: Dict[str, Any]
    timings: Timings
    warnings: List[str]
    request_id: str
    executed_size: Size
    dropped_tokens: int
    guidance_stopped_after: List[int]

    def __getitem__(self, index: int) -> Any:
        """diffusers' outputs are tuples as well: [0] is `images`."""
        return [self.images][index]


@dataclasses.dataclass(frozen=True)
class PreparedCall:
    """The request of a call, and the keywords that stay here."""

    request: Any
    results: int  # pictures or videos that it asks for
    output_type: str
    callback: Optional[StepCallback]
    progress_bar: Optional[bool]
    return_dict: bool
    timeout: Optional[float]


class CallKind(NamedTuple):
    """Calls for pictures, or those for videos: how a request is made of keywords, the field that is a call's first argument, the one
    that says how many, and the output types, of which the first is the default."""

    make_request: Callable[[Mapping[str, Any]], Any]
    first: str
    number: str
    output_types: Sequence[str]


_KIND = CallKind(make_request, PROMPT, "num_images_per_prompt", ("pil", "np", "bytes", "latent"))


def prepare(prompt: Optional[str], parameters: Mapping[str, Any], default_timeout: Optional[float]) -> PreparedCall:
    """Takes the keywords of a call for pictures apart. TypeError and ValueError as make_request() and seed_parameters()."""
    call = prepare_call(_KIND, prompt, parameters, default_timeout)
    if call.output_type == "latent":
        call.request.output.format = FORMAT_LATENT
    return call


def prepare_call(kind: CallKind, first: Any, parameters: Mapping[str, Any], default_timeout: Optional[float]) -> PreparedCall:
    """The same of a call of any kind; errors as those of its make_request."""
    own = {name: parameters[name] for name in CALL_KEYWORDS if name in parameters}
    fields = {name: value for name, value in parameters.items() if name not in own}
    if first is not None:
        fields[kind.first] = first
    output_type = own.get("output_type") or kind.output_types[0]
    if output_type not in kind.output_types:
        raise ValueError(f"output_type: must be one of {', '.join(kind.output_types)}, not {output_type!r}")
    request = kind.make_request({"resumable": True, **fields})
    number = int(getattr(request, kind.number))
    if own.get("generator") is not None:
        _add_generator(request, own["generator"], number)
    timeout = own.get("timeout")
    return PreparedCall(request, max(number, len(request.seeds), 1), output_type, own.get("callback_on_step_end"),
                        own.get("progress_bar"), own.get("return_dict", True), default_timeout if timeout is None else timeout)


def _add_generator(request: Any, generator: Any, number: int) -> None:
    if request.HasField("seed") or request.seeds:
        raise ValueError("generator: give it, or seed or seeds, but not both")
    for name, value in seed_parameters(generator, number).items():
        getattr(request, name).extend(value) if isinstance(value, list) else setattr(request, name, value)


class RunningCall:
    """A pipeline as a callback sees it during one call: setting `_interrupt` ends this call, and no other one of the pipeline."""

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        self._interrupt = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pipeline, name)


class Collector:
    """Takes the events of one call; for one thread or task."""

    def __init__(self, pipeline: Any, call: PreparedCall, bar_settings: Dict[str, Any]) -> None:
        self._call = call
        self._running = RunningCall(pipeline)
        self._bar = ProgressBar(call.progress_bar, call.results, bar_settings)
        self._results: List[Any] = []
        self._preview: Any = None
        self._completed: Any = None

    def add(self, event: Any) -> Any:
        """Returns what the caller's callback did, where it was called."""
        self._bar.show(event)
        if isinstance(event, (Image, Frame, VideoFile)):
            self._results.append(event)
        elif isinstance(event, (Preview, VideoPreview)):
            self._preview = event
        elif isinstance(event, (Completed, VideoCompleted)):
            self._completed = event
        elif isinstance(event, (Progress, VideoProgress)) and event.stage == "steps" and self._call.callback:
            return self._call.callback(self._running, event.step - 1, None, self._callback_arguments(event))
        return None

    def check_interrupt(self, request_id: str) -> None:
        """Raises Cancelled where the callback has asked to stop."""
        if self._running._interrupt:
            raise Cancelled("interrupted by callback_on_step_end", code="CANCELLED", request_id=request_id)

    def _callback_arguments(self, event: Any) -> Dict[str, Any]:
        preview = self._preview if self._preview and self._preview.index == event.index else None
        return {"preview": self._shown(preview) if preview else None, self._index_name: event.index}

    def close(self) -> None:
        self._bar.close()

    _index_name: str  # name of the number among a callback's values

    def _shown(self, preview: Any) -> Any:
        """A preview as callbacks get it."""
        raise NotImplementedError

    def output(self) -> Any:
        """The result of the call, after Completed or VideoCompleted: a LatentOutput or VideoOutput, or with return_dict=False diffusers'
        tuple."""
        assert self._completed is not None
        for warning in self._completed.warnings:
            _LOG.warning("%s", warning)
        results, output = self._output(self._completed)
        return output if self._call.return_dict else (results,)

    def _output(self, completed: Any) -> Tuple[Any, Any]:
        """The results alone, as the tuple has them, and the output."""
        raise NotImplementedError


class PictureCollector(Collector):
    """Takes the events of a call for pictures."""

    _index_name = "image_index"

    def _shown(self, preview: Any) -> Any:
        return preview.image

    def _output(self, completed: Any) -> Tuple[Any, Any]:
        results = sorted(self._results, key=lambda image: image.index)
        images = _convert(results, self._call.output_type)
        return images, LatentOutput(images, [image.seed for image in results], completed.parameters, completed.timings,
                                    completed.warnings, completed.request_id, completed.executed_size, completed.dropped_tokens,
                                    completed.guidance_stopped_after)


def _convert(images: List[Image], output_type: str) -> Any:
    if output_type == "bytes":
        return [image.data for image in images]
    if output_type == "latent":
        return files.stack_latents([image.data for image in images])
    pictures = [image.image for image in images]
    return files.stack_pictures(pictures) if output_type == "np" else pictures


def unpack_metadata(metadata: Optional[Mapping[str, str]], api_key: Optional[str]) -> Tuple[Tuple[str, str], ...]:
    """gRPC's form of metadata and the key, or without both of them LATENTD_API_KEY; gRPC has names in lower case.

    ValueError for a key that cannot be sent, which has no key in it."""
    pairs = tuple((name.lower(), value) for name, value in (metadata or {}).items())
    is_authorized = any(name == "authorization" for name, _ in pairs)
    if api_key and is_authorized:
        raise ValueError("api_key: give it, or metadata with an authorization, but not both")
    key = os.environ.get("LATENTD_API_KEY", "") if api_key is None and not is_authorized else api_key or ""
    if not re.fullmatch(r"[!-~]*", key):
        raise ValueError(f"{'LATENTD_API_KEY' if api_key is None else 'api_key'}: must be visible characters of ASCII")
    return pairs + ((("authorization", f"Bearer {key}"),) if key else ())
