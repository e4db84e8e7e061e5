"""Measures latentd with the architectures of SDXL, SD 1.5 and SVD on this machine's GPU, and diffusers beside it; README.md says what is measured."""

import argparse
import contextlib
import json
import math
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

from . import checkpoint, machine, peer_process, results
from .measurements import MEASUREMENTS
from .processes import Failure
from .session import COMPILE, EAGER, FULL, LATENTD, REDUCED, Bench

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Beyond what a measurement is said to take, on an H100; a peer that is not there yet is started, one that compiles compiles first.
PEER_START_SECONDS = 30
COMPILE_SECONDS = {"unet": 150, "unet_f8": 180, "refiner": 130, "vae": 45, "sd15_unet": 90, "sd15_vae": 40, "svd_unet": 200, "svd_vae": 60}
GRACE_SECONDS = 20  # beyond the budget, for what has begun


def say(text):
    print(text, flush=True)


class Budget:
    """Seconds that may still be spent."""

    def __init__(self, seconds):
        self._end = time.monotonic() + (seconds or math.inf)

    @property
    def left(self):
        return self._end - time.monotonic()


@contextlib.contextmanager
def at_most(seconds):
    """Fails where it takes longer, whatever it waits for."""

    def late(*_):
        raise Failure(f"took more than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, late)
    if math.isfinite(seconds):
        signal.setitimer(signal.ITIMER_REAL, max(0.001, seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Runner:
    def __init__(self, bench, contestants, budget):
        self._bench, self._contestants, self._budget = bench, contestants, budget

    def cost(self, measurement, contestant):
        """Seconds that it is expected to take, all that it needs included."""
        seconds = measurement.seconds[contestant]
        if contestant != LATENTD and contestant not in self._bench.peers:
            seconds += PEER_START_SECONDS
        if contestant == COMPILE:
            missing = set(measurement.networks(self._bench.scale)) - self._bench.compiled
            seconds += sum(COMPILE_SECONDS[network] for network, *_ in missing)
        return seconds

    def reason_to_skip(self, measurement, contestant, planned):
        if contestant in self._contestants["missing"]:
            return f"not here: {self._contestants['missing'][contestant]}"
        if contestant == LATENTD and measurement.network_bench and not os.access(self._bench.options.network_bench, os.X_OK):
            return f"there is no {self._bench.options.network_bench}"
        if measurement.gpus > max(1, machine.gpus()):
            return f"it takes {measurement.gpus} GPUs"
        cost = self.cost(measurement, contestant)
        if self._bench.scale.architecture == "full" and planned + cost > self._budget.left:
            return f"the budget: it would take about {cost} s, {max(0, self._budget.left - planned):.0f} are left"
        return None

    def plan(self, measurement):
        """Contestants that take part now; the others' reasons are noted."""
        chosen, planned = [], 0
        for contestant in measurement.seconds:
            if contestant not in self._contestants["wanted"] or self._bench.results.is_done(measurement.name, contestant):
                continue
            reason = self.reason_to_skip(measurement, contestant, planned)
            if reason:
                self._bench.results.end(measurement.name, contestant, reason)
                say(f"  {measurement.name}, {contestant}: left out ({reason})")
            else:
                chosen.append(contestant)
                planned += self.cost(measurement, contestant)
        return chosen

    def turn(self, measurement, contestant, function):
        """Runs one turn; true if it succeeded."""
        began = time.monotonic()
        limit = min(60 + 4 * self.cost(measurement, contestant), self._budget.left + GRACE_SECONDS)
        try:
            with at_most(limit):
                function(self._bench, contestant)
            say(f"  {measurement.name}, {contestant}: {time.monotonic() - began:.1f} s")
            return True
        except Exception as error:  # any error: the other measurements go on
            reason = str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
            self._bench.results.end(measurement.name, contestant, f"failed: {reason}")
            say(f"  {measurement.name}, {contestant}: FAILED after {time.monotonic() - began:.1f} s: {reason}")
            # The server or peer may still be at work for it.
            if contestant == LATENTD:
                self._bench.stop_server()
            else:
                self._bench.stop_peer(contestant)
            return False

    def run(self, measurement):
        """In rounds, the contestants in turns; who fails leaves."""
        there = self.plan(measurement)
        if measurement.prepare:
            there = [contestant for contestant in there if self.turn(measurement, contestant, measurement.prepare)]
        for _ in range(measurement.rounds(self._bench.scale)):
            there = [contestant for contestant in there if self.turn(measurement, contestant, measurement.run)]
        for contestant in there:
            self._bench.results.end(measurement.name, contestant, "done")


def find_contestants(options, folder):
    """Contestants that are wanted, and the reasons why some of them cannot take part."""
    peers = [mode for mode in options.peers.split(",") if mode]
    if not peers:
        return {"wanted": [LATENTD], "missing": {}}
    paths = list(options.peer_path)
    if options.diffusers:
        paths.append(peer_process.unpack_wheels(options.diffusers, folder / "site"))
    options.peer_environment = peer_process.environment(paths, folder)
    if not options.resume:  # torch.compile's first step is to find nothing, like latentd's
        shutil.rmtree(options.peer_environment["TORCHINDUCTOR_CACHE_DIR"], ignore_errors=True)
    reason = peer_process.missing(options.peer_python, options.peer_environment)
    return {"wanted": [LATENTD, *peers], "missing": dict.fromkeys(peers, reason) if reason else {}}


def show(document):
    say(f"\n{results.heading(document)}\n\n{results.table(document)}")
    for line in results.left_out(document):
        say(f"left out: {line}")
    for name, value in document["notes"].items():
        if "not what it says" in name:
            say(f"note: {name}: {value}")


def run(options, folder):
    scale = REDUCED if options.reduced else FULL
    budget = Budget(options.budget)
    settings = {"backend": options.backend, "precision": options.precision, "architecture": scale.architecture,
                "latentd_flags": options.latentd_flag}
    found = results.Results(options.json, machine.describe(ROOT, options), settings, options.resume)
    wanted = options.only.split(",") if options.only else [measurement.name for measurement in MEASUREMENTS]
    models = {model: None for measurement in MEASUREMENTS if measurement.name in wanted for model in measurement.models}
    began = time.monotonic()
    size = checkpoint.write(ROOT, folder / "checkpoint", scale.architecture, models)
    say(f"checkpoint: {size / 1e9:.2f} GB, {time.monotonic() - began:.1f} s")
    if options.checkpoint_only:
        return 0
    contestants = find_contestants(options, folder)
    bench = Bench(options, scale, folder / "checkpoint", folder, found,
                  lambda mode: peer_process.Peer(options, folder / "checkpoint", mode, folder))
    runner = Runner(bench, contestants, budget)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # measurements so far are shown
    try:
        for measurement in MEASUREMENTS:
            if measurement.name in wanted:
                runner.run(measurement)
    finally:
        bench.stop()
        found.save()
        show(found.document)
    failed = any(outcome.startswith("failed") for outcomes in found.document["items"].values() for outcome in outcomes.values())
    return 1 if failed else 0


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tests/bench/gpu", description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="begin nothing that would take longer; without it all is measured")
    parser.add_argument("--only", metavar="NAME,...", help=f"of {', '.join(measurement.name for measurement in MEASUREMENTS)}")
    parser.add_argument("--json", help="write all samples to this file, after each measurement")
    parser.add_argument("--resume", action="store_true", help="leave out what is done in the file of --json; with the --work of then")
    parser.add_argument("--show", metavar="FILE", help="print the table of such a file, and measure nothing")
    parser.add_argument("--work", type=pathlib.Path, metavar="DIR", help="for the checkpoints (33 GB) and the cache, and kept; by default a "
                        "temporary folder. A file system in memory makes the first start independent of the disk")
    parser.add_argument("--checkpoint-only", action="store_true", help="write the checkpoints to DIR/checkpoint of --work, and end")
    parser.add_argument("--reduced", action="store_true", help="the demo model's architecture and small sizes: shows that all of it works")
    parser.add_argument("--backend", choices=("cuda", "cpu"), help="latentd's; cuda, with --reduced cpu")
    parser.add_argument("--precision", choices=("bf16", "fp16", "fp32", "fp8", "fp8_all"),
                        help="bf16, on the CPU fp32; fp8 and fp8_all are latentd's alone, peers compute in bf16 then")
    ours = parser.add_argument_group("latentd")
    ours.add_argument("--latentd", type=pathlib.Path, default=ROOT / "build/server/latentd")
    ours.add_argument("--latent", type=pathlib.Path, default=ROOT / "build/client/latent", help="for what it says of memory")
    ours.add_argument("--client", type=pathlib.Path, default=ROOT / "build/tests/bench/bench_client")
    ours.add_argument("--network-bench", type=pathlib.Path, default=ROOT / "build/tests/bench/cuda_network_bench")
    ours.add_argument("--library-path", help="LD_LIBRARY_PATH of these programs, and of nothing else")
    ours.add_argument("--latentd-flag", action="append", default=[], help="one more flag for latentd")
    ours.add_argument("--commit", help="what was built, where this is no git repository")
    peers = parser.add_argument_group("diffusers")
    peers.add_argument("--peers", default=f"{EAGER},{COMPILE}", help="which; empty: latentd alone")
    peers.add_argument("--peer-python", default=sys.executable, help="a Python that has torch")
    peers.add_argument("--diffusers", metavar="DIR", help="a folder of wheels to unpack for it, such as diffusers'")
    peers.add_argument("--peer-path", action="append", default=[], metavar="DIR", help="a folder in which it finds modules")
    options = parser.parse_args(arguments)
    check(parser, options)
    return options


def check(parser, options):
    options.backend = options.backend or ("cpu" if options.reduced else "cuda")
    options.precision = options.precision or ("bf16" if options.backend == "cuda" else "fp32")
    options.our_environment = {**os.environ, "GOMP_SPINCOUNT": "300"}
    if options.library_path is not None:
        options.our_environment["LD_LIBRARY_PATH"] = options.library_path
    names = {measurement.name for measurement in MEASUREMENTS}
    unknown = set(options.only.split(",")) - names if options.only else set()
    unknown |= set(filter(None, options.peers.split(","))) - {EAGER, COMPILE}
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    if options.resume and not (options.json and options.work):
        parser.error("--resume needs the --json and the --work of the call before")
    if options.checkpoint_only and not options.work:
        parser.error("--checkpoint-only needs --work")
    if not os.access(options.latent, os.X_OK):
        options.latent = None


def main(arguments=None):
    options = parse(arguments)
    if options.show:
        show(json.loads(pathlib.Path(options.show).read_text()))
        return 0
    if options.backend == "cuda" and not options.checkpoint_only and machine.gpu() is None:
        say("gpu: there is no NVIDIA GPU here (nvidia-smi finds none); --reduced runs without one")
        return 1
    for program in () if options.checkpoint_only else (options.latentd, options.client):
        if not os.access(program, os.X_OK):
            say(f"gpu: there is no program {program}; build it (deploy/build --tests), or say where it is: --latentd, --client")
            return 1
    if options.work:
        options.work.mkdir(parents=True, exist_ok=True)
        return run(options, options.work.resolve())
    with tempfile.TemporaryDirectory(prefix="latentd-gpu-bench-") as folder:
        return run(options, pathlib.Path(folder))
