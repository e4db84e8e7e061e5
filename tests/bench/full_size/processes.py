"""Processes that the bench starts: none outlives it, however it ends."""

import ctypes
import signal
import subprocess

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """A measurement that did not come about, and why."""


def end_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(command, **more):
    return subprocess.Popen(list(map(str, command)), text=True, preexec_fn=end_with_parent, **more)


def run(command, **more):
    """Its output is captured."""
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, preexec_fn=end_with_parent, **more)
