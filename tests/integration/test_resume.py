"""A stream whose connection breaks is taken up again: the same bytes, and nothing is drawn twice."""

import contextlib
import pathlib
import socket
import subprocess
import tempfile
import threading
import unittest

import grpc

import server_process
from metrics import METRICS, scrape
from server_process import Api, reason, violations, wait_until
from shared_server import SharedServerTestCase

RAW = 4  # latent.v1.Format
SIDE = 320
BYTES = SIDE * SIDE * 3  # size of a raw image: a chunk and a part of one
STEPS = 2
PICTURES = 3


class CutConnection:
    """Passes one connection after the other on to the server. The first one gets so many bytes of the answer, and breaks
    then, or once `cut` is called."""

    def __init__(self, address, answer_bytes, waits=False):
        self._may_break = threading.Event()
        if not waits:
            self._may_break.set()
        host, port = address.rsplit(":", 1)
        self._server = (host, int(port))
        self._left = [answer_bytes]  # bytes left for each connection that breaks
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()

    def cut(self):
        self._may_break.set()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                server = socket.create_connection(self._server)
                limit = self._left.pop() if self._left else None
                for source, sink, most in ((client, server, None), (server, client, limit)):
                    threading.Thread(target=self._copy, args=(source, sink, most), daemon=True).start()

    def _copy(self, source, sink, most):
        with contextlib.suppress(OSError):
            while data := source.recv(4096):
                if most is not None:
                    data, most = data[:most], most - len(data[:most])
                sink.sendall(data)
                if most == 0:
                    self._may_break.wait()
                    break
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class ResumeTest(SharedServerTestCase):
    ARGUMENTS = (METRICS,)
    BUCKETS = f"{SIDE}x{SIDE}"

    def steps(self):
        return scrape(self.server).sum("latentd_denoise_steps_total")

    def request(self, **fields):
        usual = {"width": SIDE, "height": SIDE, "num_inference_steps": STEPS, "num_images_per_prompt": PICTURES,
                 "output": {"format": RAW}}
        return self.api.request(**{**usual, **fields})

    def resumed(self, request_id, images=0, size=0):
        return self.api.call("ImageGeneration", "ResumeStream", request_id=request_id, received_images=images,
                             received_bytes=size)

    @staticmethod
    def take(events, pictures, chunks=0):
        """Adds the pictures' bytes, until so many chunks have come or the stream ends or breaks: its error, or None."""
        try:
            for event in events:
                if event.HasField("image_chunk"):
                    chunk = event.image_chunk
                    data = pictures.setdefault(chunk.index, bytearray())
                    assert chunk.offset == len(data)
                    data += chunk.data
                    chunks -= 1
                    if chunks == 0:
                        break
        except grpc.RpcError as error:
            return error
        return None

    def test_the_rest_of_a_broken_stream_is_the_same_bytes(self):
        whole = {}
        self.assertIsNone(self.take(self.api.stream(self.request()), whole))
        before = self.steps()
        parts = {}
        with CutConnection(self.server.address, 2 * BYTES - 10_000, waits=True) as proxy:
            api = Api(proxy.address)
            self.addCleanup(api.close)
            events = api.stream(self.request(request_id="broken", resumable=True))
            self.assertIsNone(self.take(events, parts, chunks=3))
            proxy.cut()
            error = self.take(events, parts)
        self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
        (first, second) = parts.values()
        self.assertEqual(len(first), BYTES)
        self.assertTrue(0 < len(second) < BYTES)
        events = self.resumed("broken", 1, len(second))
        self.assertIsNone(self.take(events, parts))
        self.assertEqual(parts, whole)
        self.assertTrue(events[-1].HasField("completed"))
        self.assertEqual({event.request_id for event in events}, {"broken"})
        again = {}
        self.assertIsNone(self.take(self.resumed("broken"), again))
        self.assertEqual(again, whole)
        self.assertEqual(self.steps() - before, PICTURES * STEPS)

    def test_latent_takes_it_up_by_itself(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)

        def draw(address, *arguments):
            output = pathlib.Path(folder.name, f"{len(arguments)}.png")
            done = subprocess.run(
                [server_process.options.latent, "generate", "a red circle", f"--width={SIDE}", f"--height={SIDE}", "--seed=7",
                 f"--num-inference-steps={STEPS}", f"--server={address}", f"--output={output}", *arguments],
                capture_output=True, text=True, timeout=server_process.DEADLINE)
            self.assertEqual(done.returncode, 0, done.stderr)
            return output.read_bytes()

        whole = draw(self.server.address)
        before = self.steps()
        with CutConnection(self.server.address, len(whole) // 2) as proxy:
            self.assertEqual(draw(proxy.address, "--resumable"), whole)
            self.assertEqual(proxy.connections, 2)
        self.assertEqual(self.steps() - before, STEPS)

    def test_cancelling_ends_the_work_that_nobody_reads(self):
        request = self.request(num_inference_steps=150, num_images_per_prompt=16, request_id="unread", resumable=True)
        events = self.api.stream(request)
        for event in events:
            if event.HasField("progress"):
                break
        events.cancel()
        self.assertEqual(self.server.request_line("unread")["code"], "CANCELLED")
        before = self.steps()
        wait_until(lambda: self.steps() > before, "the work goes on")
        with self.assertRaises(grpc.RpcError) as caught:
            list(self.api.stream(request))
        self.assertEqual((caught.exception.code(), reason(caught.exception)[0]),
                         (grpc.StatusCode.ALREADY_EXISTS, "STREAM_EXISTS"))
        self.api.call("ImageGeneration", "CancelGeneration", request_id="unread")
        wait_until(lambda: scrape(self.server).sum("latentd_requests_in_flight") == 0, "the work ends")
        with self.assertRaises(grpc.RpcError) as caught:
            self.resumed("unread")
        self.assertEqual((caught.exception.code(), reason(caught.exception)[0]),
                         (grpc.StatusCode.NOT_FOUND, "NO_SUCH_STREAM"))

    def test_what_cannot_be_resumable_is_refused(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.api.generate(self.request(request_id="unary", resumable=True))
        self.assertEqual(set(violations(caught.exception)), {"resumable"})


if __name__ == "__main__":
    unittest.main()
