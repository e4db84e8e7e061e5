"""Events of a request, in the order in which they come: Queued, Started, Progress and Preview as they happen, an Image for each
picture, and Completed as the last."""

import dataclasses
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Dict, List, Optional, Tuple, Union

from . import files
from ._descriptors import seconds
from .errors import LatentError, make_error
from .messages import ResumeStreamRequest  # type: ignore[attr-defined,unused-ignore]
from .request import enum_prefix, to_parameters

if TYPE_CHECKING:
    import PIL.Image

Size = Tuple[int, int]  # width, height in pixels

_MOST_IMAGE_BYTES = 1 << 30  # a server that announces more is not believed


@dataclasses.dataclass(frozen=True)
class Queued:
    """The place of a request that has not begun. Forecasts are in seconds, None where the server knows too little."""

    request_id: str
    position: int
    estimated_wait: Optional[float]
    estimated_total: Optional[float]


@dataclasses.dataclass(frozen=True)
class Started:
    request_id: str
    executed_size: Size


class Indexed:
    """An event of one of a request's results, which is numbered by the field that `_index_name` names."""

    _index_name: ClassVar[str] = "image_index"

    @property
    def index(self) -> int:
        return int(getattr(self, self._index_name))


class EncodedPicture:
    """An event that has a picture: its file, or raw pixels."""

    size: Size
    mime_type: str
    data: bytes

    @property
    def image(self) -> "PIL.Image.Image":
        """The picture as a PIL image, decoded anew each time. ValueError where it is latents."""
        return files.decode_picture(self.data, self.mime_type, self.size)


@dataclasses.dataclass(frozen=True)
class Progress(Indexed):
    """`step` of `total_steps`, from 1; `stage` is "text", "image", "steps", "decode" or "encode_file"."""

    request_id: str
    image_index: int
    stage: str
    step: int
    total_steps: int
    model: str


@dataclasses.dataclass(frozen=True)
class Preview(Indexed, EncodedPicture):
    """A small JPEG of how a picture looks after a step."""

    request_id: str
    image_index: int
    step: int
    total_steps: int
    size: Size
    mime_type: str
    data: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Image(EncodedPicture):
    """A picture, whole. `data` is the file, or raw pixels or latents, as `output` asked."""

    request_id: str
    index: int
    seed: int
    size: Size
    mime_type: str
    data: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class StageTime:
    stage: str
    model: str
    seconds: float


@dataclasses.dataclass(frozen=True)
class Timings:
    """Seconds: waiting, from arrival to the end, and of each stage of each model."""

    queue: float
    total: float
    stages: List[StageTime]


@dataclasses.dataclass(frozen=True)
class Completed:
    """How it went. `parameters` are keywords that draw the same pictures again, every default filled in. With guidance_stop,
    `guidance_stopped_after` is for each picture after how many of its steps guidance stopped (0: it did not); with
    feature_cache_interval, `shallow_evaluations` is how many evaluations computed a part of the UNet alone."""

    request_id: str
    parameters: Dict[str, Any]
    timings: Timings
    warnings: List[str]
    executed_size: Size
    prompt_tokens: int
    dropped_tokens: int
    guidance_stopped_after: List[int]
    skipped_rows: int
    shallow_evaluations: int


Event = Union[Queued, Started, Progress, Preview, Image, Completed]


def size_of(message: Any) -> Size:
    return message.width, message.height


def enum_name(message: Any, field_name: str) -> str:
    field = message.DESCRIPTOR.fields_by_name[field_name]
    value = field.enum_type.values_by_number.get(getattr(message, field_name))
    return value.name[len(enum_prefix(field.enum_type)):].lower() if value else ""


def _optional_seconds(message: Any, field_name: str) -> Optional[float]:
    return seconds(getattr(message, field_name)) if message.HasField(field_name) else None


def read_queued(request_id: str, queued: Any) -> Queued:
    return Queued(request_id, queued.position, _optional_seconds(queued, "estimated_wait"),
                  _optional_seconds(queued, "estimated_total"))


def _started(request_id: str, started: Any) -> Started:
    return Started(request_id, size_of(started.executed_size))


def _progress(request_id: str, progress: Any) -> Progress:
    return Progress(request_id, progress.image_index, enum_name(progress, "stage"), progress.step, progress.total_steps,
                    progress.model)


def _preview(request_id: str, preview: Any) -> Preview:
    return Preview(request_id, preview.image_index, preview.step, preview.total_steps, size_of(preview.size), preview.mime_type,
                   preview.data)


def read_timings(timings: Any) -> Timings:
    stages = [StageTime(enum_name(stage, "stage"), stage.model, seconds(stage.time)) for stage in timings.stages]
    return Timings(seconds(timings.queue), seconds(timings.total), stages)


def _completed(request_id: str, completed: Any) -> Completed:
    return Completed(request_id, to_parameters(completed.parameters), read_timings(completed.timings), list(completed.warnings),
                     size_of(completed.executed_size), completed.prompt_tokens, completed.dropped_tokens,
                     list(completed.guidance_stopped_after), completed.skipped_rows, completed.shallow_evaluations)


_READERS: Dict[str, Callable[[str, Any], Event]] = {
    "queued": read_queued, "started": _started, "progress": _progress, "preview": _preview, "completed": _completed}


class PictureReader:
    """Makes events of a request's GenerateEvents, of which it puts pictures together."""

    def __init__(self) -> None:
        self._images = 0  # pictures that are whole
        self._data = bytearray()  # part of the next
        self._first: Any = None

    @property
    def has_result(self) -> bool:
        return self._images > 0

    def rest(self, request_id: str) -> Any:
        """The request for what has not come yet."""
        return ResumeStreamRequest(request_id=request_id, received_images=self._images, received_bytes=len(self._data))

    def read(self, message: Any) -> Optional[Event]:
        """The event; None for a chunk that is not the last of its picture, and for a kind that this client does not know.

        ServerError (DATA_LOSS) where a chunk does not continue the last one."""
        kind = message.WhichOneof("event") or ""
        if kind == "image_chunk":
            return self._add(message.request_id, message.image_chunk)
        return _READERS[kind](message.request_id, getattr(message, kind)) if kind in _READERS else None

    def _add(self, request_id: str, chunk: Any) -> Optional[Image]:
        if not self._data:
            self._first = chunk
        self._check(chunk, request_id)
        self._data += chunk.data
        if len(self._data) < self._first.total_bytes:
            return None
        image = Image(request_id, chunk.index, chunk.seed, size_of(chunk.size), chunk.mime_type, bytes(self._data))
        self._images += 1
        self._data = bytearray()
        return image

    def _check(self, chunk: Any, request_id: str) -> None:
        if chunk.offset != len(self._data):
            raise broken("picture", f"a part starts at byte {chunk.offset} instead of {len(self._data)}", request_id)
        if (chunk.index, chunk.total_bytes) != (self._first.index, self._first.total_bytes):
            raise broken("picture", "parts of two pictures are mixed", request_id)
        if chunk.total_bytes > _MOST_IMAGE_BYTES or len(chunk.data) > chunk.total_bytes - len(self._data):
            raise broken("picture", "it has more bytes than it should have", request_id)


def broken(result: str, what: str, request_id: str) -> LatentError:
    """The error of a picture or a video whose parts make no whole."""
    return make_error("DATA_LOSS", f"the server's {result} is broken: {what}", request_id=request_id)
