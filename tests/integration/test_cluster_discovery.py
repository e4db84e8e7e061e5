"""HAProxy as it is in a cluster: it finds its replicas by their name, which replicas join and leave."""

import os
import pathlib
import signal
import tempfile
import unittest
import urllib.error
import urllib.request

import server_process
from cluster import Balancer, free_addresses
from metrics import METRICS, scrape
from name_server import NameServer
from server_process import Api, Server

NAME = "latentd-replicas.pictures.svc.cluster.local"
HOSTS = ("127.0.0.2", "127.0.0.3")  # pods have one port, each at an address of its own
BUCKETS = ("64x64", "96x64", "64x96")


class DiscoveryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.port = free_addresses(1)[0].rpartition(":")[2]
        cls.replicas = {}
        for host in HOSTS:
            cls.replicas[host] = Server(METRICS, "--threads=1", f"--admin-listen=unix:{cls.folder / host}.sock",
                                        listen=f"{host}:{cls.port}", buckets=",".join(BUCKETS), cache=cls.folder / host)
            cls.addClassCleanup(cls.replicas[host].kill)
        for replica in cls.replicas.values():
            replica.start()

    def setUp(self):
        self.names = NameServer(NAME)
        self.addCleanup(self.names.close)

    def balancer(self):
        self.health, = free_addresses(1)
        made = Balancer((), self.folder / f"{self.id()}.log", variables={
            "LATENTD_REPLICAS": f"{NAME}:{self.port}", "LATENTD_NAMESERVER": self.names.address,
            "LATENTD_HEALTH": self.health, "LATENTD_DRAIN_TIMEOUT": f"{server_process.DEADLINE}s", "LATENTD_THREADS": "1"})
        self.addCleanup(made.close)
        return made

    def probe(self, path):
        """The status of its answer; None: it does not listen yet."""
        try:
            with urllib.request.urlopen(f"http://{self.health}{path}", timeout=server_process.DEADLINE) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def pictures(self):
        return {host: int(scrape(replica).sum("latentd_images_generated_total")) for host, replica in self.replicas.items()}

    def draw(self, balancer):
        """One picture in each bucket; how many each replica has drawn of them."""
        before = self.pictures()
        api = Api(balancer.address)
        for bucket in BUCKETS:
            width, height = map(int, bucket.split("x"))
            list(api.stream(api.request(width=width, height=height), metadata=[("x-latent-bucket", bucket)]))
        api.close()
        return {host: count - before[host] for host, count in self.pictures().items()}

    def wait_for_replicas(self, balancer, count):
        server_process.wait_until(lambda: len(balancer.up() or ()) == count, f"{count} replicas get calls")

    def test_replicas_join_and_leave(self):
        balancer = self.balancer()
        server_process.wait_until(lambda: self.probe("/healthz") == 200, "the balancer listens")
        self.assertEqual(self.probe("/readyz"), 503)
        self.names.addresses = list(HOSTS[:1])
        self.wait_for_replicas(balancer, 1)
        self.assertEqual(self.probe("/readyz"), 200)
        self.assertEqual(self.draw(balancer), {HOSTS[0]: 3, HOSTS[1]: 0})
        self.names.addresses = list(HOSTS)
        self.wait_for_replicas(balancer, 2)
        self.assertEqual(sum(self.draw(balancer).values()), 3)
        self.names.addresses = list(HOSTS[1:])
        self.wait_for_replicas(balancer, 1)
        self.assertEqual(self.draw(balancer), {HOSTS[0]: 0, HOSTS[1]: 3})

    def test_an_address_where_nobody_answers_gets_no_calls(self):
        self.names.addresses = ["127.0.0.4", *HOSTS]
        balancer = self.balancer()
        self.wait_for_replicas(balancer, 2)
        self.assertEqual(sum(self.draw(balancer).values()), 3)

    def test_a_balancer_that_leaves_ends_with_its_last_call(self):
        self.names.addresses = list(HOSTS)
        balancer = self.balancer()
        self.wait_for_replicas(balancer, 2)
        api = Api(balancer.address)
        self.addCleanup(api.close)
        running = api.stream(api.request(num_inference_steps=100))
        next(running)
        os.kill(balancer.process.pid, signal.SIGUSR1)
        server_process.wait_until(lambda: self.probe("/healthz") is None, "the balancer takes no new connection")
        self.assertIsNone(balancer.process.poll())
        self.assertEqual([event.WhichOneof("event") for event in running][-1], "completed")
        self.assertEqual(balancer.process.wait(server_process.DEADLINE), 0)


if __name__ == "__main__":
    unittest.main()
