"""The memory that clients can make a server hold is bounded by the process's limit: the kernel ends no server for it."""

import pathlib
import struct
import tempfile
import threading
import unittest
import zlib

import grpc

import video_checkpoint
from control_group import ControlGroup
from metrics import METRICS, scrape
from server_process import DEADLINE, DEMO_BUCKETS, Api, Server

MIB = 1 << 20
SIDE = 3200  # side of a noise image: 29.3 MiB


def stored_png(side):
    """A PNG that is not compressed."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = zlib.compress((b"\0" + bytes(range(256)) * (3 * side // 256) + bytes(3 * side % 256)) * side, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", rows) + chunk(b"IEND", b""))


class Crowd:
    """Clients that call at the same time, each again and again, over one connection or one each; `codes` counts how calls end."""

    def __init__(self, address, clients, request, calls=3, method="Generate", connections=1):
        self.codes = {}
        self._lock = threading.Lock()
        self._path = "/latent.v1.ImageGeneration/" + method
        self._request, self._calls = request, calls
        self._channels = [grpc.insecure_channel(address, options=[("grpc.enable_retries", 0),
                                                                  ("grpc.use_local_subchannel_pool", 1)])
                          for _ in range(connections)]
        self._threads = [threading.Thread(target=self._run, args=(self._channels[number % connections],), daemon=True)
                         for number in range(clients)]
        for thread in self._threads:
            thread.start()

    def _run(self, channel):
        for _ in range(self._calls):
            code = "OK"
            try:
                list(channel.unary_stream(self._path)(self._request, timeout=DEADLINE))
            except grpc.RpcError as error:
                code = error.code().name
            with self._lock:
                self.codes[code] = self.codes.get(code, 0) + 1

    def is_calling(self):
        return any(thread.is_alive() for thread in self._threads)

    def wait(self):
        for thread in self._threads:
            thread.join(DEADLINE)
            assert not thread.is_alive(), "a call does not end"
        for channel in self._channels:
            channel.close()
        return self.codes


class ClientMemoryTest(unittest.TestCase):
    def start(self, limit, *arguments):
        try:
            group = ControlGroup("memory", limit)
        except OSError as error:
            self.skipTest(f"no control group can be made here: {error}")
        self.addCleanup(group.remove)
        server = Server(METRICS, *arguments, buckets=DEMO_BUCKETS, prepare=group.enter)
        self.addCleanup(server.kill)  # before its group
        server.start()
        return server

    def request(self, **fields):
        picture = {"prompt": "x", "width": 256, "height": 256, "num_inference_steps": 1, "strength": 1.0}
        return self.api.request(**{**picture, **fields}).SerializeToString()

    def survives(self, server, *crowds):
        """Whose calls are drawn, or refused as being too much; gRPC says UNAVAILABLE where it ends a connection for it."""
        for crowd in crowds:
            codes = crowd.wait()
            self.assertLessEqual(set(codes), {"OK", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}, codes)
        self.assertIsNone(server.process.poll(), server.log())
        self.assertTrue(self.api.generate(self.api.request(width=256, height=256)).images[0].data)

    def test_init_images_of_a_crowd(self):
        """Guard: received_bytes in server/serve.cc, large_request in server/generation/generation.cc."""
        for method, connections in (("Generate", 1), ("GenerateStream", 24)):
            server = self.start(640 * MIB)
            self.api = Api(server.address)
            self.addCleanup(self.api.close)
            image = self.request(image=stored_png(SIDE))
            self.survives(server, Crowd(server.address, 24, image, method=method, connections=connections))

    def test_an_inflated_request(self):
        """Guard: RefuseCompression in server/server_port.cc."""
        server = self.start(640 * MIB)
        self.api = Api(server.address)
        self.addCleanup(self.api.close)
        channel = grpc.insecure_channel(server.address, compression=grpc.Compression.Gzip,
                                        options=[("grpc.use_local_subchannel_pool", 1),
                                                 ("grpc.max_send_message_length", -1)])
        with self.assertRaises(grpc.RpcError) as caught:
            # 1.2 GiB of one byte, which no field begins with: 1.2 MiB on their way.
            channel.unary_unary("/latent.v1.ImageGeneration/Generate")(bytes(1200 * MIB), timeout=DEADLINE)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED, caught.exception.details())
        channel.close()
        self.survives(server)

    def held(self):
        return {held.kind: held.bytes for held in self.api.call("Admin", "GetMemoryReport").clients}

    def limits(self):
        return {held.kind: held.limit_bytes for held in self.api.call("Admin", "GetMemoryReport").clients}

    def test_what_a_crowd_holds_is_counted_and_let_go(self):
        """Guard: client_memory() in server/grpc_server.cc, TakeRoomForPixels in core/pipeline/units/image_units.cc."""
        server = Server(METRICS, buckets=DEMO_BUCKETS)
        self.addCleanup(server.kill)
        server.start()
        self.api = Api(server.address)
        self.addCleanup(self.api.close)
        image = self.request(image=stored_png(SIDE))
        crowd = Crowd(server.address, 8, image)
        most = self.held()
        while crowd.is_calling():
            most = {kind: max(most[kind], bytes) for kind, bytes in self.held().items()}
        crowd.wait()
        self.assertGreaterEqual(most["received_requests"], len(image))
        self.assertEqual(most["received_requests"] % len(image), 0)
        self.assertEqual(most["read_requests"], len(image))
        self.assertEqual(most["decoded_images"], 3 * 3 * SIDE * SIDE)
        shown = scrape(server)
        for kind, limit in self.limits().items():
            self.assertEqual(shown.sum("latentd_client_memory_limit_bytes", kind=kind), limit)
            self.assertEqual(shown.sum("latentd_client_memory_bytes", kind=kind), 0, kind)

    def test_the_budget_leaves_room_for_files_of_videos(self):
        """Guard: ClientMemoryFor in server/serve.cc."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        checkpoint = video_checkpoint.write_checkpoint(pathlib.Path(folder.name) / "svd")
        budgets = []
        for http in ((), ("--http-listen=127.0.0.1:0",)):
            server = self.start(640 * MIB, f"--video={checkpoint},buckets={video_checkpoint.BUCKET}", *http)
            self.api = Api(server.address)
            self.addCleanup(self.api.close)
            budgets.append(self.api.call("Admin", "GetMemoryReport").budget_bytes)
            self.assertEqual("video_files" in self.limits(), bool(http))
            server.kill()
        without, with_files = budgets
        self.assertAlmostEqual((without - with_files) / MIB, 640 / 8, delta=20)

    def test_the_budget_leaves_what_clients_may_hold(self):
        """Guard: EngineConfig in server/serve.cc."""
        server = self.start(640 * MIB)
        self.api = Api(server.address)
        self.addCleanup(self.api.close)
        report = self.api.call("Admin", "GetMemoryReport")
        # An eighth each for pictures and what is received, the request that is read, and what nothing counts.
        self.assertLess(report.budget_bytes, (640 - 2 * 70 - 32 - 72) * MIB)
        self.assertGreater(report.budget_bytes, (640 - 2 * 80 - 32 - 72 - 80) * MIB)
        limits = self.limits()
        self.assertEqual((limits["read_requests"], limits["log"]), (32 * MIB, 4 * MIB))
        # As much again for pictures, and what is free at the start is the sum; an eighth of it leaves a rest.
        received = limits["received_requests"]
        start = report.budget_bytes + 2 * received + (32 + 4 + 72) * MIB
        self.assertEqual(start // 8, received)


if __name__ == "__main__":
    unittest.main()
