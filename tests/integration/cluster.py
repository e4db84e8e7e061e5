"""Three latentd behind HAProxy, with deploy/haproxy/haproxy.cfg as it is."""

import contextlib
import csv
import io
import os
import pathlib
import random
import socket
import subprocess
import time
import urllib.request

from metrics import METRICS, scrape
from server_process import DEADLINE, Server

CONFIGURATION = pathlib.Path(__file__).resolve().parents[2] / "deploy/haproxy/haproxy.cfg"
NAMES = ("a", "b", "c")


def free_addresses(count):
    """Addresses with no listener now; a replica that restarts keeps its own. A bind to any free port gets none of these."""
    first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    addresses = set()
    while len(addresses) < count:
        port = random.randrange(first // 2, first)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            addresses.add(f"127.0.0.1:{port}")
    return list(addresses)


class Balancer:
    """HAProxy in front of the addresses; `configuration` is a file like deploy/haproxy/haproxy.cfg, `variables` what else it
    reads."""

    def __init__(self, replicas, log, configuration=CONFIGURATION, variables=None):
        self.address, self._stats = free_addresses(2)
        environment = {f"LATENTD_{name.upper()}": address for name, address in zip(NAMES, replicas)}
        self._log = open(log, "w")
        self.process = subprocess.Popen(
            ["haproxy", "-db", "-f", configuration], stdout=self._log, stderr=self._log,
            env={**os.environ, **environment, **(variables or {}), "LATENTD_LISTEN": self.address, "LATENTD_STATS": self._stats})

    def page(self, path):
        with urllib.request.urlopen(f"http://{self._stats}{path}", timeout=DEADLINE) as response:
            return response.read().decode()

    def up(self, backend="replicas"):
        """Names of the replicas that get calls; none of them as long as it does not listen."""
        try:
            rows = csv.DictReader(io.StringIO(self.page("/;csv").removeprefix("# ")))
        except OSError:
            return None
        return {row["svname"] for row in rows if row["pxname"] == backend and row["status"].startswith("UP")
                and row["svname"] != "BACKEND"}

    def wait_until_up(self, *names):
        """Until these and no others get calls; the seconds that it took."""
        start = time.monotonic()
        while (up := self.up()) != set(names):
            if time.monotonic() - start > DEADLINE:
                raise AssertionError(f"HAProxy has {up} instead of {set(names)}")
            time.sleep(0.01)
        return time.monotonic() - start

    def close(self):
        self.process.terminate()
        self.process.wait(DEADLINE)
        self._log.close()


class Cluster:
    """`replicas`: the servers by name; their caches are folders of their own below `folder`. `tls`: the balancer's."""

    def __init__(self, folder, *arguments, configuration=CONFIGURATION, tls=None, **named):
        self._folder = folder
        self._arguments = arguments
        self._named = named
        self.addresses = dict(zip(NAMES, free_addresses(len(NAMES))))
        self.replicas = {}
        self.balancer = None
        try:
            for name in NAMES:
                self.launch(name)
            for replica in self.replicas.values():
                replica.start()
            self.balancer = Balancer(self.addresses.values(), folder / "haproxy.log", configuration, tls)
            self.balancer.wait_until_up(*NAMES)
        except BaseException:
            self.close()
            raise

    def launch(self, name, *arguments):
        """Starts the replica, again if need be; does not wait until it is ready."""
        if name in self.replicas:
            self.replicas[name].kill()
        self.replicas[name] = Server(METRICS, *self._arguments, *arguments, listen=self.addresses[name],
                                     cache=self._folder / name, **self._named)
        return self.replicas[name]

    def pictures(self, name, bucket):
        """How many the replica has finished in the bucket."""
        return int(scrape(self.replicas[name]).sum("latentd_images_generated_total", bucket=bucket))

    def home(self, bucket, before):
        """The number of the bucket's pictures that each replica has drawn since `before`."""
        return {name: self.pictures(name, bucket) - before[name] for name in NAMES}

    def close(self):
        if self.balancer:
            self.balancer.close()
        for replica in self.replicas.values():
            replica.kill()
