"""Rules for failed generations: which are tried again, and when. They are those of `latent` (client/rpc/retry.h).

A generation leaves nothing behind but its pictures, and its seed determines those; so it may be done twice as long as no picture has
been received, and taken up again where the server keeps it.
"""

import random
from typing import Callable, NamedTuple, Optional

from .errors import LatentError

_SERVER_DELAY_JITTER = 0.25
_RESET = "Received RST_STREAM"  # gRPC's words on this side
_NOT_CONNECTED = "failed to connect to all addresses"
_NEVER_THERE = ("Connection refused", "No such file or directory", "Domain name not found", "CERTIFICATE_VERIFY_FAILED",
                "WRONG_VERSION_NUMBER", "Ssl handshake failed", "SSL_ERROR_SSL", "Peer name")


class RetryPolicy(NamedTuple):
    """`retries` after the first try; without a delay from the server, pauses double from the first to the longest, in seconds."""

    retries: int = 4
    first_pause: float = 0.2
    longest_pause: float = 5.0


def is_safe(error: LatentError) -> bool:
    """True where another try, or another replica behind the same address, can do better."""
    if error.code == "CANCELLED":
        return error.reason != "STREAM_DROPPED"
    if error.code == "RESOURCE_EXHAUSTED":
        return error.retry_after is not None
    if error.code == "INTERNAL":
        return error.message.startswith(_RESET)
    return error.code in ("UNAVAILABLE", "UNKNOWN")


def was_never_there(error: LatentError) -> bool:
    """True where gRPC could not connect for a reason that no later try will mend by itself: no program listens, no host has that
    name, the certificate is not trusted."""
    said = error.message
    if error.code != "UNAVAILABLE" or not (_NOT_CONNECTED in said or said.startswith("DNS resolution failed")):
        return False
    return any(words in said for words in _NEVER_THERE)


class RetrySchedule:
    """Pauses between tries of one call, with jitter so that clients do not come back all at once."""

    def __init__(self, policy: RetryPolicy, number: Callable[[], float] = random.random) -> None:
        self._policy = policy
        self._number = number
        self._left = policy.retries
        self._pause = policy.first_pause

    def pause_after(self, error: LatentError, seconds_left: Optional[float]) -> Optional[float]:
        """Seconds to wait after a try that failed; None: it is not to be tried again, or not so often, or there is no time."""
        if not is_safe(error) or self._left <= 0:
            return None
        self._left -= 1
        own = self._pause * (0.5 + 0.5 * self._number())
        self._pause = min(2 * self._pause, self._policy.longest_pause)
        asked = error.retry_after
        pause = own if asked is None else asked * (1 + _SERVER_DELAY_JITTER * self._number())
        return None if seconds_left is not None and pause >= seconds_left else pause
