"""The machine of the bench: the GPU as nvidia-smi sees it, versions, the commit."""

import csv
import io
import os
import pathlib
import platform
import subprocess

GPU_FIELDS = ("name", "driver_version", "power.limit", "clocks.max.sm", "clocks.sm", "clocks.mem", "temperature.gpu", "memory.total",
              "memory.used", "persistence_mode")
MIB = 1 << 20


def parse_csv(text, fields):
    """A dictionary for each line of `nvidia-smi --format=csv,noheader,nounits`; numbers where they are some."""
    rows = csv.reader(io.StringIO(text), skipinitialspace=True)
    return [dict(zip(fields, map(number, row))) for row in rows if len(row) == len(fields)]


def number(text):
    try:
        return float(text)
    except ValueError:
        return text.strip()


def nvidia_smi(query, fields):
    """Output of nvidia-smi, or nothing where there is no driver."""
    command = ["nvidia-smi", f"--query-{query}={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return parse_csv(found.stdout, fields) if found.returncode == 0 else []


def gpu():
    """The first GPU, or None. A driver that does not know one of the fields says nothing at all."""
    found = nvidia_smi("gpu", GPU_FIELDS) or nvidia_smi("gpu", ("name", "driver_version"))
    return found[0] if found else None


def memory_used():
    """Bytes of the first GPU's memory that are taken, by any process; None without a GPU."""
    found = nvidia_smi("gpu", ("memory.used",))
    return int(found[0]["memory.used"] * MIB) if found and isinstance(found[0]["memory.used"], float) else None


def memory_of(process):
    """Bytes of GPU memory that the process of that number has; None where the driver does not say."""
    found = nvidia_smi("compute-apps", ("pid", "used_memory"))
    own = [app["used_memory"] for app in found if app["pid"] == process and isinstance(app["used_memory"], float)]
    return int(sum(own) * MIB) if own else None


def gpus():
    """The number of GPUs that there are."""
    return len(nvidia_smi("gpu", ("name",)))


def state():
    """State of the machine that changes while the bench runs and moves its figures."""
    found = nvidia_smi("gpu", ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw"))
    return found[0] if found else {}


def output_of(command, **more):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, **more).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def commit(root):
    changed = output_of(["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"])
    return output_of(["git", "-C", str(root), "rev-parse", "HEAD"]) + (" and changes" if changed else "")


def describe(root, options):
    return {
        "gpu": gpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "cpu": next((line.partition(":")[2].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                     if line.startswith("model name")), platform.machine()),
        "memory_bytes": {line.partition(":")[0]: 1024 * int(line.split()[1]) for line in pathlib.Path("/proc/meminfo").read_text().splitlines()
                         if line.startswith(("MemTotal", "MemAvailable"))},
        "kernel": platform.release(),
        "python": platform.python_version(),
        "latentd": output_of([str(options.latentd), "--version"], env=options.our_environment),
        "commit": options.commit or commit(root),
    }
