"""One generation from its request to its last event, over as many calls as it takes. No I/O: a shell makes the calls.

    while not generation.completed:
        method, message, timeout, metadata = generation.next_call()
        (each message of the call goes to receive(), its error to failed(), which says how long to pause or raises)
    where the shell stops before the end: cancel_call(), unless that is None
"""

import random
import secrets
import time
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from .errors import LatentError, make_error
from .events import Completed, PictureReader
from .messages import BUCKET_POLICY_SNAP, CancelGenerationRequest  # type: ignore[attr-defined,unused-ignore]
from .retry import RetryPolicy, RetrySchedule, was_never_there
from .video_events import VideoCompleted, VideoReader

CANCEL_SECONDS = 1.0  # at most so long a caller that leaves waits for the server to hear of it
_BUCKET_HEADER = "x-latent-bucket"  # balancers hash on it


class Call(NamedTuple):
    """A call to make: its method, its request, its timeout in seconds (None: none), and metadata of its own."""

    method: str
    message: Any
    timeout: Optional[float]
    metadata: Tuple[Tuple[str, str], ...]


class Service(NamedTuple):
    """One of latent.v1's, by its methods, and what reads its events."""

    name: str
    start: str
    resume: str
    cancel: str
    reader: Callable[[], Any]

    def path(self, method: str) -> str:
        return f"/latent.v1.{self.name}/{method}"


PICTURES = Service("ImageGeneration", "GenerateStream", "ResumeStream", "CancelGeneration", PictureReader)
VIDEOS = Service("VideoGeneration", "GenerateVideo", "ResumeVideo", "CancelVideo", VideoReader)


class Generation:
    """For one thread or task. `timeout` counts from now, in seconds, over all calls."""

    def __init__(self, service: Service, request: Any, policy: RetryPolicy = RetryPolicy(), timeout: Optional[float] = None,
                 clock: Callable[[], float] = time.monotonic, number: Callable[[], float] = random.random) -> None:
        self._made_id = not request.request_id
        self._service = service
        self.request = _complete(request)
        self.completed = False
        self._clock = clock
        self._deadline = None if timeout is None else clock() + timeout
        self._schedule = RetrySchedule(policy, number)
        self._reader = service.reader()
        self._calls = 0
        self._has_begun = False  # the server has said something of the request
        self._resumes = False    # the next call takes up what the server keeps
        self._detoured = False   # the last call was made at once, instead of the one before
        self._error: Optional[LatentError] = None

    @property
    def request_id(self) -> str:
        return str(self.request.request_id)

    def next_call(self) -> Call:
        self._calls += 1
        if self._resumes:
            return self._call(self._service.resume, self._reader.rest(self.request_id), self._left())
        self._reader = self._service.reader()
        self._has_begun = False
        return self._call(self._service.start, self.request, self._left())

    def receive(self, message: Any) -> List[Any]:
        """The events that a message of the service makes. ServerError where it cannot be."""
        self._has_begun = True
        event = self._reader.read(message)
        self.completed = isinstance(event, (Completed, VideoCompleted))
        return [event] if event else []

    def ended(self) -> float:
        """For a call that ended well; as failed() where Completed has not come."""
        return 0.0 if self.completed else self.failed(make_error("UNKNOWN", "the stream ended too early", request_id=self.request_id))

    def failed(self, error: LatentError) -> float:
        """Seconds to wait before next_call(). Raises the error where no other call is to be made."""
        if self._may_detour(error):
            self._detoured = True
            self._resumes = error.reason == "STREAM_EXISTS"
            return 0.0
        self._detoured = False
        # An error with a reason has ended the stream on the server too.
        self._resumes = bool(self.request.resumable) and self._has_begun and not error.reason
        pause = None if self._is_final(error) else self._schedule.pause_after(error, self._left())
        if pause is None:
            self._error = error
            raise error
        return pause

    def _may_detour(self, error: LatentError) -> bool:
        """True where another server answers, or it was too late, and it begins again; or an earlier call got there, and not its
        answer back."""
        is_gone = error.reason == "NO_SUCH_STREAM" and not self._reader.has_result
        is_there = error.reason == "STREAM_EXISTS" and self._calls > 1
        return not self._detoured and (is_gone or is_there)

    def _is_final(self, error: LatentError) -> bool:
        has_part = self._reader.has_result and not self._resumes
        return has_part or (self._calls == 1 and was_never_there(error))

    def cancel_call(self) -> Optional[Call]:
        """The call that ends what the server goes on with, where a caller leaves or fails; None where there is nothing to end.

        Before its first event, work of that request_id may be another call's, unless the name was made here."""
        is_over = self.completed or self._calls == 0 or (self._error is not None and self._error.reason)
        may_run = self._has_begun or (self._made_id and self._error is None)
        if is_over or not may_run or not self.request.resumable:
            return None
        return self._call(self._service.cancel, CancelGenerationRequest(request_id=self.request_id), CANCEL_SECONDS)

    def _call(self, method: str, message: Any, timeout: Optional[float]) -> Call:
        request = self.request
        has_size = request.HasField("width") and request.HasField("height")
        is_plain = self._service is PICTURES and has_size and request.bucket_policy != BUCKET_POLICY_SNAP
        bucket = ((_BUCKET_HEADER, f"{request.width}x{request.height}"),) if is_plain else ()
        return Call(self._service.path(method), message, timeout, bucket)

    def _left(self) -> Optional[float]:
        return None if self._deadline is None else max(0.0, self._deadline - self._clock())


def _complete(request: Any) -> Any:
    """A copy with a seed, so that every try draws the same, and a name, by which it is taken up again."""
    completed = type(request)()
    completed.CopyFrom(request)
    if not completed.HasField("seed") and not completed.seeds:
        completed.seed = secrets.randbits(32)
    if not completed.request_id:
        completed.request_id = secrets.token_hex(12)
    return completed
