#!/usr/bin/env python3
"""Three replicas of the demo model behind HAProxy, under steady load. README.md beside this says what each mode shows."""
import argparse
import dataclasses
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
import run  # noqa: E402

sys.path.insert(0, str(run.install_client()))
os.environ["PATH"] = os.pathsep.join([str(run.PROGRAMS / "sbin"), os.environ["PATH"]])
os.environ["no_proxy"] = "*"
import cluster  # noqa: E402
import server_process  # noqa: E402
from cluster import NAMES, Cluster  # noqa: E402
from metrics import METRICS, compilations, scrape  # noqa: E402
from server_process import Api, Server  # noqa: E402

MIXED = ("64x64", "96x64", "64x96", "128x128", "256x256")
TEN = ("128x128", "160x128", "128x160", "160x160", "192x128", "128x192", "192x160", "160x192", "192x192", "224x128")
HELD = 4  # number of TEN that a replica's budget holds
SEEDS = range(1, 5)
STEPS = 4
# The base alone, as one model that is served.
BASE_ONLY = ("--rows=2", "--components=vae_encoder=off")


@dataclasses.dataclass
class Outcome:
    """Outcome of one request: its number in the list, and how it went."""

    request: int
    seconds: float
    retries: int
    code: int
    digest: str


class Load:
    """cluster_load while it runs; what it says of retries and losses goes to `log`."""

    def __init__(self, options, address, requests, seconds, log):
        lines = [" ".join(f"{name}: {json.dumps(value)}" for name, value in request.items()) for request in requests]
        self._log = open(log, "a")
        self._output = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen([options.load, address, str(seconds), str(options.workers)], text=True,
                                         stdin=subprocess.PIPE, stdout=self._output, stderr=self._log)
        self._process.stdin.write("\n".join(lines) + "\n")
        self._process.stdin.close()

    def outcomes(self):
        if self._process.wait() != 0:
            sys.exit(f"cluster: cluster_load ended with {self._process.returncode}; see {self._log.name}")
        self._log.close()
        self._output.seek(0)
        fields = (line.split() for line in self._output)
        return [Outcome(int(number), float(seconds), int(retries), int(code), digest)
                for number, seconds, retries, code, digest in fields]


def requests_of(buckets):
    """Every bucket with every seed, in an order without order."""
    requests = []
    for seed, bucket in itertools.product(SEEDS, buckets):
        width, height = map(int, bucket.split("x"))
        requests.append({"prompt": "a red circle on a blue background", "width": width, "height": height, "seed": seed,
                         "num_inference_steps": STEPS})
    random.Random(7).shuffle(requests)
    return requests


def percentile(outcomes, share):
    seconds = sorted(outcome.seconds for outcome in outcomes)
    return seconds[min(len(seconds) - 1, int(share * len(seconds)))]


def table(rows):
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(str(cell).ljust(width) if i == 0 else str(cell).rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))))


def say(text):
    print(text, flush=True)


