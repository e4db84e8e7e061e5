"""Replicas behind HAProxy with TLS on both sides, and certificates of clients on both."""

import pathlib
import subprocess
import tempfile
import unittest

import server_process
from certificates import Authority
from cluster import NAMES, Balancer, Cluster

BUCKETS = ("64x64", "96x64", "64x96")


def with_key(certificate):
    """The file that HAProxy reads: both in one."""
    path = certificate.certificate.with_suffix(".both")
    path.write_bytes(certificate.certificate.read_bytes() + certificate.key.read_bytes())
    return str(path)


class TlsClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.balancers, cls.servers, cls.clients = (
            Authority(cls.folder, name) for name in ("balancers", "servers", "clients"))
        cls.client = cls.clients.issue("client")
        replica = cls.servers.issue("replica")
        cls.tls = {"LATENTD_TLS_CERT": with_key(cls.balancers.issue("balancer")),
                   "LATENTD_TLS_CLIENT_CA": str(cls.clients.pem),
                   "LATENTD_REPLICA_CA": str(cls.servers.pem), "LATENTD_REPLICA_NAME": "localhost",
                   "LATENTD_REPLICA_CERT": with_key(cls.balancers.issue("balancer-as-a-client"))}
        cls.cluster = Cluster(cls.folder, "--threads=1", f"--tls-cert={replica.certificate}", f"--tls-key={replica.key}",
                              f"--tls-client-ca={cls.balancers.pem}", buckets=",".join(BUCKETS), tls=cls.tls)
        cls.addClassCleanup(cls.cluster.close)
        cls.believing = [f"--tls-ca={cls.balancers.pem}"]
        cls.known = [*cls.believing, f"--tls-cert={cls.client.certificate}", f"--tls-key={cls.client.key}"]

    def draw(self, bucket, *flags, address=None):
        """(exit code, picture, standard error)."""
        width, height = bucket.split("x")
        done = subprocess.run(
            [server_process.options.latent, "generate", "a red circle on a blue background", "--seed=1", "--output=-",
             f"--server={address or self.cluster.balancer.address}", f"--width={width}", f"--height={height}",
             "--num-inference-steps=2", "--timeout=60s", *flags], capture_output=True, timeout=server_process.DEADLINE)
        return done.returncode, done.stdout, done.stderr.decode()

    def test_each_bucket_has_its_replica(self):
        homes = set()
        for bucket in BUCKETS:
            before = {name: self.cluster.pictures(name, bucket) for name in NAMES}
            pictures = set()
            for _ in range(3):
                code, picture, error = self.draw(bucket, *self.known)
                self.assertEqual(code, 0, error)
                pictures.add(picture)
            drawn = self.cluster.home(bucket, before)
            self.assertEqual(sorted(drawn.values()), [0, 0, 3], f"{bucket}: {drawn}")
            self.assertEqual(len(pictures), 1)
            homes.add(max(drawn, key=drawn.get))
        self.assertGreater(len(homes), 1)

    def test_strangers_do_not_get_through(self):
        code, _, error = self.draw("64x64", *self.believing)
        self.assertEqual(code, 3, error)
        code, _, error = self.draw("64x64")
        self.assertEqual(code, 3, error)
        self.assertIn("speaks TLS: give --tls", error)
        # Nor past the balancer: a replica knows its balancers only.
        flags = [f"--tls-ca={self.servers.pem}", *self.known[1:]]
        code, _, error = self.draw("64x64", *flags, address=self.cluster.addresses["a"])
        self.assertEqual(code, 4, error)
        self.assertIn("CN=client", error)

    def test_replicas_that_are_not_believed_get_nothing(self):
        self.cluster.balancer.wait_until_up(*NAMES)
        for wrong in ({"LATENTD_REPLICA_CA": str(self.clients.pem)}, {"LATENTD_REPLICA_NAME": "example.org"},
                      {"LATENTD_REPLICA_CERT": with_key(self.client)}):
            with self.subTest(wrong=wrong):
                balancer = self.balancer({**self.tls, **wrong})
                balancer.wait_until_up()
                code, _, error = self.draw("64x64", "--retries=0", *self.known, address=balancer.address)
                self.assertEqual(code, 3, error)

    def test_clients_need_a_certificate_only_where_there_is_an_authority(self):
        balancer = self.balancer({name: value for name, value in self.tls.items() if name != "LATENTD_TLS_CLIENT_CA"})
        balancer.wait_until_up(*NAMES)
        code, _, error = self.draw("64x64", *self.believing, address=balancer.address)
        self.assertEqual(code, 0, error)

    def balancer(self, tls):
        another = Balancer(self.cluster.addresses.values(), self.folder / "another.log", variables=tls)
        self.addCleanup(another.close)
        return another

    def test_a_replica_that_is_killed_is_out_at_once(self):
        balancer = self.cluster.balancer
        self.cluster.replicas["b"].kill()
        balancer.wait_until_up("a", "c")
        for bucket in BUCKETS:
            code, _, error = self.draw(bucket, *self.known)
            self.assertEqual(code, 0, error)
        self.cluster.launch("b").start()
        balancer.wait_until_up(*NAMES)


if __name__ == "__main__":
    unittest.main()
