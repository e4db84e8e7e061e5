"""A server's address, how it is trusted, and the settings of a channel to it."""

import dataclasses
import os
import re
from typing import Any, List, Optional, Tuple, Union

import grpc

from ._version import __version__

USUAL_PORT = "50051"
_LOCAL = ("unix:", "localhost:", "127.", "[::1]:")
_MOST_MESSAGE_BYTES = 64 << 20

PemInput = Union[None, bytes, str, "os.PathLike[str]"]


@dataclasses.dataclass(frozen=True)
class Tls:
    """How a server is known, and this client to it: PEM files by their paths, or their bytes.

    ca            authorities of servers; None: those that gRPC has
    cert, key     this client's, together; None: it shows none
    server_name   the name in the server's certificate, where it is not the address's host
    """

    ca: PemInput = None
    cert: PemInput = None
    key: PemInput = None
    server_name: Optional[str] = None

    def credentials(self) -> grpc.ChannelCredentials:
        """Reads the files. OSError where one cannot be read; ValueError for a certificate without key, or the reverse."""
        if (self.cert is None) != (self.key is None):
            raise ValueError("Tls: cert and key belong together")
        return grpc.ssl_channel_credentials(_pem(self.ca), _pem(self.key), _pem(self.cert))


def _pem(value: PemInput) -> Optional[bytes]:
    if value is None or isinstance(value, bytes):
        return value
    with open(value, "rb") as file:
        return file.read()


def parse_address(text: str) -> Tuple[str, bool]:
    """gRPC's target for HOST:PORT, unix:PATH, or one of grpc:// and grpcs://; and whether it asks for TLS.

    ValueError for all else; it says what would be right.
    """
    match = re.match(r"(grpcs?)://(.*)", text)
    target, is_tls = (match[2].rstrip("/"), match[1] == "grpcs") if match else (text, False)
    if target.startswith("unix:") and len(target) > len("unix:"):
        return target, is_tls
    scheme = re.match(r"([a-z]+)://([^/?#]*)", target)
    if scheme:
        host = scheme[2] if ":" in scheme[2] else f"{scheme[2]}:{USUAL_PORT}"
        prefix = "grpcs://" if scheme[1] == "https" else ""
        raise ValueError(f"{text!r} is no address of gRPC; did you mean {prefix + host!r}?")
    named = re.fullmatch(r"(?:dns:|ipv4:|ipv6:)?(\[[^\]]+\]|[^:/\s]+):(\d{1,5})", target)
    if not named or not 1 <= int(named[2]) <= 65535:
        raise ValueError(f"the server must be HOST:PORT, with a port from 1 to 65535, or unix:PATH, not {text!r}{_correction(target)}")
    return target, is_tls


def _correction(target: str) -> str:
    if target.isdigit():
        return f"; did you mean 'localhost:{target}'?"
    is_host = re.fullmatch(r"[^:/\s]+", target)
    return f"; did you mean '{target}:{USUAL_PORT}'?" if is_host else ""


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """All that a channel is opened with; frozen, so that threads may share it."""

    target: str
    tls: Optional[Tls]

    @classmethod
    def of(cls, address: Optional[str], tls: Union[None, bool, Tls]) -> "Endpoint":
        """The server named, or LATENT_SERVER, or localhost:50051. ValueError for a bad address."""
        target, asks_tls = parse_address(address or os.environ.get("LATENT_SERVER") or f"localhost:{USUAL_PORT}")
        if tls is False and asks_tls:
            raise ValueError(f"tls=False, but {address!r} asks for TLS")
        return cls(target, tls if isinstance(tls, Tls) else Tls() if tls or asks_tls else None)

    def open(self, module: Any) -> Any:
        """A channel of `grpc` or `grpc.aio`. It connects when it is first used."""
        if self.tls is None:
            return module.insecure_channel(self.target, options=self._options())
        return module.secure_channel(self.target, self.tls.credentials(), options=self._options())

    def _options(self) -> List[Tuple[str, Any]]:
        options: List[Tuple[str, Any]] = [
            ("grpc.primary_user_agent", f"latent-client/{__version__}"),
            ("grpc.max_receive_message_length", _MOST_MESSAGE_BYTES),
            ("grpc.max_send_message_length", -1),
            # Milliseconds that one attempt to connect may take, and pauses between them: no longer than those between tries.
            ("grpc.min_reconnect_backoff_ms", 5000),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 2000),
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.keepalive_timeout_ms", 20_000),
            # Each pipeline has connections of its own, so that closing it closes them.
            ("grpc.use_local_subchannel_pool", 1),
        ]
        if self.target.startswith(_LOCAL):
            options.append(("grpc.enable_http_proxy", 0))
        if self.tls and self.tls.server_name:
            options.append(("grpc.ssl_target_name_override", self.tls.server_name))
        return options
