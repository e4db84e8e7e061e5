"""A control group with one limit, of either version of the kernel's."""

import os
import pathlib
import tempfile

# By what is limited: the controller's folder and file in version 1, and the file in version 2.
_FILES = {"memory": ("memory/memory.limit_in_bytes", "memory.max"), "pids": ("pids/pids.max", "pids.max")}


class ControlGroup:
    """`enter` is for the process that is to be in it. OSError where none can be made."""

    def __init__(self, controller, limit):
        first, second = _FILES[controller]
        for parent, name in (("/sys/fs/cgroup/" + controller, pathlib.Path(first).name), ("/sys/fs/cgroup", second)):
            if not os.path.isdir(parent) or (parent == "/sys/fs/cgroup" and not os.path.exists(f"{parent}/cgroup.procs")):
                continue
            self.path = pathlib.Path(tempfile.mkdtemp(prefix="latentd-test-", dir=parent))
            self._limit = self.path / name
            try:
                self.limit_to(limit)
                return
            except OSError:
                self.remove()
                raise
        raise OSError("no control groups")

    def limit_to(self, limit):
        """A number, or "max"."""
        self._limit.write_text(str(limit))

    def read(self, name):
        """The number in a file of the group's."""
        return int((self.path / name).read_text())

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        self.path.rmdir()
