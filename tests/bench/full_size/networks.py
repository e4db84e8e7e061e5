"""Networks of a checkpoint in latentd, by cuda_network_bench."""

import re
import subprocess

from . import processes
from .processes import Failure

FIRST = re.compile(r"^(?P<component>\w+) (?P<shape>\d+@\d+x\d+(?:x\d+)?) (?P<precision>\w+)$")
PREPARED = re.compile(r"passes (?P<passes>[\d.]+) s, plan (?P<plan>[\d.]+) s \(\d+ bytes, arena (?P<arena_mib>[\d.]+) MiB\), "
                      r"digests (?P<digests>[\d.]+) s, load (?P<load>[\d.]+) s \((?P<weights_gb>[\d.]+) GB of weights\), capture (?P<capture>[\d.]+) s")
NOT_FINITE = re.compile(r"^  not finite: (?P<count>\d+) values$")
RUNS = re.compile(r"^  runs: (?P<runs>[\d. ]+)$")


def parse(text):
    """A dictionary for each shape: component, shape, samples in ms, what preparing took; lines of kernels as they are."""
    found = []
    for line in text.splitlines():
        first, prepared, runs, not_finite = FIRST.match(line), PREPARED.search(line), RUNS.match(line), NOT_FINITE.match(line)
        if first:
            found.append({**first.groupdict(), "samples": [], "kernels": []})
        elif found and prepared:
            found[-1].update({name: float(value) for name, value in prepared.groupdict().items()})
        elif found and runs:
            found[-1]["samples"] = [float(value) for value in runs["runs"].split()]
        elif found and not_finite:
            found[-1]["not_finite"] = int(not_finite["count"])
        elif found and found[-1]["samples"]:
            found[-1]["kernels"].append(line)
    return [network for network in found if network["samples"]]


def measure(options, checkpoint, component, shapes, runs, timeout, kernels=False):
    """The networks that parse finds for these shapes ("2@1024x1024"); fewer if it ended early, which the last one has as "ended"."""
    command = [options.network_bench, "--checkpoint", checkpoint, "--component", component, "--shapes", ",".join(shapes),
               "--backend", options.backend, "--precision", options.precision, "--runs", runs, *(["--kernels"] if kernels else [])]
    try:
        done = processes.run(command, timeout=timeout, env=options.our_environment)
    except subprocess.TimeoutExpired as late:
        said, why = late.stdout or "", f"took more than {timeout:.0f} s"
        said = said.decode() if isinstance(said, bytes) else said
    else:
        said, why = done.stdout, done.stderr.strip() if done.returncode != 0 else ""
    found = parse(said)
    if not found:
        raise Failure(f"cuda_network_bench {component}: {why or said[-500:]}")
    if why:
        found[-1]["ended"] = why
    return found
