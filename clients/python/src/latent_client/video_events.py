"""Events of a request for videos, in the order in which they come: Queued, VideoStarted, VideoProgress and VideoPreview as they
happen, a Frame for each frame, or a VideoFile for each video where `output` asks for files, and VideoCompleted as the last."""

import dataclasses
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Dict, List, Optional, Union

from . import files
from .events import EncodedPicture, Indexed, Queued, Size, Timings, broken, enum_name, read_queued, read_timings, size_of
from .request import to_parameters
from .video_messages import ResumeVideoRequest  # type: ignore[attr-defined,unused-ignore]

if TYPE_CHECKING:
    import PIL.Image

_MOST_FRAME_BYTES = 1 << 30  # a server that sends more is not believed
_MOST_FILE_BYTES = 1 << 34


@dataclasses.dataclass(frozen=True)
class VideoStarted:
    request_id: str
    executed_size: Size
    num_frames: int


@dataclasses.dataclass(frozen=True)
class VideoProgress(Indexed):
    """`step` of `total_steps`, from 1; `stage` is "text" (the image encoder), "image", "steps" or "decode" (a chunk of frames)."""

    _index_name: ClassVar[str] = "video_index"
    request_id: str
    video_index: int
    stage: str
    step: int
    total_steps: int
    model: str


@dataclasses.dataclass(frozen=True)
class VideoPreview(Indexed):
    """A small animated WebP of how a video looks after a step."""

    _index_name: ClassVar[str] = "video_index"
    request_id: str
    video_index: int
    step: int
    total_steps: int
    size: Size
    num_frames: int
    mime_type: str
    data: bytes = dataclasses.field(repr=False)

    @property
    def frames(self) -> "List[PIL.Image.Image]":
        """The preview's frames as PIL images, decoded anew each time."""
        return files.decode_frames(self.data)


@dataclasses.dataclass(frozen=True)
class Frame(EncodedPicture):
    """A frame, whole. `data` is the file, or raw pixels, as `output` asked. Those of one video come in any order."""

    request_id: str
    video_index: int
    frame: int
    seed: int
    size: Size
    mime_type: str
    data: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class VideoFile:
    """The file of a video, whole, where `output` asks for one."""

    request_id: str
    video_index: int
    seed: int
    size: Size
    num_frames: int
    mime_type: str
    data: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class VideoCompleted:
    """How it went. `parameters` are keywords that draw the same videos again of the same image, every default filled in."""

    request_id: str
    parameters: Dict[str, Any]
    timings: Timings
    warnings: List[str]
    executed_size: Size
    num_frames: int


VideoEvent = Union[Queued, VideoStarted, VideoProgress, VideoPreview, Frame, VideoFile, VideoCompleted]


def _started(request_id: str, started: Any) -> VideoStarted:
    return VideoStarted(request_id, size_of(started.executed_size), started.executed_size.num_frames)


def _progress(request_id: str, progress: Any) -> VideoProgress:
    return VideoProgress(request_id, progress.video_index, enum_name(progress, "stage"), progress.step, progress.total_steps,
                         progress.model)


def _preview(request_id: str, preview: Any) -> VideoPreview:
    return VideoPreview(request_id, preview.video_index, preview.step, preview.total_steps, size_of(preview.size),
                        preview.size.num_frames, preview.mime_type, preview.data)


def _completed(request_id: str, completed: Any) -> VideoCompleted:
    return VideoCompleted(request_id, to_parameters(completed.parameters), read_timings(completed.timings),
                          list(completed.warnings), size_of(completed.executed_size), completed.executed_size.num_frames)


_READERS: Dict[str, Callable[[str, Any], VideoEvent]] = {
    "queued": read_queued, "started": _started, "progress": _progress, "preview": _preview, "completed": _completed}


class VideoReader:
    """Makes events of a request's VideoEvents, of which it puts frames and files together."""

    def __init__(self) -> None:
        self.has_result = False  # a frame or a file is whole
        self._received = 0  # bytes of all chunks
        self._frame = bytearray()
        self._first: Any = None  # chunk of that frame
        self._files: Dict[int, bytearray] = {}  # by video

    def rest(self, request_id: str) -> Any:
        """The request for what has not come yet."""
        return ResumeVideoRequest(request_id=request_id, received_bytes=self._received)

    def read(self, message: Any) -> Optional[VideoEvent]:
        """The event; None for a chunk that is not the last of its frame or file, and for a kind that this client does not know.

        ServerError (DATA_LOSS) where a chunk does not continue what is there, or a file has no end."""
        kind = message.WhichOneof("event") or ""
        if kind == "frame_chunk":
            return self._add_frame(message.request_id, message.frame_chunk)
        if kind == "video_chunk":
            return self._add_part(message.request_id, message.video_chunk)
        if kind == "completed" and (self._frame or self._files):
            raise broken("video", "its last part is missing", message.request_id)
        return _READERS[kind](message.request_id, getattr(message, kind)) if kind in _READERS else None

    def _add_frame(self, request_id: str, chunk: Any) -> Optional[Frame]:
        self._received += len(chunk.data)
        held = self._frame
        if not held:
            self._first = chunk
        _check_place(chunk, held, request_id)
        first = self._first
        if (chunk.video_index, chunk.frame, chunk.total_bytes) != (first.video_index, first.frame, first.total_bytes):
            raise broken("video", "parts of two frames are mixed", request_id)
        _check_size(chunk, held, _MOST_FRAME_BYTES, request_id)
        held += chunk.data
        if len(held) < chunk.total_bytes:
            return None
        self._frame = bytearray()
        self.has_result = True
        return Frame(request_id, chunk.video_index, chunk.frame, chunk.seed, size_of(chunk.size), chunk.mime_type, bytes(held))

    def _add_part(self, request_id: str, chunk: Any) -> Optional[VideoFile]:
        self._received += len(chunk.data)
        held = self._files.setdefault(chunk.video_index, bytearray())
        _check_place(chunk, held, request_id)
        _check_size(chunk, held, _MOST_FILE_BYTES, request_id)
        held += chunk.data
        if len(held) != chunk.total_bytes:
            return None
        del self._files[chunk.video_index]
        self.has_result = True
        return VideoFile(request_id, chunk.video_index, chunk.seed, size_of(chunk.size), chunk.size.num_frames, chunk.mime_type,
                         bytes(held))


def _check_place(chunk: Any, held: bytearray, request_id: str) -> None:
    if chunk.offset != len(held):
        raise broken("video", f"a part starts at byte {chunk.offset} instead of {len(held)}", request_id)


def _check_size(chunk: Any, held: bytearray, most: int, request_id: str) -> None:
    size = len(held) + len(chunk.data)
    if size > most or (chunk.total_bytes and size > chunk.total_bytes):
        raise broken("video", "it has more bytes than it should have", request_id)
