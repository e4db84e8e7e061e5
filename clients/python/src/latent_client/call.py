"""A call of a pipeline without its I/O: its keywords taken apart, its events collected into what the caller gets."""

import dataclasses
import logging
import os
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from . import files
from .errors import Cancelled
from .events import Completed, Event, Image, Preview, Progress, Size, Timings
from .messages import FORMAT_LATENT  # type: ignore[attr-defined,unused-ignore]
from .progress import ProgressBar
from .request import CALL_KEYWORDS, PROMPT, make_request, seed_parameters

_LOG = logging.getLogger("latent_client")
_OUTPUT_TYPES = ("pil", "np", "bytes", "latent")

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
    output_type: str
    callback: Optional[StepCallback]
    progress_bar: Optional[bool]
    return_dict: bool
    timeout: Optional[float]

    @property
    def pictures(self) -> int:
        return max(int(self.request.num_images_per_prompt), len(self.request.seeds), 1)


def prepare(prompt: Optional[str], parameters: Mapping[str, Any], default_timeout: Optional[float]) -> PreparedCall:
    """Takes the keywords of a call apart. TypeError and ValueError as make_request() and seed_parameters()."""
    own = {name: parameters[name] for name in CALL_KEYWORDS if name in parameters}
    fields = {name: value for name, value in parameters.items() if name not in own}
    if prompt is not None:
        fields[PROMPT] = prompt
    output_type = own.get("output_type") or "pil"
    _check_output_type(output_type)
    request = make_request({"resumable": True, **fields})
    if own.get("generator") is not None:
        _add_generator(request, own["generator"])
    if output_type == "latent":
        request.output.format = FORMAT_LATENT
    timeout = own.get("timeout")
    return PreparedCall(request, output_type, own.get("callback_on_step_end"), own.get("progress_bar"),
                        own.get("return_dict", True), default_timeout if timeout is None else timeout)


def _check_output_type(output_type: str) -> None:
    if output_type not in _OUTPUT_TYPES:
        raise ValueError(f"output_type: must be one of {', '.join(_OUTPUT_TYPES)}, not {output_type!r}")


def _add_generator(request: Any, generator: Any) -> None:
    if request.HasField("seed") or request.seeds:
        raise ValueError("generator: give it, or seed or seeds, but not both")
    for name, value in seed_parameters(generator, request.num_images_per_prompt).items():
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
        self._bar = ProgressBar(call.progress_bar, call.pictures, bar_settings)
        self._images: List[Image] = []
        self._preview: Optional[Preview] = None
        self._completed: Optional[Completed] = None

    def add(self, event: Event) -> Any:
        """Returns what the caller's callback did, where it was called."""
        self._bar.show(event)
        if isinstance(event, Image):
            self._images.append(event)
        elif isinstance(event, Preview):
            self._preview = event
        elif isinstance(event, Completed):
            self._completed = event
        elif isinstance(event, Progress) and event.stage == "steps" and self._call.callback:
            return self._call.callback(self._running, event.step - 1, None, self._callback_arguments(event))
        return None

    def check_interrupt(self, request_id: str) -> None:
        """Raises Cancelled where the callback has asked to stop."""
        if self._running._interrupt:
            raise Cancelled("interrupted by callback_on_step_end", code="CANCELLED", request_id=request_id)

    def _callback_arguments(self, event: Progress) -> Dict[str, Any]:
        preview = self._preview if self._preview and self._preview.image_index == event.image_index else None
        return {"preview": preview.image if preview else None, "image_index": event.image_index}

    def close(self) -> None:
        self._bar.close()

    def output(self) -> Any:
        """The LatentOutput, or with return_dict=False diffusers' tuple."""
        completed = self._completed
        assert completed is not None
        for warning in completed.warnings:
            _LOG.warning("%s", warning)
        images = _convert(sorted(self._images, key=lambda image: image.index), self._call.output_type)
        if not self._call.return_dict:
            return (images,)
        seeds = [image.seed for image in sorted(self._images, key=lambda image: image.index)]
        return LatentOutput(images, seeds, completed.parameters, completed.timings, completed.warnings, completed.request_id,
                            completed.executed_size, completed.dropped_tokens, completed.guidance_stopped_after)


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
