#!/usr/bin/env python3
"""A GPU that faults, as clients and a supervisor see it: while images are drawn, and while the server starts. README.md beside
this says more."""
import argparse
import json
import os
import pathlib
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
from server_process import Api, Server  # noqa: E402

TOLD_BAR, ENDED_BAR = 1, 10  # seconds
DEVICE_FAILED = 4  # latentd's exit code
SEEDS = range(1, 5)


class Bench:
    """One server after the other on the same cache, whose GPU can be made to fault."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.file = folder / "fault"
        self.promises = []

    def server(self):
        self.file.unlink(missing_ok=True)
        environment = {"LD_PRELOAD": str(self.options.injector), "GPU_FAULT_FILE": str(self.file)}
        return Server(METRICS, room_for(len(SEEDS)), buckets=self.options.buckets, cache=self.folder / "cache", environment=environment)

    def drawn(self, server):
        api = Api(server.address)
        try:
            return [api.generate(api.request(**fields_of(seed, self.options.side))).images[0].data for seed in SEEDS]
        finally:
            api.close()

    def promise(self, said, holds):
        self.promises.append((said, holds))

    def look_at_end(self, server, faulted, when):
        code = server.wait()
        seconds = time.monotonic() - faulted
        faults = [entry["fault"] for entry in map(json.loads, server.lines)
                  if entry["message"].startswith("the device has failed")]
        self.promise(f"{when}: the process ends within {ENDED_BAR} s: {seconds:.2f} s", seconds <= ENDED_BAR)
        self.promise(f"{when}: with exit code {DEVICE_FAILED}: {code}", code == DEVICE_FAILED)
        self.promise(f"{when}: the log says what CUDA said, once: {'; '.join(faults)}", len(faults) == 1)

    def while_drawing(self):
        """Images drawn before the fault."""
        server = self.server().start()
        before = self.drawn(server)
        streams = OpenStreams(server.address, SEEDS, self.options.side)
        streams.wait_until_drawn()
        faulted = time.monotonic()
        self.file.touch()
        ends = streams.ends()
        self.promise(f"drawing: clients are told within {TOLD_BAR} s: {max(told for _, told in ends) - faulted:.2f} s",
                     all(told - faulted <= TOLD_BAR for _, told in ends))
        self.promise(f"drawing: UNAVAILABLE: {', '.join(sorted({code for code, _ in ends}))}", {code for code, _ in ends} == {"UNAVAILABLE"})
        self.look_at_end(server, faulted, "drawing")
        return before

    def while_starting(self):
        server = self.server().listening()
        faulted = time.monotonic()
        self.file.touch()
        self.look_at_end(server, faulted, "starting")

    def afterwards(self, before):
        server = self.server().start()
        try:
            self.promise(f"afterwards: READY from the cache: {compilations(server)} compilations", compilations(server) == 0)
            aside = list((self.folder / "cache/quarantine").glob("*"))
            self.promise(f"afterwards: no artifact was set aside: {len(aside)}", not aside)
            self.promise("afterwards: the same pictures", self.drawn(server) == before)
        finally:
            server.kill()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--injector", type=pathlib.Path, default=ROOT / "build/tests/bench/libgpu_fault.so", help="what makes the GPU fault")
    parser.add_argument("--side", type=int, default=SIDE, help="of the pictures, which are squares")
    parser.add_argument("--buckets", default=f"64x64,{SIDE}x{SIDE}", help="latentd's")
    promises.add_server_flags(parser)
    parser.set_defaults(backend="cuda")
    return parser.parse_args()


def main():
    options = parse()
    server_process.configure(options)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, pathlib.Path(folder))
        before = bench.while_drawing()
        bench.while_starting()
        bench.afterwards(before)
    return 0 if promises.tell(bench.promises) else 1


if __name__ == "__main__":
    sys.exit(main())
