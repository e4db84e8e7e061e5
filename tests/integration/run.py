#!/usr/bin/env python3
"""Runs the integration tests: a real latentd and a real latent, and a stock gRPC client in Python.

The client comes from PyPI (requirements.txt, pinned hashes) into ~/.cache/latentd, once; python3 and python3-pip are
needed. Other programs are those that deploy/dependencies --tests unpacked, or else those of the machine. Whatever is
missing is an error: no test is skipped.
"""

import argparse
import faulthandler
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

# Tests start processes while clients have threads: what gRPC would do in the child before it becomes a latentd has hung it,
# and has written into its log.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

HERE = pathlib.Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"


CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "latentd"
DEPENDENCIES = subprocess.run([HERE.parents[1] / "deploy/dependencies", "--print-folder"], capture_output=True, text=True,
                              check=True).stdout.strip()
PROGRAMS = pathlib.Path(DEPENDENCIES) / "programs" / "usr"


def install_client(requirements: pathlib.Path = REQUIREMENTS) -> pathlib.Path:
    """The folder with the packages of that file; installs them where they are not."""
    return _install(requirements.read_text())


def install_groups(requirements: pathlib.Path) -> dict[str, pathlib.Path]:
    """A folder for each group of lines between empty ones, by the group's first requirement: NAME==VERSION.

    For versions of a package beside each other. Installs the lines alone, without what they require."""
    groups = re.split(r"\n{2,}", re.sub(r"^#.*\n", "", requirements.read_text(), flags=re.MULTILINE).strip())
    return {group.split(maxsplit=1)[0]: _install(group, "--no-deps", "--no-compile") for group in groups}


def _install(requirements: str, *options: str) -> pathlib.Path:
    key = "".join([requirements, *options, sys.version])
    folder = CACHE / f"integration-python-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    if folder.exists():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    unfinished = tempfile.mkdtemp(dir=CACHE)
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(requirements)
            file.flush()
            subprocess.run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir",
                 "--only-binary=:all:", "--require-hashes", *options, "--target", unfinished, "-r", file.name],
                check=True)
        try:
            os.rename(unfinished, folder)
        except OSError:  # another process was faster
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latentd", required=True, help="the server's executable")
    parser.add_argument("--latent", required=True, help="the client's executable")
    parser.add_argument("--checkpoint", required=True, help="the demo checkpoint, with base/ and refiner/ in it")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--time-limit", type=float, help="seconds until somebody ends this run; it says before where it hangs")
    parser.add_argument("--folder", type=pathlib.Path, default=HERE, help="where the tests are (default: beside this program)")
    parser.add_argument("tests", nargs="*", help="such as test_drain or test_drain.DrainTest (default: all)")
    options = parser.parse_args()

    if options.time_limit:
        faulthandler.dump_traceback_later(options.time_limit * 0.95)
    sys.path[:0] = [str(options.folder.resolve()), str(HERE), str(install_client())]
    os.environ.pop("http_proxy", None)
    os.environ["no_proxy"] = "*"
    os.environ["PATH"] = os.pathsep.join([str(PROGRAMS / "bin"), str(PROGRAMS / "sbin"), os.environ["PATH"]])
    import server_process  # needs the path above

    server_process.configure(options)
    loader = unittest.TestLoader()
    suite = (loader.loadTestsFromNames(options.tests) if options.tests
             else loader.discover(str(options.folder), pattern="test_*.py"))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun > 0 and not result.skipped else 1


if __name__ == "__main__":
    sys.exit(main())
