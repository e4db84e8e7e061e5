"""Errors of calls: one class for each thing that a program may want to do about them."""

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple, Type

from ._descriptors import message_class, seconds

DETAILS_KEY = "grpc-status-details-bin"


class Violation(NamedTuple):
    """One field of the request that is wrong: its name, and what would be right."""

    field: str
    description: str


class LatentError(Exception):
    """A call that failed.

    code          the name of gRPC's status code: "INVALID_ARGUMENT"
    reason        the server's word for the cause: "QUEUE_FULL"; empty where it gives none
    message       the server's sentence
    request_id    to find the request in the server's log; empty where no request was made
    retry_after   seconds until another try makes sense, as the server sees it; None where it does not say
    violations    the fields that are wrong
    metadata      the server's facts, as image_generation.proto lists them: {"buckets": "1024x1024,832x1216"}
    """

    def __init__(self, message: str, *, code: str = "UNKNOWN", reason: str = "", request_id: str = "",
                 retry_after: Optional[float] = None, violations: Iterable[Violation] = (),
                 metadata: Optional[Dict[str, str]] = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.request_id = request_id
        self.retry_after = retry_after
        self.violations: Tuple[Violation, ...] = tuple(violations)
        self.metadata = metadata or {}

    @property
    def field(self) -> Optional[str]:
        """The first field that is wrong; None where the error is about no field."""
        return self.violations[0].field if self.violations else None

    def __str__(self) -> str:
        return f"{self.message} ({self.code}{', ' + self.reason if self.reason else ''})"


class InvalidRequest(LatentError, ValueError):
    """Fields of the request are wrong: `violations` names them."""


class NoSuchBucket(InvalidRequest):
    """No bucket has, or covers, the size; metadata["buckets"] lists those that are ready."""


class BucketCold(LatentError):
    """The size would have to be compiled, and this server or this request does not allow it."""


class NoVideoModel(LatentError):
    """The server draws no videos."""


class CheckpointChanged(LatentError):
    """A file of the model was edited under the server."""


class ResourceExhausted(LatentError):
    """The server, or a limit of gRPC on the way, has no room for the request."""


class QueueFull(ResourceExhausted):
    """The server has enough to do; `retry_after` says when to come back."""


class OutOfMemory(ResourceExhausted):
    """The server has too little memory for the request."""


class StreamExists(LatentError):
    """Another resumable request of the same request_id is at work or unread."""


class NotFound(LatentError):
    """The stream, or the model, is not there."""


class DeadlineExceeded(LatentError, TimeoutError):
    """The timeout passed; the server has stopped the work."""


class PredictedOverrun(DeadlineExceeded):
    """The server foresees that the timeout would pass, and has not begun."""


class Unavailable(LatentError, ConnectionError):
    """There is no server, it is loading or draining, or the connection broke and could not be taken up again."""


class Unauthenticated(LatentError):
    """The server asks for a client certificate or an API key, or the key is none of its keys."""


class PermissionDenied(LatentError):
    """The server does not accept this client's certificate for that."""


class Cancelled(LatentError):
    """The request was cancelled: by this side, or since the server stopped."""


class ServerError(LatentError):
    """A fault of the server, or an answer that makes no sense; the server's log has more under request_id."""


_BY_REASON: Dict[str, Type[LatentError]] = {
    "NO_SUCH_BUCKET": NoSuchBucket, "BUCKET_COLD": BucketCold, "COMPILE_FORBIDDEN": BucketCold,
    "CHECKPOINT_CHANGED": CheckpointChanged, "QUEUE_FULL": QueueFull, "OUT_OF_MEMORY": OutOfMemory,
    "NO_VIDEO_MODEL": NoVideoModel, "STREAM_EXISTS": StreamExists, "PREDICTED_OVERRUN": PredictedOverrun,
}
_BY_CODE: Dict[str, Type[LatentError]] = {
    "INVALID_ARGUMENT": InvalidRequest, "RESOURCE_EXHAUSTED": ResourceExhausted, "NOT_FOUND": NotFound,
    "DEADLINE_EXCEEDED": DeadlineExceeded, "UNAVAILABLE": Unavailable, "UNAUTHENTICATED": Unauthenticated,
    "PERMISSION_DENIED": PermissionDenied, "CANCELLED": Cancelled, "ABORTED": Cancelled,
}


def make_error(code: str, message: str, details: bytes = b"", request_id: str = "") -> LatentError:
    """The error of a call that ended with this status; `details` is the value of grpc-status-details-bin."""
    found = _read_details(details)
    info = found.get("ErrorInfo")
    if info is not None and info.domain != "latentd":
        info = None
    reason = info.reason if info else ""
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code, ServerError)
    return kind(message, code=code, reason=reason, request_id=request_id, retry_after=_retry_after(found.get("RetryInfo")),
                violations=_violations(found.get("BadRequest")), metadata=dict(info.metadata) if info else {})


def error_of_call(failure: Any, request_id: str = "") -> LatentError:
    """The same of what grpc or grpc.aio raised."""
    trailing: List[Tuple[str, Any]] = list(failure.trailing_metadata() or ())
    details = next((value for key, value in trailing if key == DETAILS_KEY), b"")
    error = make_error(failure.code().name, failure.details() or "", details, request_id)
    error.__cause__ = failure
    return error


def _read_details(data: bytes) -> Dict[str, Any]:
    """The first detail of each type of google.rpc, by its name; what cannot be read is left out."""
    found: Dict[str, Any] = {}
    try:
        status = message_class("google.rpc.Status").FromString(data)
        for detail in status.details:
            name = detail.type_url.rpartition("google.rpc.")[2]
            if name in ("ErrorInfo", "RetryInfo", "BadRequest") and name not in found:
                found[name] = message_class("google.rpc." + name).FromString(detail.value)
    except Exception:  # DecodeError is another class in each implementation of protobuf
        pass
    return found


def _retry_after(info: Any) -> Optional[float]:
    return None if info is None else max(0.0, seconds(info.retry_delay))


def _violations(bad: Any) -> List[Violation]:
    return [] if bad is None else [Violation(entry.field, entry.description) for entry in bad.field_violations]
