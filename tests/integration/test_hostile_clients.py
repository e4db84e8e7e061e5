"""Clients that mean harm: others hardly notice, and when they leave everything goes back."""

import contextlib
import os
import pathlib
import resource
import statistics
import tempfile
import time
import unittest

import grpc

import server_process
from certificates import Authority
from hostile_clients import Crawlers, Garbage, allow_descriptors, connect, hello, not_reading, silent
from metrics import METRICS, Scrape, metrics_address
from server_process import Api, Server

GENERATE = "/latent.v1.ImageGeneration/GenerateStream"
HANDSHAKE_SECONDS = 20  # server_port.cc

SILENT, GARBAGE, NOT_READING = 1000, 100, 50
FEW = 50  # descriptors of a server that has one client


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def resident_bytes(server):
    for line in pathlib.Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmRSS")


def wait_until(condition, what):
    end = time.monotonic() + server_process.DEADLINE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def is_closed(connection):
    """Whether the server closes it within the time that it has; what it says before is read."""
    connection.settimeout(server_process.DEADLINE)
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(4096):
            pass
    return True


class HostileClientsTest(unittest.TestCase):
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

    def draw_as_a_newcomer(self, server):
        wait_until(lambda: descriptors(server) < FEW, "connections of those who left stay open")
        self.draw(self.client(server))

    def p99(self, api, pictures=40):
        seconds = []
        for _ in range(pictures):
            start = time.monotonic()
            self.draw(api)
            seconds.append(time.monotonic() - start)
        return statistics.quantiles(seconds, n=100, method="inclusive")[98]

    def drawn(self, server):
        return Scrape(metrics_address(server)).sum("latentd_images_generated_total")

    @contextlib.contextmanager
    def crowd(self, server, api):
        """All of them at once, and their pictures drawn."""
        picture = api.request(num_inference_steps=1).SerializeToString()
        drawn = self.drawn(server)
        with contextlib.ExitStack() as everybody:
            everybody.enter_context(silent(server.address, SILENT // 2))
            everybody.enter_context(silent(server.address, SILENT // 2, hello()))
            everybody.enter_context(not_reading(server.address, NOT_READING, GENERATE, picture))
            everybody.enter_context(Garbage(server.address, GARBAGE))
            wait_until(lambda: self.drawn(server) == drawn + NOT_READING, "the pictures of the crowd are not drawn")
            yield

    def test_others_hardly_notice(self):
        server = self.start(METRICS)
        api = self.client(server)
        self.p99(api)  # the first pictures take longer
        with self.crowd(server, api):  # what the process keeps of it, such as threads' stacks, it keeps once
            pass
        wait_until(lambda: descriptors(server) < FEW, "connections of those who left stay open")
        descriptors_before, bytes_before = descriptors(server), resident_bytes(server)
        quiet, crowded = [], []
        # Round by round, and the best of each, since the machine has other things to do too.
        for _ in range(4):
            quiet.append(self.p99(api))
            with self.crowd(server, api):
                self.assertGreaterEqual(descriptors(server), descriptors_before + SILENT)
                crowded.append(self.p99(api))
                self.assertLess(resident_bytes(server) - bytes_before, 64 << 20)
            wait_until(lambda: descriptors(server) <= descriptors_before, "connections of those who left stay open")
        kept = resident_bytes(server) - bytes_before
        print(f"p99 of a picture: {[round(s * 1000) for s in quiet]} ms, in the crowd "
              f"{[round(s * 1000) for s in crowded]} ms; {kept >> 10} KiB more than before")
        self.assertLess(min(crowded), 1.5 * min(quiet))
        self.assertLess(kept, 32 << 20)
        self.assertEqual(server.stop(), 0, server.log())

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
            wait_until(lambda: descriptors(server) >= 100, "connections are taken")
            self.draw(api)  # who was there before stays
            self.assertLess(descriptors(server), 200)
        self.draw_as_a_newcomer(server)

    def test_fewer_files_than_connections(self):
        server = self.start(prepare=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
        server.wait_for_log(lambda entry: entry["message"].startswith("takes 128 connections instead of 4096"))
        with silent(server.address, 400):
            wait_until(lambda: descriptors(server) >= 128, "connections are taken")
            self.assertLess(descriptors(server), 256)
        self.draw_as_a_newcomer(server)

    def test_handshakes_take_their_time(self):
        with tempfile.TemporaryDirectory() as folder:
            authority = Authority(pathlib.Path(folder), "authority")
            shown = authority.issue("server")
            server = self.start(f"--tls-cert={shown.certificate}", f"--tls-key={shown.key}")
            api = self.client(server, grpc.ssl_channel_credentials(authority.pem.read_bytes()))
            start = time.monotonic()
            with Crawlers(server.address, 50) as crawlers, connect(server.address) as quiet:
                self.draw(api)
                for connection in (*crawlers.connections, quiet):
                    self.assertTrue(is_closed(connection))
                waited = time.monotonic() - start
                self.assertGreater(waited, HANDSHAKE_SECONDS / 2)
                self.assertLess(waited, 4 * HANDSHAKE_SECONDS)  # gRPC's own limit is six times as long
                self.draw(self.client(server, grpc.ssl_channel_credentials(authority.pem.read_bytes())))


if __name__ == "__main__":
    unittest.main()
