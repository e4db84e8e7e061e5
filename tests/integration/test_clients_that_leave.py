"""The work of a client that is gone stops at its next step."""

import os
import signal
import socket
import subprocess
import unittest

import grpc

import server_process
from server_process import Api, reason
from shared_server import SharedServerTestCase


class ClientsThatLeaveTest(SharedServerTestCase):
    BUCKETS = "64x64,256x256"

    def long_request(self, **fields):
        return self.api.request(width=256, height=256, num_inference_steps=150, num_images_per_prompt=16, **fields)

    def assert_stopped(self, request_id, code):
        line = self.server.request_line(request_id)
        self.assertEqual(line["code"], code)
        self.assertEqual(line["images"], 0)

    def wait_for_progress(self, events):
        for event in events:
            if event.HasField("progress"):
                return

    def test_cancel(self):
        events = self.api.stream(self.long_request(request_id="cancelled"))
        self.wait_for_progress(events)
        events.cancel()
        self.assert_stopped("cancelled", "CANCELLED")

    def test_cancel_while_waiting(self):
        first = self.api.stream(self.long_request(request_id="first"))
        self.wait_for_progress(first)
        second = self.api.stream(self.long_request(request_id="second"))
        self.assertEqual(next(second).queued.position, 16)
        second.cancel()
        self.assert_stopped("second", "CANCELLED")
        first.cancel()
        self.assert_stopped("first", "CANCELLED")

    def test_deadline(self):
        # Without guidance, as nothing else here: what has been measured would be refused at once.
        late = self.api.request(num_inference_steps=150, num_images_per_prompt=16, guidance_scale=1, request_id="late")
        with self.assertRaises(grpc.RpcError) as caught:
            list(self.api.stream(late, timeout=2))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertEqual(reason(caught.exception)[0], "")
        line = self.server.request_line("late")
        self.assertEqual(line["code"], "DEADLINE_EXCEEDED")
        self.assertLess(line["images"], 16)  # a fast machine draws some of them in time

    def test_disconnect(self):
        api = Api(self.server.address)
        self.wait_for_progress(api.stream(self.long_request(request_id="disconnected")))
        api.close()
        self.assert_stopped("disconnected", "CANCELLED")

    def test_kill(self):
        client = subprocess.Popen(
            [server_process.options.latent, "generate", "a star", "--server", self.server.address, "--request-id=killed",
             "--num-inference-steps=150", "--num-images-per-prompt=16", "--output=/dev/null"],
            stderr=subprocess.PIPE, text=True)
        for line in client.stderr:
            if "drawing " in line:
                break
        os.kill(client.pid, signal.SIGKILL)
        client.wait()
        client.stderr.close()
        self.assert_stopped("killed", "CANCELLED")

    def test_bytes_that_are_not_http2(self):
        host, port = self.server.address.rsplit(":", 1)
        for junk in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(100), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 50):
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(junk)

    def tearDown(self):
        self.assertEqual(len(self.api.generate(self.api.request(num_inference_steps=1)).images), 1)


if __name__ == "__main__":
    unittest.main()
