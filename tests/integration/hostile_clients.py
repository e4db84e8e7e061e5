"""Clients that mean harm, or behave as if they did: plain sockets, since no gRPC client does such things."""

import contextlib
import os
import resource
import socket
import struct
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# The first bytes of a TLS handshake: a record of 512 bytes that begins a ClientHello.
CLIENT_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(501)


def allow_descriptors(count):
    """Lets this process open that many files, where the system does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard >= count, f"needs {count} open files (ulimit -Hn says {hard})"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))


def connect(address):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)))


def _frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _header(name, value):
    """Without compression, as HPACK allows."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def hello(window=65535):
    """How a client begins: the preface, and settings that let each stream of the server's send `window` bytes."""
    return PREFACE + _frame(4, 0, 0, struct.pack(">HI", 4, window))


def call(path, message):
    """A call on the first stream."""
    headers = b"".join(_header(*pair) for pair in (
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "hostile"), ("te", "trailers"),
        ("content-type", "application/grpc")))
    return _frame(1, 4, 1, headers) + _frame(0, 1, 1, struct.pack(">BI", 0, len(message)) + message)


def silent(address, count, first_words=b""):
    """Connections that say this much, and no more. Context manager."""
    connections = contextlib.ExitStack()
    for _ in range(count):
        connection = connections.enter_context(connect(address))
        with contextlib.suppress(OSError):  # it may be closed already
            connection.sendall(first_words)
    return connections


def not_reading(address, count, path, message):
    """Connections with a call whose answer may not be sent: the client's window stays shut. Context manager."""
    return silent(address, count, hello(window=0) + call(path, message))


class _Busy:
    """Does _run on a thread of its own until the end of the context, which sets _stop."""

    def __init__(self):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


class Garbage(_Busy):
    """That many connections which send noise and are made again, a tenth of them ten times a second. Context manager."""

    def __init__(self, address, count):
        super().__init__()
        self._address = address
        self._count = count

    def _run(self):
        kinds = [os.urandom(1000), b"GET / HTTP/1.1\r\n\r\n", PREFACE + os.urandom(1000), hello() + os.urandom(1000),
                 hello() + _frame(1, 4, 1, os.urandom(1000)), CLIENT_HELLO[:100]]
        at = 0
        with contextlib.ExitStack() as all_of_them:
            connections = [all_of_them.enter_context(connect(self._address)) for _ in range(self._count)]
            while not self._stop.wait(0.1):
                for which in range(at % 10, self._count, 10):
                    with contextlib.suppress(OSError):
                        connections[which].sendall(kinds[which % len(kinds)])
                    connections[which].close()
                    connections[which] = all_of_them.enter_context(connect(self._address))
                at += 1


class Crawlers(_Busy):
    """Connections whose first words come a byte at a time, twenty a second among all. Context manager."""

    def __init__(self, address, count, first_words=CLIENT_HELLO):
        super().__init__()
        self.connections = [connect(address) for _ in range(count)]
        self._words = first_words

    def _run(self):
        for at in range(len(self._words)):
            for connection in self.connections:
                if self._stop.wait(0.05):
                    return
                with contextlib.suppress(OSError):
                    connection.sendall(self._words[at:at + 1])

    def __exit__(self, *exception):
        super().__exit__(*exception)
        for connection in self.connections:
            connection.close()
