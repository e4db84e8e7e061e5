#!/usr/bin/env python3
"""Requests for pictures of a few buckets, of which some are cancelled: whether anything is compiled, memory grows, or a picture
changes once each kind of work has been seen. README.md beside this says more."""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import promises  # noqa: E402
import steady_parts as parts  # noqa: E402
from full_size import checkpoint, machine, processes  # noqa: E402

ROOT = HERE.parents[1]
DEMO = {"buckets": "64x64,96x64,64x96,96x96,128x64", "warm_up": 300, "steps": "1,2,3"}
FULL = {"buckets": "1024x1024,1152x896,896x1152,768x768,512x512", "warm_up": 60, "steps": "2,4,8"}
START_SECONDS = 900  # compiling included
KEPT_SECONDS = 130  # latentd keeps unused memory of a GPU for two minutes at most
PASSES_SEED = {"warm-up": 1, "steady": 2}


def say(text):
    print(text, flush=True)


class Bench:
    """One latentd after the other on the same cache, and who asks it."""

    def __init__(self, options, folder, client):
        self._options, self._folder, self._client = options, folder, client
        self.pictures = parts.Pictures()
        self.codes = collections.Counter()
        self.server = self._api = None

    def start(self):
        """Also waits for larger row counts, which are made ready behind READY."""
        client, options = self._client, self._options
        flags = [f"--base={options.base}", *([f"--precision={options.precision}"] if options.precision else []), *options.latentd_flag]
        environment = {} if options.library_path is None else {"LD_LIBRARY_PATH": options.library_path}
        self.server = client.server_process.Server(
            client.metrics.METRICS, *flags, demo=False, buckets=options.buckets, rows=options.rows, cache=self._folder / "cache",
            prepare=processes.end_with_parent, environment=environment)
        self.server.start()
        if max(options.row_counts) > 2:
            self.server.wait_for_log(lambda entry: entry["message"] == client.SHARED_STEPS)
        self._api = client.server_process.Api(self.server.address)

    def stop(self):
        if self._api is not None:
            self._api.close()
        if self.server is not None:
            self.server.stop()
        self.server = self._api = None

    def kill(self):
        if self.server is not None:
            self.server.kill()

    def scrape(self):
        return self._client.metrics.scrape(self.server)

    def settle(self):
        """As rest, and once what of a GPU's memory is kept for the next lanes has been given back."""
        self.rest()
        if self._options.backend == "cuda":
            time.sleep(KEPT_SECONDS)
        return self.rest()

    def rest(self):
        """Once nothing runs."""
        self._client.server_process.wait_until(
            lambda: self.scrape().sum("latentd_requests_in_flight") == 0 and self.scrape().sum("latentd_lanes") == 0,
            "the server has requests or lanes left")
        scrape = self.scrape()
        kinds = {series.partition('kind="')[2].rstrip('"}') for series in scrape.values if series.startswith("latentd_memory_bytes{")}
        held = {kind: int(scrape.sum("latentd_memory_bytes", kind=kind)) for kind in sorted(kinds)}
        on_gpu = self._options.backend == "cuda"
        return parts.Rest(int(scrape.sum("latentd_graph_compilations_total")), self.server.resident_bytes(),
                          machine.memory_used() if on_gpu else None, held)

    def ask(self, order, where):
        digest = hashlib.sha256()
        events = self._api.stream(self._api.request(**order.kind.fields()))
        code = "OK"
        try:
            for number, event in enumerate(events):
                if event.HasField("image_chunk"):
                    digest.update(event.image_chunk.data)
                if number == order.cancelled_after:
                    events.cancel()
        except self._client.grpc.RpcError as error:
            code = error.code().name
        if code == "OK" and where is not None:
            self.pictures.add(order.kind, where, digest.hexdigest())
        return code if code != "CANCELLED" or order.cancelled_after >= 0 else "CANCELLED by nobody"

    def draw(self, orders, where, clients):
        """By so many at a time."""
        with concurrent.futures.ThreadPoolExecutor(clients) as threads:
            self.codes.update(threads.map(lambda order: self.ask(order, where), orders))


