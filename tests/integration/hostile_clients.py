"""Clients that mean harm, or behave as if they did: plain sockets, since no gRPC client does such things.

As a program it is a crowd of them, until its standard input ends: hostile_clients.py ADDRESS PATH MESSAGE [--tls], with the
message of the calls whose answers are not read in hexadecimal. Says how many connections there are once all have been made."""

import contextlib
import os
import resource
import socket
import ssl
import struct
import subprocess
import sys
import threading

SILENT, GARBAGE, NOT_READING, CRAWLING = 1000, 100, 50, 50  # clients of each kind in a crowd

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# The first bytes of a TLS handshake: a record of 512 bytes that begins a ClientHello.
CLIENT_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(501)


def allow_descriptors(count):
    """Lets this process open that many files, where the system does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard >= count, f"needs {count} open files (ulimit -Hn says {hard})"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))


def believing_all():
    """TLS of a client that takes any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def connect(address, tls=None):
    """A connection, its handshake done where there is TLS."""
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)))
    return tls.wrap_socket(connection) if tls else connection


def _frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _header(name, value):
    """Without compression, as HPACK allows."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def hello(window=65535):
    """How a client begins: the preface, and settings that let each stream of the server's send `window` bytes."""
    return PREFACE + _frame(4, 0, 0, struct.pack(">HI", 4, window))


def settings_ack():
    return _frame(4, 1, 0, b"")


def headers_frame(stream, path):
    """How a call begins."""
    headers = b"".join(_header(*pair) for pair in (
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "hostile"), ("te", "trailers"),
        ("content-type", "application/grpc")))
    return _frame(1, 4, stream, headers)


def data_frame(stream, data, ends=False):
    """A part of the call's messages."""
    return _frame(0, int(ends), stream, data)


def envelope(size):
    """The bytes before a message in gRPC's framing."""
    return struct.pack(">BI", 0, size)


def call(path, message):
    """A call on the first stream."""
    return headers_frame(1, path) + data_frame(1, envelope(len(message)) + message, ends=True)


def silent(address, count, first_words=b"", tls=None):
    """Connections that say this much, and no more. Context manager."""
    connections = contextlib.ExitStack()
    for _ in range(count):
        connection = connections.enter_context(connect(address, tls))
        with contextlib.suppress(OSError):  # it may be closed already
            connection.sendall(first_words)
    return connections


def not_reading(address, count, path, message, tls=None):
    """Connections with a call whose answer may not be sent: the client's window stays shut. Context manager."""
    return silent(address, count, hello(window=0) + call(path, message), tls)


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
    """A crowd of connections which send noise and are made again, a tenth of them ten times a second. With TLS, half of them
    send it after the handshake. Context manager."""

    def __init__(self, address, count, tls=None):
        super().__init__()
        self._address = address
        self._count = count
        noise = [os.urandom(1000), b"GET / HTTP/1.1\r\n\r\n", PREFACE + os.urandom(1000), hello() + os.urandom(1000),
                 hello() + _frame(1, 4, 1, os.urandom(1000)), CLIENT_HELLO[:100]]
        self._kinds = [(None, words) for words in noise] + [(tls, words) for words in noise if tls]

    def _run(self):
        at = 0
        with contextlib.ExitStack() as all_of_them:
            connections = [all_of_them.enter_context(self._connect(which)) for which in range(self._count)]
            while not self._stop.wait(0.1):
                for which in range(at % 10, self._count, 10):
                    with contextlib.suppress(OSError):
                        connections[which].sendall(self._kinds[which % len(self._kinds)][1])
                    connections[which].close()
                    connections[which] = all_of_them.enter_context(self._connect(which))
                at += 1

    def _connect(self, which):
        return connect(self._address, self._kinds[which % len(self._kinds)][0])


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


@contextlib.contextmanager
def crowd(address, path, message, tls=False):
    """All of them at once, in a process of their own, which takes no time of this one's."""
    command = [sys.executable, __file__, address, path, message.hex(), *(["--tls"] if tls else [])]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline(), "the crowd has ended"
        yield
    finally:
        process.stdin.close()
        assert process.wait() == 0, "the crowd has failed"
        process.stdout.close()


def main(address, path, message, tls=None):
    allow_descriptors(4096)
    tls = believing_all() if tls else None
    with contextlib.ExitStack() as everybody:
        everybody.enter_context(silent(address, SILENT // 4))
        everybody.enter_context(silent(address, SILENT // 4, CLIENT_HELLO[:100] if tls else PREFACE[:10]))
        everybody.enter_context(silent(address, SILENT // 2, hello(), tls))
        everybody.enter_context(not_reading(address, NOT_READING, path, bytes.fromhex(message), tls))
        everybody.enter_context(Garbage(address, GARBAGE, tls))
        everybody.enter_context(Crawlers(address, CRAWLING, CLIENT_HELLO if tls else PREFACE))
        print(SILENT + NOT_READING + GARBAGE + CRAWLING, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
