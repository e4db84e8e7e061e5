"""Draws the same pictures in latentd and in its peers, turn about on one machine, and prints how they compare."""
import argparse
import dataclasses
import json
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PEERS = {"eager": ("diffusers, eager", []), "compile": ("diffusers, torch.compile", ["--compile"])}
# Bars of latentd: times faster than each peer, share of the peer's memory, seconds of a first image beyond a later one.
SPEED_BARS = {"eager": 1.8, "compile": 1.2}
MEMORY_BAR = 0.5
START_BAR = 1.0
# Difference of 255: two float32 implementations of the same arithmetic differ by no more.
PIXEL_BAR = 1


@dataclasses.dataclass
class Contestant:
    """A process that draws on command; `worker` is the one that does the work, `pipe` the one that takes commands."""

    name: str
    worker: subprocess.Popen
    pipe: subprocess.Popen
    started: float
    picture: str
    log: str = ""  # a file with what it said; empty: it went to standard error
    first: float = 0.0  # seconds from the start of the process to the first picture
    seconds: list = dataclasses.field(default_factory=list)
    peak_mib: float = 0.0

    def draw(self, count):
        self.pipe.stdin.write(f"draw {count} {self.picture}\n")
        self.pipe.stdin.flush()
        line = self.pipe.stdout.readline()
        if not line:
            said = pathlib.Path(self.log).read_text()[-4000:] if self.log else ""
            sys.exit(f"{said}\nbench: {self.name} ended without an answer (exit code {self.pipe.wait()})")
        return json.loads(line)

    def draw_first(self):
        self.first = self.draw(1)["first_end"] - self.started

    def draw_round(self, count):
        self.seconds += self.draw(count)["seconds"]

    def finish(self):
        status = pathlib.Path(f"/proc/{self.worker.pid}/status").read_text()
        self.peak_mib = int(status.split("VmHWM:")[1].split()[0]) / 1024
        self.pipe.stdin.close()
        self.pipe.wait()
        self.worker.terminate()
        self.worker.wait()

    @property
    def median(self):
        return statistics.median(self.seconds)


def size(text):
    width, height = map(int, text.split("x"))
    return width, height


def request(arguments):
    """The same for all, with diffusers' names."""
    return {"prompt": arguments.prompt, "width": arguments.size[0], "height": arguments.size[1], "num_inference_steps": arguments.steps,
            "guidance_scale": arguments.guidance, "seed": arguments.seed}


def spawn(command, **more):
    return subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)


def wait_for_listener(path, server):
    """Until something accepts connections: a connection tried too early would make gRPC wait for a second."""
    while server.poll() is None:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                return probe.connect(path)
            except OSError:
                time.sleep(0.001)
    sys.exit(f"bench: latentd ended with exit code {server.returncode}; its log is above")


def start_latentd(arguments, folder):
    """The client is there before the server, so that its own start is not counted."""
    path = f"{folder}/latentd.sock"
    text = " ".join(f"{name}: {json.dumps(value)}" for name, value in request(arguments).items())
    client = spawn([arguments.client, f"unix:{path}", text])
    in_float32 = [] if any(flag.startswith("--precision") for flag in arguments.latentd_flag) else ["--precision=fp32"]
    started = time.monotonic()
    server = subprocess.Popen([arguments.latentd, f"--listen=unix:{path}", f"--base={arguments.model}/base", f"--cache-dir={folder}/cache",
                               "--log-level=warning",
                               f"--backend={arguments.backend}", *in_float32, *arguments.latentd_flag])
    wait_for_listener(path, server)
    return Contestant(f"latentd ({arguments.backend})", server, client, started, f"{folder}/latentd.png")


