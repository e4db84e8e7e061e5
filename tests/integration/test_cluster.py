"""Replicas behind HAProxy: each bucket has its own, and no request is lost when one goes."""

import pathlib
import signal
import subprocess
import tempfile
import threading
import unittest

import server_process
from cluster import NAMES, Balancer, Cluster
from metrics import scrape
from server_process import Api

BUCKETS = ("64x64", "96x64", "64x96", "96x96")
STEPS = 2


class Latent:
    """A `latent generate` that runs; its picture goes to standard output."""

    def __init__(self, address, bucket, seed, *arguments, steps=STEPS):
        width, height = bucket.split("x")
        self.process = subprocess.Popen(
            [server_process.options.latent, "generate", "a red circle on a blue background", f"--server={address}",
             f"--width={width}", f"--height={height}", f"--seed={seed}", f"--num-inference-steps={steps}",
             "--output=-", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def result(self):
        """(exit code, picture, standard error)."""
        picture, error = self.process.communicate(timeout=server_process.DEADLINE)
        return self.process.returncode, picture, error.decode()


class Load:
    """Draws in every bucket, over and over, until it is left; `failures` says what went wrong."""

    def __init__(self, address, expected):
        self.failures = []
        self.drawn = 0
        self._address = address
        self._expected = expected
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._draw, args=(bucket,)) for bucket in BUCKETS]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        for thread in self._threads:
            thread.join(server_process.DEADLINE)

    def _draw(self, bucket):
        while not self._done.is_set():
            for seed in (1, 2):
                code, picture, error = Latent(self._address, bucket, seed).result()
                with self._lock:
                    self.drawn += 1
                    if code != 0 or picture != self._expected[bucket, seed]:
                        self.failures.append((bucket, seed, code, error))


class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.cluster = Cluster(cls.folder, "--threads=1", buckets=",".join(BUCKETS))
        cls.addClassCleanup(cls.cluster.close)
        cls.balancer = cls.cluster.balancer
        cls.expected = {}
        for bucket in BUCKETS:  # drawn by one replica, not through the balancer
            for seed in (1, 2):
                code, picture, error = Latent(cls.cluster.addresses["a"], bucket, seed).result()
                assert code == 0, error
                cls.expected[bucket, seed] = picture

    def setUp(self):
        self.balancer.wait_until_up(*NAMES)

    def counts(self, bucket):
        return {name: self.cluster.pictures(name, bucket) for name in NAMES}

    def draw(self, bucket, count=4, *arguments):
        for _ in range(count):
            code, picture, error = Latent(self.balancer.address, bucket, 1, *arguments).result()
            self.assertEqual(code, 0, error)

    def home_of(self, bucket):
        """The name of the replica that draws the bucket."""
        before = self.counts(bucket)
        self.draw(bucket)
        drawn = self.cluster.home(bucket, before)
        self.assertEqual(sorted(drawn.values()), [0, 0, 4], f"{bucket}: {drawn}")
        return max(drawn, key=drawn.get)

    def restart(self, name):
        self.cluster.launch(name).start()
        self.balancer.wait_until_up(*NAMES)

    def assert_nothing_lost(self, load):
        self.assertEqual(load.failures, [])
        self.assertGreater(load.drawn, 2 * len(BUCKETS))

    def test_each_bucket_has_its_replica(self):
        homes = {bucket: self.home_of(bucket) for bucket in BUCKETS}
        self.assertGreater(len(set(homes.values())), 1)
        # A snapped request is drawn on its bucket's replica.
        before = self.counts("96x64")
        self.draw("72x64", 4, "--bucket-policy=snap")
        self.assertEqual(self.cluster.home("96x64", before)[homes["96x64"]], 4)

    def drawing(self, balancer, bucket, count):
        """How many replicas draw when so many ask for the bucket at the same time."""
        width, height = map(int, bucket.split("x"))
        api = Api(balancer.address)
        self.addCleanup(api.close)
        running = [api.stream(api.request(width=width, height=height, num_inference_steps=150, num_images_per_prompt=16),
                              metadata=[("x-latent-bucket", bucket)]) for _ in range(count)]
        for each in running:
            next(each)
        busy = sum(scrape(replica).sum("latentd_requests_in_flight") > 0 for replica in self.cluster.replicas.values())
        for each in running:
            each.cancel()
        server_process.wait_until(
            lambda: all(scrape(replica).sum("latentd_requests_in_flight") == 0
                        for replica in self.cluster.replicas.values()), "cancelled requests end")
        return busy

    def test_a_bucket_that_everybody_wants_is_drawn_by_more_than_one(self):
        self.assertGreater(self.drawing(self.balancer, "64x64", 3), 1)

    def test_without_a_bound_it_stays_with_its_replica(self):
        unbound = Balancer(self.cluster.addresses.values(), self.folder / "unbound.log",
                           variables={"LATENTD_BALANCE_FACTOR": "0"})
        self.addCleanup(unbound.close)
        unbound.wait_until_up(*NAMES)
        self.assertEqual(self.drawing(unbound, "64x64", 3), 1)

    def test_operators_calls_do_not_pass(self):
        done = subprocess.run([server_process.options.latent, "graphs", "list", f"--server={self.balancer.address}"],
                              capture_output=True, text=True, timeout=server_process.DEADLINE)
        self.assertEqual(done.returncode, 4, done.stderr)

    def test_a_replica_that_drains_gets_nothing_new_and_loses_nothing(self):
        name = self.home_of("64x64")
        replica = self.cluster.replicas[name]
        api = Api(self.cluster.addresses[name])
        self.addCleanup(api.close)
        with Load(self.balancer.address, self.expected) as load:
            self.draw("64x64", 2)
            # Keeps it from stopping before the test has looked; what is queued behind it waits.
            running = api.stream(api.request(num_inference_steps=150, num_images_per_prompt=16, seed=1))
            next(running)
            replica.signal(signal.SIGTERM)
            self.balancer.wait_until_up(*set(NAMES) - {name})
            before = self.cluster.pictures(name, "64x64")
            self.draw("64x64")
            self.assertEqual(self.cluster.pictures(name, "64x64"), before)
            running.cancel()
            self.assertEqual(replica.wait(), 0)
        self.assert_nothing_lost(load)
        self.restart(name)

    def test_a_replica_that_is_killed_is_out_at_once_and_loses_nothing(self):
        name = self.home_of("64x64")
        with Load(self.balancer.address, self.expected) as load:
            self.draw("64x64", 2)
            self.cluster.replicas[name].kill()
            self.assertLess(self.balancer.wait_until_up(*set(NAMES) - {name}), 2)
            self.draw("64x64", 2)
        self.assert_nothing_lost(load)
        self.restart(name)

    def test_a_picture_whose_replica_is_killed_is_drawn_elsewhere(self):
        steps = 150
        other = Latent(self.cluster.addresses["a"], "96x96", 3, steps=steps).result()
        name = self.home_of("96x96")
        running = Latent(self.balancer.address, "96x96", 3, steps=steps)
        for line in running.process.stderr:
            if b"drawing " in line:
                break
        self.cluster.replicas[name].kill()
        code, picture, error = running.result()
        self.assertEqual(code, 0, error)
        self.assertIn("trying again", error)
        self.assertEqual(picture, other[1])
        self.restart(name)


if __name__ == "__main__":
    unittest.main()
