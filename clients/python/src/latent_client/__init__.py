"""Pictures and videos from a latentd, with the parameters of diffusers:

    from latent_client import LatentPipeline
    pipe = LatentPipeline("localhost:50051")
    pipe("a large yellow star on a purple background", seed=7).images[0].save("star.png")
"""

from typing import TYPE_CHECKING, Any

from ._version import __version__
from .animation import VideoOutput
from .call import LatentOutput
from .connection import Tls
from .errors import (
    BucketCold, Cancelled, CheckpointChanged, DeadlineExceeded, InvalidRequest, LatentError, NoSuchBucket, NotFound, NoVideoModel,
    OutOfMemory, PermissionDenied, PredictedOverrun, QueueFull, ResourceExhausted, ServerError, StreamExists, Unauthenticated, Unavailable,
    Violation)
from .events import Completed, Event, Image, Preview, Progress, Queued, Started
from .pipeline import EventStream, LatentPipeline
from .tensors import PromptEmbeds
from .video_events import Frame, VideoCompleted, VideoEvent, VideoFile, VideoPreview, VideoProgress, VideoStarted

if TYPE_CHECKING:
    from .aio import AsyncEventStream, AsyncLatentPipeline

__all__ = [
    "AsyncEventStream", "AsyncLatentPipeline", "BucketCold", "Cancelled", "CheckpointChanged", "Completed",
    "DeadlineExceeded", "Event", "EventStream", "Frame", "Image", "InvalidRequest", "LatentError", "LatentOutput",
    "LatentPipeline", "NoSuchBucket", "NoVideoModel", "NotFound", "OutOfMemory", "PermissionDenied", "PredictedOverrun",
    "Preview", "Progress", "PromptEmbeds", "QueueFull", "Queued", "ResourceExhausted", "ServerError", "Started",
    "StreamExists", "Tls", "Unauthenticated", "Unavailable", "VideoCompleted", "VideoEvent", "VideoFile", "VideoOutput",
    "VideoPreview", "VideoProgress", "VideoStarted", "Violation", "__version__"]


def __getattr__(name: str) -> Any:
    if name in ("AsyncLatentPipeline", "AsyncEventStream"):  # asyncio's half is imported when it is used
        from . import aio

        return getattr(aio, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