def start_peer(arguments, folder, peer):
    name, flags = PEERS[peer]
    log = f"{folder}/{peer}.log"
    started = time.monotonic()
    with open(log, "w") as said:
        process = spawn([arguments.peer_python, HERE / "peer.py", "--model", f"{arguments.model}/base",
                         "--request", json.dumps(request(arguments)), *flags], stderr=said, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    return Contestant(name, process, process, started, f"{folder}/{peer}.png", log)


def pixel_difference(arguments, first, second):
    found = subprocess.run([arguments.peer_python, HERE / "compare.py", first, second], capture_output=True, text=True)
    if found.returncode != 0:
        sys.exit(f"bench: cannot compare the pictures: {found.stderr.strip()}")
    return int(found.stdout)


def measure(arguments, folder):
    """latentd and the peers by their keys, each started and warmed alone, then drawing turn about."""
    contestants = {"latentd": start_latentd(arguments, folder)}
    contestants["latentd"].draw_first()
    for peer in filter(None, arguments.peers.split(",")):
        contestants[peer] = start_peer(arguments, folder, peer)
        contestants[peer].draw_first()
    for contestant in contestants.values():
        contestant.draw(1)
    for _ in range(arguments.rounds):
        for contestant in contestants.values():
            contestant.draw_round(arguments.pictures)
    for contestant in contestants.values():
        contestant.finish()
    return contestants


def bars(arguments, contestants):
    """(promise, figure found, true if it holds)"""
    latentd = contestants["latentd"]
    extra = latentd.first - latentd.median
    yield f"first picture at most {START_BAR:g} s beyond a later one", f"{extra:.2f} s", extra <= START_BAR
    for key, peer in contestants.items():
        if key == "latentd":
            continue
        ratio, memory = peer.median / latentd.median, latentd.peak_mib / peer.peak_mib
        pixels = pixel_difference(arguments, latentd.picture, peer.picture)
        yield f"the picture of {peer.name}, to {PIXEL_BAR}/255", f"{pixels}/255", pixels <= PIXEL_BAR
        yield f"at least {SPEED_BARS[key]:g} times as fast as {peer.name}", f"{ratio:.2f} times", ratio >= SPEED_BARS[key]
        yield f"at most {MEMORY_BAR:.0%} of the memory of {peer.name}", f"{memory:.0%}", memory <= MEMORY_BAR


def report(arguments, contestants, found):
    width = max(len(contestant.name) for contestant in contestants.values())
    print(f"\n{'':{width}}  pictures/s   s/picture   (least to most)   peak MiB   start to first picture")
    for c in contestants.values():
        print(f"{c.name:{width}}  {1 / c.median:10.3f}  {c.median:10.3f}   ({min(c.seconds):.3f} to {max(c.seconds):.3f})"
              f"   {c.peak_mib:8.0f}   {c.first:8.2f} s")
    print()
    for promise, value, holds in found:
        print(f"{'holds ' if holds else 'MISSED'}  {promise}: {value}")


def write_json(arguments, contestants, found):
    rows = {key: {"name": c.name, "seconds": c.seconds, "median": c.median, "peak_mib": c.peak_mib, "first": c.first}
            for key, c in contestants.items()}
    document = {"request": request(arguments), "cpus": len(os.sched_getaffinity(0)), "contestants": rows,
                "bars": [dict(zip(("promise", "found", "holds"), bar)) for bar in found]}
    pathlib.Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n")


def parse():
    parser = argparse.ArgumentParser(prog="tests/bench/run", description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--peers", default="eager", help="of eager,compile; empty: latentd alone. torch.compile takes minutes to start")
    parser.add_argument("--rounds", type=int, default=5, help="turns that each takes, after the first picture and a warm one")
    parser.add_argument("--pictures", type=int, default=2, help="pictures in a turn")
    parser.add_argument("--size", type=size, default="256x256", help="WIDTHxHEIGHT")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--guidance", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--prompt", default="a large yellow star on a purple background")
    parser.add_argument("--model", default=ROOT / "deploy/demo-model", help="a folder with base/ in the diffusers layout")
    parser.add_argument("--latentd", default=ROOT / "build/server/latentd")
    parser.add_argument("--client", default=ROOT / "build/tests/bench/bench_client")
    parser.add_argument("--backend", default="cpu", help="latentd's")
    parser.add_argument("--latentd-flag", action="append", default=[], help="one more flag for latentd")
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--peer-python", default=sys.executable, help=argparse.SUPPRESS)
    parser.add_argument("--print-peers", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for name in (arguments.latentd, arguments.client):
        if not os.access(name, os.X_OK):
            parser.exit(2, f"bench: {name} is not there; build latentd and the tests first (deploy/test)\n")
    unknown = set(filter(None, arguments.peers.split(","))) - set(PEERS)
    if unknown:
        parser.error(f"--peers: no {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    return arguments


def main():
    arguments = parse()
    if arguments.print_peers:
        print(arguments.peers)
        return 0
    cpus = len(os.sched_getaffinity(0))
    print(f"{'x'.join(map(str, arguments.size))}, {arguments.steps} steps, guidance {arguments.guidance:g}, float32, {cpus} CPUs ({platform.machine()}); "
          f"median of {arguments.rounds * arguments.pictures}")
    if os.getloadavg()[0] > 0.5:
        print(f"note: the machine is not idle (load average {os.getloadavg()[0]:.1f}); the numbers will show it")
    with tempfile.TemporaryDirectory(prefix="latentd-bench-") as folder:
        contestants = measure(arguments, folder)
        found = list(bars(arguments, contestants))
    report(arguments, contestants, found)
    if arguments.json:
        write_json(arguments, contestants, found)
    return 1 if arguments.check and not all(holds for _, _, holds in found) else 0


if __name__ == "__main__":
    sys.exit(main())
