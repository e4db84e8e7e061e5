#!/usr/bin/env python3
"""Thousands of small requests to one latentd, of which some are cancelled and some have a client that is killed, with videos among
them where --videos says so: whether memory grows, anything is compiled, or a request gets lost. README.md beside this says more."""
import argparse
import collections
import dataclasses
import itertools
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
import run  # noqa: E402

sys.path.insert(0, str(run.install_client()))
os.environ["no_proxy"] = "*"
import promises  # noqa: E402
import server_process  # noqa: E402
import video_checkpoint  # noqa: E402
from metrics import METRICS, scrape  # noqa: E402
from server_process import Api, Server, wait_until  # noqa: E402

TENTHS = 10
LOOKS = 100  # or a few fewer where requests end faster than the server can be looked at, and more where they take long
SECONDS_BETWEEN_LOOKS = 2
ENDS = ("latentd_requests_rejected_total", "latentd_requests_finished_total", "latentd_requests_cancelled_total",
        "latentd_deadline_misses_total")
SEEDS = range(1, 4)
KINDS = ({"num_inference_steps": 1, "guidance_scale": 1}, {"num_inference_steps": 2}, {"width": 96},
         {"width": 96, "guidance_scale": 1, "num_images_per_prompt": 2}, {"num_inference_steps": 4, "previews": {"every_n_steps": 1}})
MOST_EVENTS = 6  # before who leaves does so: the shortest stream has some more
KILLED = "killed"
WEBP, APNG, AVI, Y4M, RAW, WEBM = range(1, 7)  # latent.v1.VideoFormat
VIDEO = {"image": "good", "width": 64, "height": 64, "num_frames": 5, "num_inference_steps": 3}
VIDEO_KINDS = ({"output": {"format": 1}}, {"output": {"format": 3}, "num_videos_per_prompt": 2}, {"output": {"file": APNG}},
               {"output": {"file": AVI}, "max_guidance_scale": 1}, {"output": {"file": Y4M}, "previews": {"every_n_steps": 1}},
               {"output": {"file": WEBP}}, {"output": {"file": WEBM}})
JOB_KINDS = tuple({"output": {"file": f"VIDEO_FORMAT_{name}"}} for name in ("WEBP", "APNG", "RAW", "WEBM"))
JOBS = 0.3  # share of the videos that are
BAD_KINDS = (("image", {"num_inference_steps": -1}), ("image", {"image": "garbage", "strength": 0.5}),
             ("video", {**VIDEO, "image": "garbage"}), ("video", {**VIDEO, "image": "none"}), ("video", {**VIDEO, "num_frames": 6}),
             ("video", {**VIDEO, "width": 63, "fps": 0}))


@dataclasses.dataclass
class Order:
    """A request, how it ends where nothing comes between, and when its client leaves: after so many events, by cancelling, by dying,
    or to resume."""

    id: str
    fields: dict
    kind: str = "image"  # video: by gRPC; job: by /v1/videos
    leaves_after: int = -1
    dies: bool = False
    resumes: bool = False
    is_bad: bool = False

    def ends(self):
        """Codes of the ends that are as they should be."""
        if self.is_bad:
            return {"INVALID_ARGUMENT"}
        return {"OK", KILLED} if self.dies else {"OK", "CANCELLED"} if self.leaves_after >= 0 and not self.resumes else {"OK"}


@dataclasses.dataclass
class Look:
    """At the server, once so many requests had ended."""

    ended: int
    resident_mib: float
    compilations: int
    adds_up: bool


def orders_of(options):
    """The same ones each time."""
    chance = random.Random(7)
    for number in range(options.requests):
        if chance.random() < options.videos:
            yield video_order(options, chance, f"{options.name}-{number}")
            continue
        fields = {**chance.choice(KINDS), "seed": chance.choice(SEEDS)}
        share = chance.random()
        leaves = share < options.cancelled + options.killed
        yield Order(f"{options.name}-{number}", fields, leaves_after=chance.randrange(MOST_EVENTS) if leaves else -1, dies=share < options.killed)


def video_order(options, chance, name):
    """Beside the shares of those that leave there are as many that are resumed as are cancelled, and as many that are wrong."""
    share = chance.random() - options.killed
    if 2 * options.cancelled <= share < 3 * options.cancelled:
        kind, fields = chance.choice(BAD_KINDS)
        return Order(name, fields, kind, is_bad=True)
    kind = "job" if chance.random() < JOBS else "video"
    fields = {**VIDEO, **chance.choice(JOB_KINDS if kind == "job" else VIDEO_KINDS), "seed": chance.choice(SEEDS)}
    leaves = chance.randrange(MOST_EVENTS) if share < (1 if kind == "job" else 2) * options.cancelled else -1
    return Order(name, fields, kind, leaves, dies=share < 0, resumes=kind == "video" and share >= options.cancelled and leaves >= 0)


