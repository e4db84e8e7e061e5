"""The package latentd of the server's wheel: its console scripts start the programs that lie beside this file.

A program takes the place of this process, so that signals, standard input and the exit code are the program's own.
"""

import importlib.util
import os
import pathlib
import signal
import sys


def site_packages():
    """The folders that hold torch/ and nvidia/: two where a distribution keeps pure wheels elsewhere, none without those wheels."""
    folders = []
    for name in ("torch", "nvidia"):
        spec = importlib.util.find_spec(name)
        folders += [str(pathlib.Path(package).parent) for package in (spec and spec.submodule_search_locations) or ()]
    return list(dict.fromkeys(folders))


def start(name):
    found = site_packages()
    if found:
        os.environ.setdefault("LATENTD_SITE_PACKAGES", ":".join(found))
    # A program that starts with these ignored goes on writing into a closed pipe; Python has ignored them.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    program = pathlib.Path(__file__).resolve().parent / "bin" / name
    os.execv(program, [str(program), *sys.argv[1:]])


def latentd():
    start("latentd")


def latent():
    start("latent")
