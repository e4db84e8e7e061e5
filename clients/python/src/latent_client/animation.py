"""A call of animate() without its I/O, as call.py has that of pictures."""

import dataclasses
from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import files
from .call import CallKind, Collector, PreparedCall, prepare_call
from .events import Size, Timings
from .request import IMAGE, make_video_request
from .video_events import Frame, VideoFile

_KIND = CallKind(make_video_request, IMAGE, "num_videos_per_prompt", ("pil", "np", "bytes"))


@dataclasses.dataclass
class VideoOutput:
    """The videos of a call, and how it went.

    frames         for each video a list of PIL images, with output_type "bytes" of files; with "np" one numpy array of n x frames x
                   height x width x 3 numbers from 0 to 1; empty with output={"file": ...}
    files          with output={"file": ...} each video's file
    seeds          each video's own
    parameters     keywords that draw the same videos again: pipe.animate(image, **output.parameters)
    timings        seconds of each part
    warnings       the server's sentences on what was taken otherwise
    """

    frames: Any
    files: List[bytes]
    seeds: List[int]
    parameters: Dict[str, Any]
    timings: Timings
    warnings: List[str]
    request_id: str
    executed_size: Size
    num_frames: int

    def __getitem__(self, index: int) -> Any:
        """diffusers' outputs are tuples as well: [0] is `frames`."""
        return [self.frames][index]


def prepare_video(image: Any, parameters: Mapping[str, Any], default_timeout: Optional[float]) -> PreparedCall:
    """Takes the keywords of a call of animate() apart. TypeError and ValueError as make_video_request() and seed_parameters()."""
    call = prepare_call(_KIND, image, parameters, default_timeout)
    if call.request.output.file and parameters.get("output_type") not in (None, "bytes"):
        raise ValueError("output_type: is of frames, and output.file asks for a file of each video; leave out one of the two")
    return call


class VideoCollector(Collector):
    """Takes the events of one call of animate(); for one thread or task."""

    _index_name = "video_index"

    def _shown(self, preview: Any) -> Any:
        return preview.frames

    def _output(self, completed: Any) -> Tuple[Any, Any]:
        whole = sorted((result for result in self._results if isinstance(result, VideoFile)), key=lambda file: file.video_index)
        videos = self._videos()
        frames = _convert(videos, self._call.output_type)
        data = [file.data for file in whole]
        seeds = [file.seed for file in whole] or [video[0].seed for video in videos]
        return data or frames, VideoOutput(frames, data, seeds, completed.parameters, completed.timings, completed.warnings,
                                           completed.request_id, completed.executed_size, completed.num_frames)

    def _videos(self) -> List[List[Frame]]:
        """The frames of each video, in their order."""
        videos: Dict[int, List[Frame]] = {}
        for result in self._results:
            if isinstance(result, Frame):
                videos.setdefault(result.video_index, []).append(result)
        return [sorted(videos[index], key=lambda frame: frame.frame) for index in sorted(videos)]


def _convert(videos: List[List[Frame]], output_type: str) -> Any:
    if output_type == "bytes" or not videos:
        return [[frame.data for frame in video] for video in videos]
    pictures = [[frame.image for frame in video] for video in videos]
    return files.stack_videos(pictures) if output_type == "np" else pictures
