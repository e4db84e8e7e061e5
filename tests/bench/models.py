#!/usr/bin/env python3
"""Measures models that share a server: how soon a second checkpoint of SDXL is there once it is asked for, what switching between two that
are loaded costs, and what it takes where only one fits. Checkpoints have random weights; the page cache has their files.

    tests/bench/models.py --latentd build/server/latentd --latent build/client/latent --work /dev/shm/models
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))
from full_size import checkpoint  # noqa: E402


class Latentd:
    def __init__(self, options, name, *flags):
        self.options = options
        self.socket = f"unix:{options.work}/{name}.sock"
        self.log = options.work / f"{name}.log"
        command = [options.latentd, f"--backend={options.backend}", f"--base={options.first}", f"--model=other={options.second}",
                   f"--buckets={options.size}", "--rows=1,2", f"--cache-dir={options.work}/cache", f"--listen={self.socket}", *flags]
        begin = time.monotonic()
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, stderr=log)
        code, said = self.latent("health", "--wait", "9m")
        if code:
            raise SystemExit(f"{name}: {said}\n{self.log.read_text()}")
        self.ready = time.monotonic() - begin

    def latent(self, *arguments):
        done = subprocess.run([self.options.latent, *arguments, f"--server={self.socket}"], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def seconds(self, *arguments):
        begin = time.monotonic()
        code, said = self.latent(*arguments)
        if code:
            raise SystemExit(f"latent {' '.join(arguments)}: {said}\n{self.log.read_text()[-3000:]}")
        return time.monotonic() - begin

    def draw(self, model, steps=1):
        return self.seconds("generate", "a lighthouse in a storm", f"--model={model}", f"--num-inference-steps={steps}", "--seed=7",
                            "-o", str(self.options.work / f"{model}-{time.monotonic_ns()}.png"))

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


def alternating(server, count):
    """(medians of the time of a request whose model is that of the request before, and of one whose model is the other's)"""
    same, other = [], []
    for _ in range(count):
        server.draw("base")
        same.append(server.draw("base"))
        server.draw("other")
        same.append(server.draw("other"))
        other += [server.draw("base"), server.draw("other")]
    return statistics.median(same), statistics.median(other)


def write_base(options, name):
    """A base whose tensors have the shapes of any other's, and no content of theirs."""
    folder = options.work / name
    numbers = checkpoint.Numbers()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        for part, component in getattr(checkpoint, options.architecture)(ROOT)["base"].items():
            (folder / part).mkdir(parents=True, exist_ok=True)
            (folder / part / "config.json").write_text(json.dumps(component.config) + "\n")
            checkpoint.write_tensors(folder / part / checkpoint.tensor_file(part), component.shapes, numbers, threads, salt=name)
    checkpoint.write_rest(ROOT, "base", folder)
    return folder


def measure(options):
    results = {}
    server = Latentd(options, "first")  # fills the cache: graphs, digests
    results["ready_from_nothing_s"] = server.ready
    server.latent("models", "load", "other")
    server.stop()

    server = Latentd(options, "warm")
    results["ready_from_cache_s"] = server.ready
    server.draw("base")
    results["first_request_of_loaded_s"] = server.draw("base")
    results["first_request_on_demand_s"] = server.draw("other")
    results["second_request_on_demand_s"] = server.draw("other")
    results["evict_s"] = server.seconds("models", "evict", "other")
    results["load_s"] = [server.seconds("models", "load", "other")]
    for _ in range(3):
        server.seconds("models", "evict", "other")
        results["load_s"].append(server.seconds("models", "load", "other"))
    same, other = alternating(server, options.rounds)
    results["same_model_median_s"], results["other_model_median_s"] = same, other
    results["models"] = json.loads(server.latent("models", "--json")[1])
    server.stop()

    if options.memory:
        server = Latentd(options, "tight", f"--memory={options.memory}")
        results["tight_ready_s"] = server.ready
        server.draw("base")
        results["tight_switch_s"] = [server.draw(model) for model in ("other", "base", "other", "base")]
        server.stop()
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latentd", required=True)
    parser.add_argument("--latent", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for checkpoints, cache and logs")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--size", default="1024x1024")
    parser.add_argument("--architecture", choices=("full", "reduced"), default="full")
    parser.add_argument("--memory", default="", help="--memory of a server for one model, such as 11GiB")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    os.environ["XDG_RUNTIME_DIR"] = str(options.work)
    options.work.mkdir(parents=True, exist_ok=True)
    options.first, options.second = write_base(options, "one"), write_base(options, "two")
    print(json.dumps(measure(options), indent=1))


if __name__ == "__main__":
    main()