class Clients:
    """So many at a time, each with a process of its own; where one is killed another one takes its place."""

    def __init__(self, options, addresses):
        self._addresses = addresses
        self._orders = orders_of(options)
        self._end = time.monotonic() + options.seconds
        self._lock = threading.Lock()
        self._progress = threading.Condition(self._lock)
        self.asked = self.ended = 0
        self.codes = collections.Counter()
        self.wrong = []  # ends that are not as they should be
        self.resumed = 0
        self.seconds = []
        self.digests = collections.defaultdict(set)  # by what was asked for
        self._working = options.clients
        for _ in range(options.clients):
            threading.Thread(target=self._sit, daemon=True).start()

    def wait_for_ends(self, count):
        """Until so many requests have ended, but not long; whether the clients have more to ask for."""
        with self._lock:
            self._progress.wait_for(lambda: self.ended >= count or not self._working, SECONDS_BETWEEN_LOOKS)
            return self._working > 0

    def _next(self):
        with self._lock:
            order = next(self._orders, None) if time.monotonic() < self._end else None
            self.asked += order is not None
            return order

    def _sit(self):
        try:
            self._work()
        finally:
            with self._lock:
                self._working -= 1
                self._progress.notify_all()

    def _work(self):
        process = None
        while (order := self._next()) is not None:
            process = process or subprocess.Popen(
                [sys.executable, "-B", pathlib.Path(__file__).with_name("soak_client.py"), *self._addresses],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            print(json.dumps(dataclasses.asdict(order)), file=process.stdin, flush=True)
            line = process.stdout.readline()
            self._count(order, json.loads(line) if line else {"code": self._how_it_ended(process, order)})
            process = process if line else None
        if process:
            process.communicate()

    @staticmethod
    def _how_it_ended(process, order):
        meant = process.wait() == -signal.SIGKILL and order.dies
        process.communicate()
        return KILLED if meant else f"no end (the client's exit code is {process.returncode})"

    def _count(self, order, outcome):
        with self._lock:
            self.ended += 1
            self.codes[outcome["code"]] += 1
            if outcome["code"] not in order.ends():
                self.wrong.append((order, outcome["code"]))
            if outcome["code"] == "OK":
                self.resumed += order.resumes
                self.digests[order.kind + json.dumps(order.fields)].add(outcome["digest"])
                self.seconds.append(outcome["seconds"])
            self._progress.notify_all()


class Soak:
    """One server and its clients."""

    def __init__(self, options, server):
        self.options = options
        self.server = server
        self.looks = [self.look(0)]
        self.clients = Clients(options, addresses_of(options, server))

    def look(self, ended):
        seen = scrape(self.server)
        received = seen.sum("latentd_requests_received_total")
        places = sum(seen.sum(name) for name in ENDS) + seen.sum("latentd_requests_in_flight")
        return Look(ended, self.server.resident_bytes() / 2**20, int(seen.sum("latentd_graph_compilations_total")),
                    received == places)

    def run(self):
        every = max(1, self.options.requests // LOOKS)
        while self.clients.wait_for_ends(self.looks[-1].ended + every):
            self.looks.append(self.look(self.clients.ended))
        wait_until(lambda: scrape(self.server).sum("latentd_requests_in_flight") == 0, "the server has requests left")
        self.looks.append(self.look(self.clients.ended))

    def tenths(self):
        """The looks of each; a tenth in which there was none has the one before it, the first one that of the start."""
        size, parts = self.clients.ended / TENTHS, [[] for _ in range(TENTHS)]
        for look in self.looks[1:]:
            parts[min(TENTHS - 1, int(look.ended / size))].append(look)
        return list(itertools.accumulate(parts, lambda before, part: part or before[-1:], initial=self.looks[:1]))[1:]

    def lost(self):
        """Requests of which the log has not exactly one line, but for calls that resume them."""
        wanted = {f"soak-{number}" for number in range(self.clients.asked)}

        def lines():
            entries = map(json.loads, list(self.server.lines))
            return collections.Counter(entry.get("id") for entry in entries if entry["message"] == "request"
                                       and not entry["method"].startswith("Resume"))

        try:
            wait_until(lambda: wanted <= lines().keys(), "")
        except AssertionError:
            pass
        seen = lines()
        return [request for request in wanted if seen[request] != 1]


def report(soak):
    """True if the promises hold."""
    tenths = soak.tenths()
    medians = [statistics.median(look.resident_mib for look in tenth) for tenth in tenths]
    print(f"{soak.clients.asked} requests by {soak.options.clients} clients: "
          + ", ".join(f"{count} {code}" for code, count in soak.clients.codes.most_common()))
    seconds = sorted(soak.clients.seconds)
    print(f"of those that are OK p50 {seconds[len(seconds) // 2]:.3f} s, longest {seconds[-1]:.3f} s")
    print("tenth  resident MiB: median     most  compilations  looks")
    for number, (tenth, median) in enumerate(zip(tenths, medians), 1):
        print(f"{number:5}  {median:20.1f}  {max(look.resident_mib for look in tenth):7.1f}  {tenth[-1].compilations:12}  {len(tenth):5}")
    compiled = soak.looks[-1].compilations - soak.looks[0].compilations
    wrong_sums = sum(not look.adds_up for look in soak.looks)
    for order, code in soak.clients.wrong[:TENTHS]:
        print(f"ended in {code}: {order}")
    lost = soak.lost()
    for request in lost[:TENTHS]:
        print(f"not one line in the log: {request}")
    others, growth = len(soak.clients.wrong), medians[-1] - medians[0]
    drawn = sum(len(digests) > 1 for digests in soak.clients.digests.values())
    noise = soak.options.noise
    made = ((f"memory is flat after the first tenth: {growth:+.1f} MiB, less than {noise:g} is noise", growth < noise),
            (f"nothing is compiled: {compiled}", compiled == 0),
            (f"nothing is lost: {others} ended otherwise, {len(lost)} without their one line in the log", not others and not lost),
            (f"requests add up at every scrape: {wrong_sums} of {len(soak.looks)} do not", wrong_sums == 0),
            (f"a request is one picture, whenever it is asked for: {drawn} of {len(soak.clients.digests)} are not", drawn == 0))
    return promises.tell(made)


def server_of(options, folder, listen="127.0.0.1:0"):
    flags = [METRICS, "--threads=1", "--forbid-compile-after-ready"]
    if options.videos:
        checkpoint = folder / "svd"
        if not checkpoint.exists():
            video_checkpoint.write_checkpoint(checkpoint)
        flags += ["--http-listen=127.0.0.1:0",
                  f"--video={checkpoint},buckets={video_checkpoint.BUCKET},decode-chunk={video_checkpoint.CHUNK}"]
    return Server(*flags, cache=folder / "cache", listen=listen).start()


def addresses_of(options, server):
    """Ports of gRPC, and of HTTP where there are videos."""
    if not options.videos:
        return [server.address]
    message = server.wait_for_log(lambda entry: entry["message"].startswith("http on "))["message"]
    return [server.address, message.removeprefix("http on ")]


def kill_server(options, folder, server):
    """The server's end by SIGKILL in the middle of its work, and its place taken by another one with the same cache, which draws the
    same. The new server, and the promises that it keeps."""
    calm = argparse.Namespace(**{**vars(options), "requests": 40 * options.clients, "cancelled": 0, "killed": 0,
                                 "seconds": float("inf"), "name": "calm"})
    before = Clients(calm, addresses_of(options, server))
    while before.wait_for_ends(calm.requests):
        continue
    calm.name = "cut"
    streams = Clients(calm, addresses_of(options, server))
    while streams.ended < 2 * options.clients:
        streams.wait_for_ends(2 * options.clients)
    server.kill()
    while streams.wait_for_ends(calm.requests):
        continue
    server = server_of(options, folder, server.address)
    compiled = scrape(server).sum("latentd_graph_compilations_total")
    after = Clients(calm, addresses_of(options, server))
    while after.wait_for_ends(calm.requests):
        continue
    others = sum(after.digests[what] != digests for what, digests in before.digests.items())
    return server, (
        (f"kill -9 is told to all that are cut: {dict(streams.codes)}", "OK" in streams.codes and len(streams.codes) > 1),
        (f"the next one compiles nothing: {compiled:g}, and draws the same: {others} of {len(before.digests)} are others",
         compiled == 0 and not others and not before.wrong and not after.wrong))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--requests", type=int, default=5000, help="all of them")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="then no further one is asked for")
    parser.add_argument("--clients", type=int, default=4, help="at a time, each in a process of its own")
    parser.add_argument("--cancelled", type=float, default=0.05, help="share of the requests that are cancelled")
    parser.add_argument("--killed", type=float, default=0.02, help="share of the requests whose client is killed")
    parser.add_argument("--videos", type=float, default=0, help="share of the requests that are for videos, some by /v1/videos; with them "
                        "some are resumed, and some wrong")
    parser.add_argument("--server-kills", type=int, default=0, help="times that the server is killed in the end, and started again")
    parser.set_defaults(name="soak")
    parser.add_argument("--noise", type=float, default=8, help="MiB that resident memory may differ by, from the first tenth to the last")
    promises.add_server_flags(parser)
    return parser.parse_args()


def main():
    options = parse()
    server_process.configure(options)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        server = server_of(options, folder)
        try:
            soak = Soak(options, server)
            soak.run()
            holds = report(soak)
            for _ in range(options.server_kills):
                server, made = kill_server(options, folder, server)
                holds = promises.tell(made) and holds
            return 0 if holds else 1
        finally:
            server.kill()


if __name__ == "__main__":
    sys.exit(main())