class RollOver:
    """Replaces each replica twice while the load goes on."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.cluster = Cluster(folder, "--threads=1", "--forbid-compile-after-ready", buckets=",".join(MIXED))
        self.at_ready = {name: compilations(self.cluster.replicas[name]) for name in NAMES}
        self.late_compilations = 0
        self.restart_compilations = 0

    def count_late(self, name):
        self.late_compilations += compilations(self.cluster.replicas[name]) - self.at_ready[name]

    def leave(self, name, how):
        """Seconds until the balancer sends nothing more there."""
        replica = self.cluster.replicas[name]
        others = set(NAMES) - {name}
        if how == "kill -9":
            replica.kill()
            return self.cluster.balancer.wait_until_up(*others)
        replica.signal(signal.SIGTERM)
        seconds = self.cluster.balancer.wait_until_up(*others)
        if replica.wait() != 0:
            sys.exit(f"cluster: {name} ended with {replica.process.returncode}: {replica.log()}")
        return seconds

    def replace(self, name, how):
        self.count_late(name)
        out = self.leave(name, how)
        start = time.monotonic()
        replica = self.cluster.launch(name).start()
        ready = time.monotonic() - start
        self.at_ready[name] = compilations(replica)
        self.restart_compilations += self.at_ready[name]
        back = ready + self.cluster.balancer.wait_until_up(*NAMES)
        say(f"  {how:7} {name}: out after {out:.2f} s, READY {ready:.1f} s after its start, in again after {back:.1f} s")

    def run(self):
        requests = requests_of(MIXED)
        log = self.folder / "load.log"
        right = {outcome.request: outcome.digest for outcome in
                 Load(self.options, self.cluster.addresses["a"], requests, 0, log).outcomes()}
        seconds = self.options.seconds
        say(f"{seconds:g} s, {self.options.workers} clients, buckets {', '.join(MIXED)}")
        load = Load(self.options, self.cluster.balancer.address, requests, seconds, log)
        start = time.monotonic()
        changes = list(itertools.product(("SIGTERM", "kill -9"), NAMES))
        for number, (how, name) in enumerate(changes, 1):
            time.sleep(max(0.0, start + number * seconds / (len(changes) + 1) - time.monotonic()))
            self.replace(name, how)
        outcomes = load.outcomes()
        for name in NAMES:
            self.count_late(name)
        return self.report(outcomes, right)

    def report(self, outcomes, right):
        lost = [outcome for outcome in outcomes if outcome.code != 0]
        other = [outcome for outcome in outcomes if outcome.code == 0 and outcome.digest != right[outcome.request]]
        table([("requests", len(outcomes)), ("lost to the client", len(lost)),
               ("tried again", sum(outcome.retries > 0 for outcome in outcomes)),
               ("compilations after READY", self.late_compilations),
               ("compilations of the six restarts", self.restart_compilations),
               ("pictures other than their seed's", len(other)),
               ("p50", f"{percentile(outcomes, 0.5):.3f} s"), ("p99", f"{percentile(outcomes, 0.99):.3f} s"),
               ("longest", f"{max(outcome.seconds for outcome in outcomes):.3f} s")])
        return not (lost or other or self.late_compilations or self.restart_compilations)


def roll_over(options, folder):
    rolling = RollOver(options, folder)
    try:
        return rolling.run()
    finally:
        rolling.cluster.close()


def server_arguments():
    return ["--threads=1", f"--base={server_process.checkpoint() / 'base'}", *BASE_ONLY]


def budget_of_four(folder):
    """Bytes of the graphs that have no bucket and of the four largest buckets'; fills a cache on the way."""
    server = Server(*server_arguments(), demo=False, buckets=",".join(TEN), cache=folder / "a").start()
    api = Api(server.address)
    sizes = {}
    for graph in api.graphs():
        bucket = f"{graph.bucket.width}x{graph.bucket.height}" if graph.HasField("bucket") else ""
        sizes[bucket] = sizes.get(bucket, 0) + graph.device_bytes
    api.close()
    server.stop()
    server.kill()
    common = sizes.pop("", 0)
    return common + sum(sorted(sizes.values())[-HELD:])


def balancings(folder):
    """Names of the balancings that are compared, each with the balancer's configuration."""
    text = cluster.CONFIGURATION.read_text()
    by_bucket, bound = "  balance hdr(x-latent-bucket)\n", '  hash-balance-factor "${LATENTD_BALANCE_FACTOR-150}"\n'
    if by_bucket not in text or bound not in text:
        sys.exit(f"cluster: {cluster.CONFIGURATION} does not balance as it did")
    unbound = text.replace(bound, "")
    texts = {"by bucket": unbound, "by bucket, at most 1.5 times its share": text,
             "round robin": unbound.replace(by_bucket, "  balance roundrobin\n")}
    for number, (name, wanted) in enumerate(texts.items()):
        path = folder / f"haproxy-{number}.cfg"
        path.write_text(wanted)
        yield name, path


def loads(server):
    counts = scrape(server)
    return int(sum(counts.sum("latentd_graph_compile_duration_seconds_count", source=source)
                   for source in ("disk_load", "memory_load")))


