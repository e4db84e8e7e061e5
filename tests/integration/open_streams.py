"""Clients in the middle of streams, and how these end."""

import threading
import time

import grpc

import server_process
from server_process import Api

SIDE, STEPS = 256, 20
PICTURES = 16  # images of a stream: none ends before a test ends it


def room_for(streams):
    """latentd's argument."""
    return f"--queue-capacity={streams * PICTURES}"


def fields_of(seed, side=SIDE):
    """Fields of a request for the image that these streams draw first."""
    return {"width": side, "height": side, "num_inference_steps": STEPS, "guidance_scale": 1, "seed": seed}


class OpenStreams:
    """One for each seed, over a connection of its own."""

    def __init__(self, address, seeds, side=SIDE):
        self._side = side
        self._apis = [Api(address) for _ in seeds]
        self._taken = [threading.Event() for _ in seeds]
        self._stepping = threading.Event()
        self._ends = [None for _ in seeds]
        self._readers = [threading.Thread(target=self._read, args=(number, seed), daemon=True)
                         for number, seed in enumerate(seeds)]
        for reader in self._readers:
            reader.start()

    def _read(self, number, seed):
        api = self._apis[number]
        code = "OK"
        try:
            for event in api.stream(api.request(num_images_per_prompt=PICTURES, **fields_of(seed, self._side))):
                self._taken[number].set()
                if event.HasField("progress"):
                    self._stepping.set()
        except grpc.RpcError as error:
            code = error.code().name
        self._ends[number] = code, time.monotonic()
        self._taken[number].set()
        self._stepping.set()

    def wait_until_drawn(self):
        """The server has taken all, and is at a picture of one of them; the others may be waiting."""
        for event in (*self._taken, self._stepping):
            assert event.wait(server_process.DEADLINE), "a stream does not begin"
        assert not any(self._ends), f"a stream has ended: {self._ends}"

    def ends(self):
        """The end of each stream: the name of its status, and when its client got it."""
        for reader in self._readers:
            reader.join(server_process.DEADLINE)
        assert None not in self._ends, "a client is not told that its stream is over"
        for api in self._apis:
            api.close()
        return self._ends
