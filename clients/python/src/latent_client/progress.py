"""A progress bar by tqdm, where that is installed and someone looks."""

import sys
from typing import Any, Dict, Optional

from .events import Completed, Progress, Queued, Started
from .video_events import VideoCompleted, VideoProgress, VideoStarted


def _is_watched() -> bool:
    """True in a terminal and in Jupyter."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


class ProgressBar:
    """One bar over the steps of all pictures or videos of a request; nothing where tqdm is missing or `wanted` is False.

    `wanted` None: only where it can be seen. `settings` are tqdm's."""

    def __init__(self, wanted: Optional[bool], pictures: int, settings: Dict[str, Any]) -> None:
        self._pictures = pictures
        self._steps: Dict[int, int] = {}
        self._bar: Any = None
        if wanted or (wanted is None and _is_watched()):
            try:
                from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]
            except ImportError:
                return
            self._bar = tqdm(**{"total": None, "unit": "step", **settings})

    def show(self, event: Any) -> None:
        if self._bar is None:
            return
        if isinstance(event, Queued):
            self._bar.set_description(f"queued: {event.position} before")
        elif isinstance(event, (Started, VideoStarted, Completed, VideoCompleted)):
            self._bar.set_description("")
        elif isinstance(event, (Progress, VideoProgress)) and event.stage == "steps":
            self._steps[event.index] = event.step
            self._move(event.total_steps)

    def _move(self, total_steps: int) -> None:
        self._bar.total = total_steps * self._pictures
        self._bar.update(sum(self._steps.values()) - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
