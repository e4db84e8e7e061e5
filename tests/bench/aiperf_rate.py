#!/usr/bin/env python3
"""The rate that NVIDIA's aiperf measures over HTTP beside that of as many clients over gRPC, on one server. README.md beside this describes it."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import http_overhead  # noqa: F401  (finds the modules of tests/integration)
import promises
import server_process
from http_overhead import Grpc, http_address, percentile, together
from server_process import Server

RATE_BAR = 0.9  # times the pictures a second of gRPC's clients, and the other way round
REVISION = "0" * 40
NAME = "bytes/alone"


def write_tokenizer(cache):
    """A tokenizer of single bytes where aiperf finds it without a network: it counts the prompts' tokens, and makes them."""
    symbols = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 324))]  # GPT-2's, for bytes
    words = {"type": "BPE", "vocab": {symbol: i for i, symbol in enumerate(symbols)}, "merges": []}
    folder = cache / f"models--{NAME.replace('/', '--')}"
    snapshot = folder / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text(REVISION)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (snapshot / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level, "model": words}))
    (snapshot / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "!", "bos_token": "!"}))
    (snapshot / "config.json").write_text('{"model_type": "gpt2"}')


def of_aiperf(server, options):
    """Its seconds of each picture and pictures a second. A failed request fails this."""
    with tempfile.TemporaryDirectory() as folder:
        cache, results = pathlib.Path(folder) / "hub", pathlib.Path(folder) / "results"
        write_tokenizer(cache)
        inputs = {"size": f"{options.size}x{options.size}", "num_inference_steps": options.steps, "guidance_scale": 0}
        extra = [word for name, value in inputs.items() for word in ("--extra-inputs", f"{name}:{value}")]
        subprocess.run([options.aiperf, "profile", "--endpoint-type", "image_generation", "--url", f"http://{http_address(server)}",
                        "--model", "base", "--tokenizer", NAME, "--isl", "20", "--concurrency", str(options.clients), "--request-count",
                        str(options.pictures), "--ui", "none", "--artifact-dir", str(results), *extra],
                       check=True, stdout=subprocess.DEVNULL, env={**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"})
        report = json.loads(next(results.rglob("profile_export_aiperf.json")).read_text())
        assert report["request_count"]["avg"] == options.pictures, "a request has failed"
        latency = report["request_latency"]
        return {"p50": latency["p50"], "p99": latency["p99"], "rate": report["request_throughput"]["avg"]}


def of_grpc(server, options):
    start = time.perf_counter()
    seconds = together(lambda *where: Grpc(*where, steps=options.steps), server, options.size, options.clients, options.pictures // options.clients)
    rate = len(seconds) / (time.perf_counter() - start)
    return {"p50": percentile(seconds, 0.5) * 1000, "p99": percentile(seconds, 0.99) * 1000, "rate": rate}


def server_seconds(server):
    """CPU time of the server so far."""
    times = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def in_turns(server, options):
    """{name of the clients: what was found of them in each round}."""
    found = {"gRPC": [], "aiperf": []}
    for _ in range(options.rounds):
        for name, measure in (("gRPC", of_grpc), ("aiperf", of_aiperf)):
            before = server_seconds(server)
            found[name].append(measure(server, options))
            found[name][-1]["server"] = (server_seconds(server) - before) / options.pictures * 1000
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--aiperf", default="aiperf", help="the program, of a virtual environment with aiperf 0.13")
    parser.add_argument("--clients", type=int, default=4, help="at a time")
    parser.add_argument("--pictures", type=int, default=200, help="of all clients together, of each of the two in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=4)
    promises.add_server_flags(parser)
    return parser.parse_args()


def main():
    options = parse()
    server_process.configure(options)
    server = Server("--http-listen=127.0.0.1:0", buckets=f"{options.size}x{options.size}").start()
    try:
        together(Grpc, server, options.size, options.clients, 2)
        rounds = in_turns(server, options)
    finally:
        server.kill()
    found = {name: {key: statistics.median(one[key] for one in made) for key in made[0]} for name, made in rounds.items()}
    for name, median in found.items():
        print(f"{name:8} {median['rate']:6.2f} pictures a second  p50 {median['p50']:7.1f} ms  p99 {median['p99']:7.1f} ms  "
              f"{median['server']:6.1f} ms of the server's CPU time a picture")
    ratio = found["aiperf"]["rate"] / found["gRPC"]["rate"]
    return 0 if promises.tell([(f"aiperf's rate is within 10 % of gRPC's: {ratio - 1:+.0%}", RATE_BAR <= ratio <= 1 / RATE_BAR)]) else 1


if __name__ == "__main__":
    sys.exit(main())
