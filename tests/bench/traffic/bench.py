"""Measures latentd under load, beside a queue that sends one request at a time and beside diffusers; README.md says what is measured."""

import argparse
import asyncio
import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import sys
import tempfile

from full_size import machine, peer_process
from full_size.processes import Failure

from . import calls, mixture, parts, promises, report

ROOT = pathlib.Path(__file__).resolve().parents[3]
CONTESTANTS = ("latentd", "fifo", "peer")
FAILURES = (Failure, AssertionError, OSError, asyncio.TimeoutError, concurrent.futures.BrokenExecutor)  # end one contestant; the others go on


def say(text):
    print(text, flush=True)


class Session:
    """The servers of a run, who takes part, and what was found."""

    def __init__(self, options, folder, client):
        self.options, self._folder, self._client = options, folder, client
        self.sizes = [mixture.size_of(text) for text in options.buckets.split(",")]
        self.mixture = mixture.Mixture(self.sizes, options.unguided, options.callers)
        self.contestants = list(CONTESTANTS)
        self.alone = None
        self.failures = 0
        self._servers, self._described = {}, None
        settings = {name: str(value) if isinstance(value, pathlib.Path) else value for name, value in vars(options).items()
                    if name != "our_environment"}
        self.document = {"machine": machine.describe(ROOT, options), "settings": settings, "left_out": {}}

    say = staticmethod(say)

    def start(self):
        """latentd, and the peer where there is one."""
        self._servers["latentd"] = self._client.Latentd(self.options, self._folder)
        self._described = self._client.descriptors(self.server("latentd").address)
        reason = "no --peer-python"
        if self.options.peer_python:
            reason = peer_process.missing(self.options.peer_python, peer_process.environment(self.options.peer_path, self._folder))
        if reason:
            self.leave_out("peer", reason)
            return
        try:
            self._servers["peer"] = self._client.Peer(self.options, self._folder, self._described)
        except FAILURES as error:
            self.failures += 1
            self.leave_out("peer", str(error))

    def server(self, contestant):
        return self._servers["peer" if contestant == "peer" else "latentd"]

    def restart(self, contestant):
        self.server(contestant).stop()
        self._servers[contestant] = (self._client.Peer(self.options, self._folder, self._described) if contestant == "peer"
                                     else self._client.Latentd(self.options, self._folder))

    def stop(self):
        for server in self._servers.values():
            server.stop()

    @contextlib.asynccontextmanager
    async def sending(self, contestant):
        """A function that sends a job to the contestant."""
        addresses = dict.fromkeys(range(self.options.callers), self.server(contestant).address)
        async with self._client.Client(addresses, self._described) as client:
            yield calls.Fifo(client.send).send if contestant == "fifo" else client.send

    def crowd(self, contestant):
        """All callers at once, of whom some come back."""
        return self._client.Crowd(self.server(contestant).address, self._described, self.options.crowd_processes)

    def leave_out(self, contestant, reason):
        if contestant in self.contestants:
            self.contestants.remove(contestant)
        self.document["left_out"][contestant] = reason
        say(f"left out: {report.NAMES[contestant]}: {reason}")

    async def attempt(self, part, contestant, work):
        """The result of `work(self, contestant)`; None for a contestant that fails, which takes part no more, or has failed before."""
        if contestant not in self.contestants:
            return None
        try:
            return await work(self, contestant)
        except FAILURES as error:
            self.failures += 1
            self.leave_out(contestant, f"failed in {part}: {error or type(error).__name__}")
            return None

    def note_failures(self, contestant, outcomes):
        """Counts and names outcomes that load does not explain."""
        failed = sorted({outcome.code for outcome in outcomes if outcome.failed})
        if failed:
            self.failures += 1
            say(f"  {contestant}: requests FAILED with {', '.join(failed)}")

    def save(self):
        if self.options.json:
            new = self.options.json.with_suffix(".new")
            new.write_text(json.dumps(self.document) + "\n")
            os.replace(new, self.options.json)


async def measure(session):
    session.start()
    await parts.draw_each_size(session, "latentd")
    await session.attempt("first pictures", "peer", parts.draw_each_size)
    await parts.alone(session)
    for name in session.options.only:
        say(f"{name}:")
        await parts.PARTS[name](session)
        session.save()


def run(options, folder):
    from . import client  # needs gRPC, and may have to install it
    client.server_process.configure(options)
    session = Session(options, folder, client)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # measurements so far are shown
    try:
        asyncio.run(measure(session))
    except FAILURES as error:
        session.failures += 1
        say(f"load: FAILED: {error or type(error).__name__}")
    finally:
        session.stop()
        session.save()
        say(f"\n{report.heading(session.document)}\n\n{report.tables(session.document)}")
    return 1 if session.failures or (options.check and misses(session.document)) else 0


def misses(document):
    return not all(holds for _, holds in promises.of(document))


def fraction(text):
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share from 0 to 1")
    return value


def range_of(text):
    low, high = map(float, text.split(":"))
    if not 0 < low < high:
        raise argparse.ArgumentTypeError(f"{text} is no range such as 0.1:4")
    return low, high


