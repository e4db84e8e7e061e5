"""A crowd of hostile clients of HTTP: plain sockets, since no client of HTTP does such things.

As a program it is that crowd, or this share of it, until its standard input ends: http_crowd.py ADDRESS SHARE. Says how many
connections there are once all have been made. Those that the server closes, since they take too long, are made again."""

import collections
import contextlib
import itertools
import json
import pathlib
import select
import selectors
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from hostile_clients import allow_descriptors  # noqa: E402

IDLE, CRAWLING, NOT_READING = 10_000, 1_000, 1_000  # clients of each kind
PICTURES = 50  # as many of the last kind ask for a picture; the others ask for the page's files
HOSTS = [f"127.0.0.{host}" for host in range(2, 10)]  # the crowd's; a host has ports for some of them only
AT_ONCE = 16  # pictures that are asked for and not drawn yet: beyond its queue the server would refuse them
PICTURE = json.dumps({"prompt": "a", "size": "256x256", "num_inference_steps": 1, "guidance_scale": 0}).encode()
FILES = 200  # one of the others asks for so many without reading them, 1 MB together
SMALL_BUFFER, SMALL_SEGMENT = 4096, 536  # the kernel takes little of an answer that is not read

_hosts = itertools.cycle(HOSTS)


def head(method, path, size=0):
    length = f"Content-Length: {size}\r\n" if size else ""
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{length}\r\n".encode()


class Client:
    """One connection, made again where the server closes it."""

    def __init__(self, crowd):
        self.crowd = crowd
        self.connect()

    def connect(self):
        self.socket = socket.socket()
        self.set_up()
        self.socket.bind((next(_hosts), 0))
        self.socket.connect(self.crowd.address)
        self.socket.setblocking(False)
        self.crowd.selector.register(self.socket, selectors.EVENT_READ, self)
        self.begin()

    def set_up(self):
        self.socket.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT: ports are chosen by whole addresses

    def close(self):
        with contextlib.suppress(KeyError):
            self.crowd.selector.unregister(self.socket)
        self.socket.close()

    def send(self, words):
        with contextlib.suppress(OSError):
            self.socket.send(words)

    def begin(self):
        """The connection is there."""

    def readable(self):
        try:
            if self.socket.recv(1 << 16):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self.close()
        self.connect()


class Kept(Client):
    """Asks once, and then says nothing."""

    def begin(self):
        self.send(head("GET", "/healthz"))


class Crawler(Client):
    """Sends a byte at a time: of its header, or of its body."""

    def __init__(self, crowd, in_body):
        self.in_body = in_body
        super().__init__(crowd)

    def begin(self):
        words = head("POST", "/v1/images/generations", 1 << 16)
        self.words = iter(bytes(1 << 16) if self.in_body else words)
        if self.in_body:
            self.send(words)

    def crawl(self):
        self.send(bytes([next(self.words, 0)]))


class NotReading(Client):
    """Takes nothing of what it asks for: it looks at the first bytes without taking them."""

    def __init__(self, crowd, words):
        self.words = words
        super().__init__(crowd)

    def set_up(self):
        super().set_up()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SMALL_SEGMENT)

    def begin(self):
        self.send(self.words)

    def readable(self):
        with contextlib.suppress(OSError):
            if self.socket.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200":
                self.crowd.selector.unregister(self.socket)
                self.crowd.answered += 1
                return
        self.close()
        self.connect()


class Crowd:
    def __init__(self, address, share):
        host, port = address.rsplit(":", 1)
        self.address = (host, int(port))
        self.selector = selectors.DefaultSelector()
        self.idle, self.crawling, self.not_reading, self.pictures = (
            max(1, int(share * count)) for count in (IDLE, CRAWLING, NOT_READING, PICTURES))
        self.answered = 0
        self.clients = []

    def __enter__(self):
        picture = head("POST", "/v1/images/generations", len(PICTURE)) + PICTURE
        files = head("GET", "/page/page.css") * FILES
        while self.answered < self.not_reading:
            while len(self.clients) < min(self.not_reading, self.answered + AT_ONCE):
                self.clients.append(NotReading(self, picture if len(self.clients) < self.pictures else files))
            self.look(0.1)
        self.clients += [Kept(self) if i % 2 else Client(self) for i in range(self.idle)]
        self.crawlers = collections.deque(Crawler(self, in_body=i % 2 == 1) for i in range(self.crawling))
        self.clients += self.crawlers
        return self

    def look(self, seconds):
        for key, _ in self.selector.select(seconds):
            if key.data is not None:
                key.data.readable()

    def run(self, until_readable):
        """Until there is something to read there."""
        due = time.monotonic()
        while not select.select([until_readable], [], [], 0)[0]:
            self.look(max(0.0, min(0.02, due - time.monotonic())))
            while due <= time.monotonic():  # each crawls once a second
                self.crawlers[0].crawl()
                self.crawlers.rotate(-1)
                due += 1 / self.crawling

    def __exit__(self, *_):
        for client in self.clients:
            client.close()


@contextlib.contextmanager
def crowd(address, share):
    """All of them at once, in a process of their own, which takes no time of this one's."""
    process = subprocess.Popen([sys.executable, __file__, address, str(share)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline(), "the crowd has ended"
        yield
    finally:
        process.stdin.close()
        assert process.wait() == 0, "the crowd has failed"
        process.stdout.close()


def main(address, share):
    share = float(share)
    allow_descriptors(int(share * (IDLE + CRAWLING + NOT_READING)) + 200)
    with Crowd(address, share) as everybody:
        print(len(everybody.clients), flush=True)
        everybody.run(sys.stdin)


if __name__ == "__main__":
    main(*sys.argv[1:])
