"""After any damage to the cache directory, the server starts, serves right images, and logs the damage."""

import ctypes
import os
import pathlib
import random
import resource
import shutil
import tempfile
import time
import types
import unittest

import png
from metrics import METRICS, compilations, scrape
from server_process import DEADLINE, Api, Server, checkpoint

KILLS = 10
NOBODY = 65534

# linux/prctl.h, linux/capability.h
PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
LIBC = ctypes.CDLL(None, use_errno=True)


def pixels(picture):
    return png.read(picture)[2]


class CacheDamageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        os.chmod(self.folder, 0o755)
        self.cache = self.folder / "cache"

    def start(self, *arguments, cache=None, **named):
        server = Server(METRICS, *arguments, cache=cache or self.cache, **named).start()
        self.addCleanup(server.kill)
        return server

    def draw(self, server, **fields):
        api = Api(server.address)
        try:
            return api.generate(api.request(**fields)).images[0].data
        finally:
            api.close()

    def files(self):
        return sorted(path for path in self.cache.rglob("*.latent") if "quarantine" not in path.parts)

    def kill_once_there_are(self, files):
        """Kills a server, which found no cache, when it has begun to write that many files; how many graphs are whole."""
        shutil.rmtree(self.cache, ignore_errors=True)
        server = Server(cache=self.cache)
        self.addCleanup(server.kill)
        end = time.monotonic() + DEADLINE
        while sum(path.suffix in (".latent", ".tmp") for path in self.cache.rglob("*")) < files:
            self.assertLess(time.monotonic(), end, f"{files} files were never written")
        server.kill()
        return len(list((self.cache / "artifacts").glob("*.latent")))

    def check_what_a_kill_left(self, graphs, expected):
        """`graphs` of expected.graphs are on disk: all are used, and everything else is made as if they had never been."""
        server = self.start()
        self.assertEqual(self.draw(server), expected.picture)
        self.assertEqual(compilations(server), expected.graphs - graphs)
        self.assertEqual(scrape(server).sum("latentd_graph_cache_load_failures_total"), 0)
        api = Api(server.address)
        results = api.call("GraphCache", "VerifyGraphs", selector={"all": True}).results
        api.close()
        self.assertEqual(len(results), expected.graphs)
        self.assertFalse([result for result in results if result.HasField("error")])
        server.stop()
        self.assertEqual(sorted(path.name for path in self.files()), expected.files)
        self.assertEqual({path for path in self.cache.rglob("*") if path.is_file() and path.suffix != ".latent"},
                         {self.cache / "lock", self.cache / "key-locks"})
        self.assertEqual(list((self.cache / "quarantine").glob("*")), [])

    def test_every_kill_leaves_whole_files(self):
        """Guard: TemporaryFile::Finish and Publish (core/cache/cache_directory.cc): whole under its name, or not there."""
        server = self.start()
        picture, graphs = self.draw(server), compilations(server)
        server.stop()
        files = sorted(path.name for path in self.files())
        expected = types.SimpleNamespace(picture=picture, graphs=graphs, files=files)
        for kill in range(KILLS):
            wanted = 1 + kill * (len(files) - 1) // (KILLS - 1)
            with self.subTest(files=wanted):
                self.check_what_a_kill_left(self.kill_once_there_are(wanted), expected)

    def test_a_damaged_file_is_set_aside_and_made_again(self):
        """Guard: the checksums in core/cache/entry_file.cc."""
        server = self.start()
        expected = self.draw(server)
        server.stop()
        victims = self.files()
        self.assertTrue(victims)
        chance = random.Random(5)
        for path in victims:
            data = bytearray(path.read_bytes())
            kind = chance.randrange(3)
            if kind == 0:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            path.write_bytes(data if kind == 0 else data[:chance.randrange(len(data))] if kind == 1 else data + b"x")
        server = self.start()
        self.assertEqual(self.draw(server), expected)
        self.assertGreater(scrape(server).sum("latentd_graph_cache_load_failures_total", reason="corrupt"), 0)
        self.assertTrue(list((self.cache / "quarantine").iterdir()))
        server.stop()
        again = self.start()
        self.assertEqual(compilations(again), 0)
        self.assertEqual(scrape(again).sum("latentd_graph_cache_load_failures_total", reason="corrupt"), 0)

    def test_what_cannot_be_read_is_said_once_and_made_again(self):
        """Directories, pipes and unreadable files in the place of entries. Guard: OpenFile in core/cache/disk_cache.cc."""
        server = self.start()
        expected = self.draw(server)
        server.stop()
        makers = [lambda path: (path / "of others").mkdir(parents=True), os.mkfifo,
                  lambda path: path.touch(mode=0)]
        victims = [path for path in self.files() if path.parent.name == "artifacts"][:len(makers)]
        self.assertEqual(len(victims), len(makers))
        for path, make in zip(victims, makers):
            path.unlink()
            make(path)
        server = self.start(prepare=obey_permissions)
        self.assertEqual(compilations(server), len(makers))
        self.assertEqual(self.draw(server), expected)
        for path in victims:
            self.assertEqual(sum(str(path) in line for line in server.lines), 1, server.log())
            self.assertTrue(path.is_file())
        server.stop()
        again = self.start(prepare=obey_permissions)
        self.assertEqual(compilations(again), 0)
        self.assertFalse([line for line in again.lines if "warning" in line], again.log())

    def test_a_full_disk(self):
        def no_room():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        server = self.start(prepare=no_room)
        self.assertTrue(self.draw(server))
        self.assertGreater(scrape(server).sum("latentd_graph_cache_write_failures_total", reason="no_space"), 0)
        server.stop()
        self.assertGreater(compilations(self.start()), 0)

    def test_a_directory_that_cannot_be_written(self):
        server = self.start()
        expected = self.draw(server)
        server.stop()
        for path in [self.cache, *self.cache.rglob("*")]:
            os.chmod(path, 0o555 if path.is_dir() else 0o444)
        server = self.start(prepare=obey_permissions)
        self.assertEqual(compilations(server), 0)  # files there are used
        self.assertEqual(self.draw(server), expected)
        other = self.start("--skip-passes=epilogues", prepare=obey_permissions)
        self.assertTrue(self.draw(other))
        self.assertGreater(scrape(other).sum("latentd_graph_cache_write_failures_total", reason="read_only"), 0)
        for path in [self.cache, *self.cache.rglob("*")]:
            os.chmod(path, 0o755 if path.is_dir() else 0o644)

    def test_a_directory_of_somebody_else(self):
        self.cache.mkdir()
        os.chmod(self.cache, 0o700 if os.geteuid() == 0 else 0o000)
        if os.geteuid() == 0:
            os.chown(self.cache, NOBODY, NOBODY)
        server = self.start(prepare=obey_permissions)
        self.assertTrue(self.draw(server))
        self.assertIn(str(self.cache), server.log())
        self.assertGreater(scrape(server).sum("latentd_graph_cache_write_failures_total", reason="read_only"), 0)
        os.chmod(self.cache, 0o755)

    def test_two_servers_on_one_directory(self):
        servers = [Server(METRICS, cache=self.cache) for _ in range(2)]
        for server in servers:
            self.addCleanup(server.kill)
        first, second = (self.draw(server.start()) for server in servers)
        self.assertEqual(first, second)
        for server in servers:
            self.assertEqual(scrape(server).sum("latentd_graph_cache_load_failures_total"), 0)
            server.stop()
        self.assertEqual(compilations(self.start()), 0)

    def test_two_checkpoints_with_one_config_share_graphs_and_nothing_else(self):
        """Guard: ContentDigest in InstanceCache::InstanceOf, and the digests in the
        key of a packed weight (core/weights/weight_store.cc)."""
        other = self.folder / "other"
        shutil.copytree(checkpoint(), other)
        weights = next((other / "base" / "unet").glob("*.safetensors"))
        data = bytearray(weights.read_bytes())
        data[-2000:] = bytes(2000)  # the end of the last tensor
        weights.write_bytes(data)
        arguments = (f"--base={other / 'base'}", f"--refiner={other / 'refiner'}")
        alone = self.draw(self.start(*arguments, demo=False, cache=self.folder / "alone"))
        first = self.start()
        demo = self.draw(first)
        second = self.start(*arguments, demo=False)
        self.assertEqual(compilations(second), 0)
        self.assertEqual(self.draw(second), alone)
        self.assertNotEqual(pixels(alone), pixels(demo))
        self.assertEqual(self.draw(self.start()), demo)

    def test_two_instruction_sets_share_nothing_that_they_may_not(self):
        """Guard: OneDnnInstructionSet in CpuBackend::Fingerprint, and the form of packed
        weights."""
        lesser = "AVX2" if "avx512f" in pathlib.Path("/proc/cpuinfo").read_text() else "SSE41"
        capped = {"DNNL_MAX_CPU_ISA": lesser, "ONEDNN_MAX_CPU_ISA": lesser}
        alone = self.draw(self.start(environment=capped, cache=self.folder / "alone"))
        first = self.start()
        best = self.draw(first)
        second = self.start(environment=capped)
        self.assertGreater(compilations(second), 0)
        self.assertEqual(self.draw(second), alone)
        for environment, expected in ((None, best), (capped, alone)):
            again = self.start(environment=environment)
            self.assertEqual(compilations(again), 0)
            self.assertEqual(self.draw(again), expected)


def obey_permissions():
    """Makes root obey file permissions like other users, from the next program on."""
    if os.geteuid() == 0:
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            if LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    unittest.main()
