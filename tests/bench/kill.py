#!/usr/bin/env python3
"""How soon clients hear of a replica that is ended with kill -9, and how soon it is back. README.md beside this says more."""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
import run  # noqa: E402

sys.path.insert(0, str(run.install_client()))
os.environ["no_proxy"] = "*"
import promises  # noqa: E402
import server_process  # noqa: E402
from metrics import METRICS, compilations  # noqa: E402
from open_streams import SIDE, OpenStreams, fields_of, room_for  # noqa: E402
from server_process import DEMO_BUCKETS, Api, Server  # noqa: E402

TOLD_BAR, READY_BAR = 1, 5  # seconds
SEEDS = range(1, 4)


class Rounds:
    """The same replica again and again, on its own address and cache; another one draws the same pictures beside it."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.told, self.ready, self.codes = [], [], set()
        self.compiled = self.other_pictures = 0
        self.replica = self.start("a")
        self.other = self.start("b")
        self.right = self.drawn(self.replica)

    def start(self, name, listen="127.0.0.1:0"):
        return Server(METRICS, room_for(self.options.clients), buckets=self.options.buckets, cache=self.folder / name, listen=listen).start()

    def drawn(self, server):
        api = Api(server.address)
        try:
            return [api.generate(api.request(**fields_of(seed, self.options.side))).images[0].data for seed in SEEDS]
        finally:
            api.close()

    def compare(self, server):
        self.other_pictures += sum(data != right for data, right in zip(self.drawn(server), self.right))

    def round(self):
        streams = OpenStreams(self.replica.address, range(1, self.options.clients + 1), self.options.side)
        streams.wait_until_drawn()
        killed = time.monotonic()
        self.replica.kill()
        ends = streams.ends()
        self.codes |= {code for code, _ in ends}
        self.told += [told - killed for _, told in ends]
        started = time.monotonic()
        self.replica = self.start("a", self.replica.address)
        self.ready.append(time.monotonic() - started)
        self.compiled += compilations(self.replica)
        for server in (self.replica, self.other):
            self.compare(server)

    def close(self):
        for server in (self.replica, self.other):
            server.kill()


def report(rounds):
    """True if the promises hold."""
    def seconds(samples):
        return f"median {statistics.median(samples):.3f} s, longest {max(samples):.3f} s, of {len(samples)}"

    made = ((f"clients are told within {TOLD_BAR} s: {seconds(rounds.told)}", max(rounds.told) <= TOLD_BAR),
            (f"what they are told is UNAVAILABLE: {', '.join(sorted(rounds.codes))}", rounds.codes == {"UNAVAILABLE"}),
            (f"READY within {READY_BAR} s of its start: {seconds(rounds.ready)}", max(rounds.ready) <= READY_BAR),
            (f"from the cache: {rounds.compiled} compilations", rounds.compiled == 0),
            (f"the same pictures, there and elsewhere: {rounds.other_pictures} others", rounds.other_pictures == 0))
    return promises.tell(made)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="how often it is killed")
    parser.add_argument("--clients", type=int, default=8, help="in the middle of a stream each time")
    parser.add_argument("--side", type=int, default=SIDE, help="of the pictures, which are squares")
    parser.add_argument("--buckets", default=DEMO_BUCKETS, help="latentd's; without it the model's own")
    promises.add_server_flags(parser)
    return parser.parse_args()


def main():
    options = parse()
    server_process.configure(options)
    with tempfile.TemporaryDirectory() as folder:
        rounds = Rounds(options, pathlib.Path(folder))
        try:
            for _ in range(options.rounds):
                rounds.round()
        finally:
            rounds.close()
    return 0 if report(rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
