"""Clients that mean harm: others are served, what they can hold is bounded, and when they leave everything goes back."""

import contextlib
import pathlib
import resource
import subprocess
import tempfile
import time
import unittest

import grpc

import server_process
from certificates import Authority
from hoarders import Hoarders
from hostile_clients import (CRAWLING, NOT_READING, SILENT, Crawlers, allow_descriptors, connect, crowd, envelope, hello,
                             not_reading, silent)
from metrics import METRICS, scrape
from server_process import Api, Server, wait_until

GENERATE = "/latent.v1.ImageGeneration/GenerateStream"
HANDSHAKE_SECONDS = 20  # server_port.cc

FEW = 50  # descriptors of a server that has one client
MIB = 1 << 20
MAX_REQUEST = 32 * MIB  # --max-request-bytes
TRANSPORT = 256 * MIB  # client_memory.cc, where the machine has 2 GiB: what a port's connections may have under way
SLACK = 64 * MIB  # part of the process's size: malloc's spare memory, and threads' stacks


def drawn(server):
    return scrape(server).sum("latentd_images_generated_total")


def is_closed(connection):
    """True if the server closes it within its time limit; bytes before that are read."""
    connection.settimeout(server_process.DEADLINE)
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(4096):
            pass
    return True


class HostileClientsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        authority = Authority(pathlib.Path(folder.name), "authority")
        shown = authority.issue("server")
        cls.tls = [f"--tls-cert={shown.certificate}", f"--tls-key={shown.key}"]
        cls.believing = grpc.ssl_channel_credentials(authority.pem.read_bytes())

    def start(self, *arguments, **options):
        allow_descriptors(4096)
        server = Server(*arguments, **options).start()
        self.addCleanup(server.kill)
        return server

    def client(self, server, credentials=None):
        api = Api(server.address, credentials)
        self.addCleanup(api.close)
        return api

    def draw(self, api):
        self.assertEqual(len(api.generate(api.request(num_inference_steps=1)).images), 1)

    def latent_draws(self, server):
        """With its retries: gRPC takes memory back from the next call."""
        done = subprocess.run([server_process.options.latent, "generate", "a star", f"--server={server.address}",
                               "--width=64", "--height=64", "--num-inference-steps=1", "--format=png", "--output=-"],
                              capture_output=True, timeout=server_process.DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr)

    def draw_as_a_newcomer(self, server, credentials=None):
        wait_until(lambda: server.descriptors() < FEW, "connections of those who left stay open")
        self.draw(self.client(server, credentials))

    def everything_goes_back(self, server, bytes_before):
        wait_until(lambda: server.descriptors() < FEW, "connections of those who left stay open")
        wait_until(lambda: server.resident_bytes() < bytes_before + SLACK, "memory of those who left stays")

    def a_crowd_comes_and_goes(self, server, credentials=None):
        api = self.client(server, credentials)
        self.draw(api)
        bytes_before = server.resident_bytes()
        picture = api.request(num_inference_steps=1).SerializeToString()
        for _ in range(2):
            before = drawn(server)
            with crowd(server.address, GENERATE, picture, tls=credentials is not None):
                wait_until(lambda: drawn(server) >= before + NOT_READING, "the pictures of the crowd are not drawn")
                self.assertGreater(server.descriptors(), SILENT)
                for _ in range(50):
                    self.draw(api)
                self.assertLess(server.resident_bytes(), bytes_before + TRANSPORT)
            self.everything_goes_back(server, bytes_before)
        self.draw_as_a_newcomer(server, credentials)
        self.assertEqual(server.stop(), 0, server.log())

    def test_a_crowd_in_plain_text(self):
        self.a_crowd_comes_and_goes(self.start(METRICS))

    def test_a_crowd_with_tls(self):
        self.a_crowd_comes_and_goes(self.start(METRICS, *self.tls), self.believing)

    def test_requests_that_never_end_hold_no_more_than_their_share(self):
        server = self.start()
        api = self.client(server)
        self.draw(api)
        bytes_before = server.resident_bytes()
        wanted = envelope(MAX_REQUEST - 1) + bytes(MAX_REQUEST - MIB)
        with Hoarders(server.address, 64, "/latent.v1.ImageGeneration/Generate", wanted, calls=4) as hoarders:
            wait_until(lambda: hoarders.sent() > 2 * TRANSPORT, "more is not taken than may be held")
            for _ in range(10):
                self.assertLess(server.resident_bytes(), bytes_before + TRANSPORT + SLACK)
                self.latent_draws(server)
        self.everything_goes_back(server, bytes_before)
        self.draw_as_a_newcomer(server)

    def test_calls_that_wait_go_back_too(self):
        server = self.start()
        self.draw(self.client(server))
        bytes_before = server.resident_bytes()
        with Hoarders(server.address, 50, "/grpc.health.v1.Health/Watch", envelope(0), calls=256) as hoarders:
            wait_until(lambda: hoarders.sent() == 50 * 256 * len(envelope(0)), "calls are not taken")
            self.latent_draws(server)
            self.assertLess(server.resident_bytes(), bytes_before + TRANSPORT + SLACK)
        self.everything_goes_back(server, bytes_before)
        self.draw_as_a_newcomer(server)

    def test_who_does_not_read_is_cancelled(self):
        server = self.start("--stall-timeout=2s")
        api = self.client(server)
        picture = api.request(num_inference_steps=1, request_id="not-read").SerializeToString()
        with not_reading(server.address, 1, GENERATE, picture):
            self.assertEqual(server.request_line("not-read")["code"], "CANCELLED")
        self.draw(api)

    def test_more_connections_than_are_taken(self):
        server = self.start("--max-connections=100")
        api = self.client(server)
        self.draw(api)
        with silent(server.address, 400, hello()):
            wait_until(lambda: server.descriptors() >= 100, "connections are taken")
            self.draw(api)  # an earlier client stays
            self.assertLess(server.descriptors(), 200)
        self.draw_as_a_newcomer(server)

    def test_fewer_files_than_connections(self):
        server = self.start(prepare=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
        server.wait_for_log(lambda entry: entry["message"].startswith("takes 128 connections instead of 4096"))
        with silent(server.address, 400):
            wait_until(lambda: server.descriptors() >= 128, "connections are taken")
            self.assertLess(server.descriptors(), 256)
        self.draw_as_a_newcomer(server)

    def test_handshakes_take_their_time(self):
        server = self.start(*self.tls)
        api = self.client(server, self.believing)
        start = time.monotonic()
        with Crawlers(server.address, CRAWLING) as crawlers, connect(server.address) as quiet:
            self.draw(api)
            for connection in (*crawlers.connections, quiet):
                self.assertTrue(is_closed(connection))
            waited = time.monotonic() - start
            self.assertGreater(waited, HANDSHAKE_SECONDS / 2)
            self.assertLess(waited, 4 * HANDSHAKE_SECONDS)  # gRPC's own limit is six times as long
            self.draw(self.client(server, self.believing))


if __name__ == "__main__":
    unittest.main()
