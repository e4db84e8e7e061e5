"""Clients that make a server hold as much as it will: every one speaks HTTP/2 as it should, and takes all that it is given."""

import contextlib
import selectors
import struct
import threading

from hostile_clients import connect, data_frame, headers_frame, hello, settings_ack

_RESET, _SETTINGS, _WINDOW = 3, 4, 8
_INITIAL_WINDOW, _AHEAD = 65535, 1 << 18


class _Connection:
    """One client's: `calls` calls whose message is `message`, sent as far as the server's windows let it."""

    def __init__(self, address, path, message, calls):
        self.socket = connect(address)
        self.socket.setblocking(False)
        self.sent = 0  # number of messages
        self._message = message
        self._out = bytearray(hello(window=0))
        self._in = bytearray()
        self._window = self._stream_window = _INITIAL_WINDOW
        self._streams = {}  # number: [what may be sent, what was]
        for number in range(1, 2 * calls, 2):
            self._out += headers_frame(number, path)
            self._streams[number] = [_INITIAL_WINDOW, 0]

    def receive(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        self._in += data
        while len(self._in) >= 9 and len(self._in) >= 9 + (size := int.from_bytes(self._in[:3], "big")):
            kind, flags, stream = struct.unpack(">BBI", self._in[3:9])
            self._take(kind, flags, stream, bytes(self._in[9:9 + size]))
            del self._in[:9 + size]

    def _take(self, kind, flags, stream, payload):
        if kind == _WINDOW and stream == 0:
            self._window += int.from_bytes(payload, "big")
        elif kind == _WINDOW and stream in self._streams:
            self._streams[stream][0] += int.from_bytes(payload, "big")
        elif kind == _RESET:
            self._streams.pop(stream, None)
        elif kind == _SETTINGS and not flags:
            for name, value in struct.iter_unpack(">HI", payload):
                if name == 4:  # INITIAL_WINDOW_SIZE, of streams that are there too
                    for allowed in self._streams.values():
                        allowed[0] += value - self._stream_window
                    self._stream_window = value
            self._out += settings_ack()

    def send(self):
        for number, stream in self._streams.items():
            while len(self._out) < _AHEAD:
                size = min(stream[0], self._window, 16384, len(self._message) - stream[1])
                if size <= 0:
                    break
                self._out += data_frame(number, self._message[stream[1]:stream[1] + size])
                stream[0] -= size
                stream[1] += size
                self._window -= size
                self.sent += size
        if self._out:
            del self._out[:self.socket.send(self._out)]


class Hoarders:
    """A crowd of `count` connections. Context manager."""

    def __init__(self, address, count, path, message, calls):
        self._connections = [_Connection(address, path, message, calls) for _ in range(count)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def sent(self):
        return sum(connection.sent for connection in self._connections)

    def _run(self):
        with selectors.DefaultSelector() as ready:
            for connection in self._connections:
                ready.register(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)
            while not self._stop.wait(0.01):
                for key, _ in ready.select(0):
                    try:
                        with contextlib.suppress(BlockingIOError):
                            key.data.receive()
                        with contextlib.suppress(BlockingIOError):
                            key.data.send()
                    except OSError:
                        ready.unregister(key.fileobj)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        for connection in self._connections:
            connection.socket.close()