def hashing(options, folder):
    budget = budget_of_four(folder)
    for name in NAMES[1:]:
        shutil.copytree(folder / "a", folder / name)
    requests = requests_of(TEN)
    say(f"{options.seconds:g} s each, {options.workers} clients, {len(TEN)} buckets, --graph-memory={budget}")
    rows = [("", "pictures", "lost", "compilations", "loads", "loads a picture", "p50", "p99")]
    for name, configuration in balancings(folder):
        replicas = Cluster(folder, *server_arguments(), f"--graph-memory={budget}", demo=False, buckets=",".join(TEN),
                           configuration=configuration)
        try:
            log = folder / "load.log"
            Load(options, replicas.balancer.address, requests, 0, log).outcomes()
            before = [(compilations(server), loads(server)) for server in replicas.replicas.values()]
            outcomes = Load(options, replicas.balancer.address, requests, options.seconds, log).outcomes()
            after = [(compilations(server), loads(server)) for server in replicas.replicas.values()]
        finally:
            replicas.close()
        compiled, loaded = (sum(b[i] - a[i] for a, b in zip(before, after)) for i in (0, 1))
        rows.append((name, len(outcomes), sum(outcome.code != 0 for outcome in outcomes), compiled, loaded,
                     f"{loaded / len(outcomes):.2f}", f"{percentile(outcomes, 0.5):.3f} s",
                     f"{percentile(outcomes, 0.99):.3f} s"))
    table(rows)
    return all(lost == compiled == 0 for _, _, lost, compiled, *_ in rows[1:])


def latent(options, server, *arguments):
    subprocess.run([options.latent, *arguments, f"--server={server.address}"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def start_by_compiling(folder, cache):
    start = time.monotonic()
    server = Server(METRICS, "--threads=1", buckets=",".join(TEN), cache=folder / cache).start()
    return server, time.monotonic() - start


def start_by_import(options, folder, other):
    """Exports from the other one while the new one starts."""
    archive = folder / "graphs.latent"
    start = time.monotonic()
    server = Server(METRICS, "--threads=1", "--compile-at-start=false", "--allow-import", buckets=",".join(TEN),
                    cache=folder / "imported").listening()
    latent(options, other, "graphs", "export", "--all", f"--output={archive}")
    server.wait_for_log(lambda entry: "not ready" in entry["message"] or entry["message"] == "degraded")
    latent(options, server, "graphs", "import", str(archive))
    latent(options, server, "graphs", "warm", "--all")
    latent(options, server, "health", "--wait=60s")
    return server, time.monotonic() - start


def newcomer(options, folder):
    rows = [("", "compilations", "READY after")]
    pictures = set()
    servers = []
    try:
        for name, begin in (("by compiling", lambda: start_by_compiling(folder, "first")),
                            ("by import from a running one", lambda: start_by_import(options, folder, servers[0])),
                            ("from a filled cache", lambda: start_by_compiling(folder, "imported"))):
            if len(servers) > 1:
                servers[-1].stop()
            server, seconds = begin()
            servers.append(server)
            api = Api(server.address)
            pictures.add(api.generate(api.request(width=128, height=128)).images[0].data)
            api.close()
            rows.append((name, compilations(server), f"{seconds:.2f} s"))
    finally:
        for server in servers:
            server.kill()
    table(rows)
    say("all draw the same picture" if len(pictures) == 1 else f"{len(pictures)} different pictures")
    return len(pictures) == 1 and rows[2][1] == rows[3][1] == 0


MODES = {"rollover": roll_over, "hashing": hashing, "newcomer": newcomer}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--seconds", type=float, default=600, help="of load; hashing takes three times as long")
    parser.add_argument("--workers", type=int, default=6, help="clients that ask at the same time")
    parser.add_argument("--latentd", default=ROOT / "build/server/latentd")
    parser.add_argument("--latent", default=ROOT / "build/client/latent")
    parser.add_argument("--load", default=ROOT / "build/tests/bench/cluster_load")
    parser.add_argument("--checkpoint", default=ROOT / "deploy/demo-model")
    parser.add_argument("--backend", default="cpu", help="latentd's")
    parser.add_argument("--keep", action="store_true", help="keep the folder with caches and logs, and say where it is")
    return parser.parse_args()


def main():
    options = parse()
    for needed in (options.latentd, options.latent, options.load, options.checkpoint):
        if not os.path.exists(needed):
            sys.exit(f"cluster: {needed} is not there; deploy/build --tests makes it")
    server_process.configure(options)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="latentd-cluster-"))
    try:
        good = MODES[options.mode](options, folder)
    finally:
        if options.keep:
            say(f"{folder} has the logs")
        else:
            shutil.rmtree(folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