def measure(options, bench):
    """The document."""
    kinds = parts.kinds(options.sizes, options.step_counts, options.seeds)
    alone = [parts.Order(kind) for kind in kinds]
    document = {"machine": machine.describe(ROOT, options), "settings": options.settings}
    bench.start()
    say(f"READY with all row counts after {bench.rest().compilations} compilations")
    bench.draw(parts.coverage(options.sizes, options.row_counts, min(options.step_counts)), None, clients=1)
    bench.draw(alone, parts.ALONE, clients=1)
    crowd = parts.crowd(options.sizes, max(options.step_counts))
    bench.draw(crowd, None, clients=len(crowd))
    bench.draw(parts.mixture(kinds, options.warm_up, options.cancel, PASSES_SEED["warm-up"]), parts.BESIDE, options.clients)
    document["after_warm_up"] = bench.settle().document()
    say(f"the first pass is over: {sum(bench.codes.values())} requests")
    document["tenths"] = []
    orders = list(parts.mixture(kinds, options.requests, options.cancel, PASSES_SEED["steady"]))
    for tenth in range(10):
        bench.draw(orders[len(orders) * tenth // 10:len(orders) * (tenth + 1) // 10], parts.BESIDE, options.clients)
        document["tenths"].append(bench.rest().document())
    bench.draw(alone, parts.LATER, clients=1)
    document["at_the_end"] = bench.settle().document()
    bench.stop()
    bench.start()
    bench.draw(alone, parts.RESTARTED, clients=1)
    document["restart_compilations"] = bench.rest().compilations
    bench.stop()
    on_gpu = options.backend == "cuda"
    document["pictures"] = {where: bench.pictures.compared(where, invariant_only=on_gpu and where == parts.BESIDE)
                            for where in (parts.BESIDE, parts.LATER, parts.RESTARTED)}
    document["pictures_that_share_steps"] = bench.pictures.compared(parts.BESIDE)
    document["codes"] = dict(bench.codes)
    return document


def show(document):
    found = document["machine"]
    where = found["gpu"]["name"] if found["gpu"] and document["settings"]["backend"] == "cuda" else f"{found['cpu']}, {found['cpus']} CPUs"
    say(f"\n{where}, commit {found['commit']}; " + ", ".join(f"{count} {code}" for code, count in sorted(document["codes"].items())))
    say("tenth  compilations  resident MiB  GPU MiB")
    for number, rest in enumerate(document["tenths"], 1):
        device = "" if rest["device"] is None else f"{rest['device'] / parts.MIB:.0f}"
        say(f"{number:5}  {rest['compilations']:12}  {rest['resident'] / parts.MIB:12.1f}  {device:>7}")
    say(f"\n{parts.table(document)}")


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--full", action="store_true", help="SDXL's architecture with random weights, not the demo checkpoint")
    parser.add_argument("--requests", type=int, default=300, help="after the first pass")
    parser.add_argument("--cancel", type=float, default=0.1, help="share of them that are cancelled")
    parser.add_argument("--warm-up", type=int, help=f"requests of the first pass, after one for each row count, size and guidance, "
                        f"each picture alone, and all sizes at once; without it {DEMO['warm_up']}, with --full {FULL['warm_up']}")
    parser.add_argument("--buckets", help=f"without it {DEMO['buckets']}, with --full {FULL['buckets']}")
    parser.add_argument("--steps", help=f"pictures have one of; without it {DEMO['steps']}, with --full {FULL['steps']}")
    parser.add_argument("--rows", default="1,2,4", help="latentd's")
    parser.add_argument("--seeds", type=int, default=2, help="of each size, with and without guidance")
    parser.add_argument("--clients", type=int, default=6, help="that ask at a time")
    parser.add_argument("--noise", type=float, default=16, help="MiB that memory may differ by")
    parser.add_argument("--json", type=pathlib.Path, help="write all that was found to this file")
    parser.add_argument("--show", type=pathlib.Path, metavar="FILE", help="print the table of such a file, and measure nothing")
    parser.add_argument("--check", action="store_true", help="end with 1 where a promise is missed")
    parser.add_argument("--work", type=pathlib.Path, metavar="DIR", help="for the checkpoint of --full (13 GB) and the cache, and kept; by "
                        "default a temporary folder")
    parser.add_argument("--precision", help="latentd's; fp32 by default")
    parser.add_argument("--library-path", help="latentd's LD_LIBRARY_PATH")
    parser.add_argument("--latentd-flag", action="append", default=[], help="one more flag for latentd")
    parser.add_argument("--commit", help="what was built, where this is no git repository")
    promises.add_server_flags(parser)
    options = parser.parse_args(arguments)
    complete(options)
    return options


def complete(options):
    """Fills in options that follow from others."""
    for name, value in (FULL if options.full else DEMO).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.settings = {name: str(value) if isinstance(value, pathlib.Path) else value for name, value in vars(options).items()}
    options.sizes = [parts.size_of(text) for text in options.buckets.split(",")]
    options.row_counts = [int(text) for text in options.rows.split(",")]
    options.step_counts = [int(text) for text in options.steps.split(",")]
    options.our_environment = dict(os.environ)
    if options.library_path is not None:
        options.our_environment["LD_LIBRARY_PATH"] = options.library_path


def run(options, folder):
    from traffic import client  # needs gRPC, and may have to install it
    import metrics  # belongs to the integration tests, as do the next
    client.metrics = metrics
    options.latent = options.latentd  # the integration tests' servers want one; nothing here calls it
    options.base = pathlib.Path(options.checkpoint, "base")
    if options.full:
        size = checkpoint.write(ROOT, folder / "checkpoint", "full")
        say(f"checkpoint: {size / 1e9:.2f} GB")
        options.base = folder / "checkpoint/base"
    client.server_process.configure(options)
    client.server_process.DEADLINE = START_SECONDS
    bench = Bench(options, folder, client)
    try:
        document = measure(options, bench)
    finally:
        bench.kill()
    if options.json:
        options.json.write_text(json.dumps(document) + "\n")
    return document


def main():
    options = parse()
    if options.show:
        document = json.loads(options.show.read_text())
    elif options.work:
        options.work.mkdir(parents=True, exist_ok=True)
        document = run(options, options.work.resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="latentd-steady-") as folder:
            document = run(options, pathlib.Path(folder))
    show(document)
    return 1 if options.check and not all(holds for _, _, holds in parts.promises(document)) else 0


if __name__ == "__main__":
    sys.exit(main())
