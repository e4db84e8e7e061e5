"""Pictures from a latentd, with the parameters of diffusers:

    from latent_client import LatentPipeline
    pipe = LatentPipeline("localhost:50051")
    pipe("a large yellow star on a purple background", seed=7).images[0].save("star.png")
"""

from typing import TYPE_CHECKING, Any

from ._version import __version__
from .call import LatentOutput
from .connection import Tls
from .errors import (
    BucketCold, Cancelled, CheckpointChanged, DeadlineExceeded, InvalidRequest, LatentError, NoSuchBucket, NotFound, OutOfMemory,
    PermissionDenied, PredictedOverrun, QueueFull, ResourceExhausted, ServerError, StreamExists, Unauthenticated, Unavailable,
    Violation)
from .events import Completed, Event, Image, Preview, Progress, Queued, Started
from .pipeline import EventStream, LatentPipeline
from .tensors import PromptEmbeds

if TYPE_CHECKING:
    from .aio import AsyncEventStream, AsyncLatentPipeline

__all__ = [
    "AsyncEventStream", "AsyncLatentPipeline", "BucketCold", "Cancelled", "CheckpointChanged", "Completed", "DeadlineExceeded",
    "Event", "EventStream", "Image", "InvalidRequest", "LatentError", "LatentOutput", "LatentPipeline", "NoSuchBucket", "NotFound",
    "OutOfMemory", "PermissionDenied", "PredictedOverrun", "Preview", "Progress", "PromptEmbeds", "Queued", "QueueFull",
    "ResourceExhausted", "ServerError", "Started", "StreamExists", "Tls", "Unauthenticated", "Unavailable", "Violation", "__version__"]


def __getattr__(name: str) -> Any:
    if name in ("AsyncLatentPipeline", "AsyncEventStream"):  # asyncio's half is imported when it is used
        from . import aio

        return getattr(aio, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
