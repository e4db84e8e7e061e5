"""A process of peer.py, and what it needs to find diffusers."""

import json
import os
import pathlib
import subprocess
import zipfile

from . import processes
from .processes import Failure


def unpack_wheels(directory, target):
    """Unzips the wheels that lie in `directory` (such as diffusers-0.42.1-py3-none-any.whl); the folder to import them from."""
    for wheel in sorted(pathlib.Path(directory).glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    return target


def environment(paths, folder):
    """Environment of Python as it is, not of our programs."""
    kept = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    search = [str(path) for path in paths] + ([kept["PYTHONPATH"]] if kept.get("PYTHONPATH") else [])
    return {**kept, "PYTHONPATH": os.pathsep.join(search), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}


def missing(python, env):
    """The reason why it cannot run there; None: it can."""
    try:
        tried = processes.run([python, "-c", "import torch, diffusers"], timeout=300, env=env)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if tried.returncode == 0 else (tried.stderr.strip().splitlines() or ["it cannot be imported"])[-1]


class Peer:
    """Waits for commands; one mode, eager or compile."""

    def __init__(self, options, checkpoint, mode, folder):
        self._log = folder / f"peer-{mode}.log"
        precision = "bf16" if options.precision in ("fp8", "fp8_all") else options.precision
        command = [options.peer_python, "-B", pathlib.Path(__file__).with_name("peer.py"), "--checkpoint", checkpoint, "--mode", mode,
                   "--precision", precision, "--device", "cuda" if options.backend == "cuda" else "cpu"]
        with open(self._log, "w") as log:
            self._process = processes.spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                            env=options.peer_environment)
        self.versions = self._read()["versions"]

    def _read(self):
        line = self._process.stdout.readline()
        if not line:
            said = "\n".join(self._log.read_text().splitlines()[-5:])
            raise Failure(f"the peer ended; the end of what it said:\n{said}")
        return json.loads(line)

    def ask(self, do, **arguments):
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # _read says why
        answer = self._read()
        if "error" in answer:
            raise Failure(answer["error"])
        return answer

    def stop(self):
        self._process.kill()
        self._process.wait()