def counts_of(text):
    counts = tuple(map(int, text.split(",")))
    if min(counts) < 1:
        raise argparse.ArgumentTypeError(f"{min(counts)} in {text} is below 1")
    return counts


def parts_of(text):
    names = text.split(",")
    if not set(names) <= set(parts.PARTS):
        raise argparse.ArgumentTypeError(f"there is no {', '.join(sorted(set(names) - set(parts.PARTS)))}")
    return names


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tests/bench/load", description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--only", type=parts_of, default=list(parts.PARTS), metavar="PART,...", help=f"of {', '.join(parts.PARTS)}")
    parser.add_argument("--json", type=pathlib.Path, help="write all samples to this file, after each measurement")
    parser.add_argument("--show", type=pathlib.Path, metavar="FILE", help="print the tables of such a file, and measure nothing")
    parser.add_argument("--check", action="store_true", help="end with 1 where a promise is missed")
    parser.add_argument("--seed", type=int, default=1, help="of arrivals and of what is asked for")
    load = parser.add_argument_group("load")
    load.add_argument("--unguided", type=fraction, default=0.2, help="share of requests without guidance")
    load.add_argument("--callers", type=int, default=8, help="that ask, at least two; every other one comes back after a refusal")
    load.add_argument("--seconds", type=float, default=60, help="of a window at one rate, and of small requests in isolation")
    load.add_argument("--windows", type=int, default=6, help="of each contestant, to find the rate")
    load.add_argument("--rates", type=range_of, default=(0.125, 4.0), metavar="LOW:HIGH",
                      help="where that is looked for, in multiples of the rate of requests alone, one after the other")
    load.add_argument("--alone-repeats", type=int, default=3, help="of each kind of request alone")
    load.add_argument("--arrivals", type=int, default=40, help="short requests of each size, for arrival")
    load.add_argument("--short-steps", type=counts_of, default=(2, 8, 30), metavar="N,...", help="of the short requests, for passing")
    load.add_argument("--long-ones", type=counts_of, default=(1, 2, 4, 16), metavar="N,...", help="that these are beside")
    load.add_argument("--capacity", type=float, help="requests a second, instead of what this run measures, for overload")
    load.add_argument("--overload", type=float, default=10, metavar="TIMES", help="of the capacity")
    load.add_argument("--crowd-processes", type=int, default=max(1, min(8, (os.cpu_count() or 2) // 2)),
                      help="that ask in overload, each for some of the callers")
    load.add_argument("--overload-seconds", type=float, default=60)
    load.add_argument("--overload-deadline", type=float, default=30, metavar="SECONDS", help="of each request then")
    ours = parser.add_argument_group("latentd")
    ours.add_argument("--latentd", type=pathlib.Path, default=ROOT / "build/server/latentd")
    ours.add_argument("--checkpoint", type=pathlib.Path, default=ROOT / "deploy/demo-model", help="a folder with base/ in it")
    ours.add_argument("--buckets", default="256x256,320x192,512x512", help="what is asked for; isolation's large pictures have the largest")
    ours.add_argument("--small", default="256x256", metavar="SIZE", help="of isolation's small pictures; one of the buckets")
    ours.add_argument("--rows", help="latentd's")
    ours.add_argument("--backend", default="cpu", choices=("cpu", "cuda"))
    ours.add_argument("--precision", default="fp32", choices=("fp32", "bf16", "fp16"), help="the peer's too")
    ours.add_argument("--latentd-flag", action="append", default=[], help="one more flag for latentd")
    ours.add_argument("--commit", help="what was built, where this is no git repository")
    peers = parser.add_argument_group("diffusers")
    peers.add_argument("--peer-python", help="a Python that has torch and diffusers; without it there is no peer")
    peers.add_argument("--peer-path", action="append", default=[], metavar="DIR", help="a folder in which it finds modules")
    options = parser.parse_args(arguments)
    check(parser, options)
    return options


def check(parser, options):
    options.our_environment = dict(os.environ)
    if options.small not in options.buckets.split(","):
        parser.error(f"--buckets has no {options.small}, the size of small pictures (--small)")
    for name in ("callers", "windows", "alone_repeats", "arrivals", "crowd_processes"):
        least = 2 if name == "callers" else 1
        if getattr(options, name) < least:
            parser.error(f"--{name.replace('_', '-')} is at least {least}")
    for name in ("seconds", "overload", "overload_seconds", "overload_deadline"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} is above 0")


def main(arguments=None):
    options = parse(arguments)
    if options.show:
        document = json.loads(options.show.read_text())
        say(f"{report.heading(document)}\n\n{report.tables(document)}")
        return 0
    if not os.access(options.latentd, os.X_OK):
        say(f"load: there is no program {options.latentd}; build it (deploy/build), or say where it is: --latentd")
        return 1
    options.latent = options.latentd  # the integration tests' servers want one; nothing here calls it
    with tempfile.TemporaryDirectory(prefix="latentd-load-bench-") as folder:
        return run(options, pathlib.Path(folder))
