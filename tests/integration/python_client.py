"""latent-client as its users have it: a wheel built from clients/python, and installed."""

import atexit
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "clients/python"


@functools.lru_cache(maxsize=None)
def wheel() -> pathlib.Path:
    """Builds it with the packages that are there: once a process, without a network, and nothing is left in the sources."""
    folder = tempfile.TemporaryDirectory(prefix="latent-client-")
    atexit.register(folder.cleanup)
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps",
         "--no-index", "--wheel-dir", folder.name, str(SOURCES)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stderr
    built, = pathlib.Path(folder.name).glob("*.whl")
    return built


@functools.lru_cache(maxsize=None)
def installed() -> pathlib.Path:
    """The folder that it is unpacked in."""
    folder = wheel().parent / "installed"
    with zipfile.ZipFile(wheel()) as archive:
        archive.extractall(folder)
    return folder


def use():
    """Lets `import latent_client` find it. A call that it leaves waits for its server as long as a busy machine needs."""
    if str(installed()) not in sys.path:
        sys.path.insert(0, str(installed()))
    import latent_client.generation
    latent_client.generation.CANCEL_SECONDS = 60.0
