"""Memory of a process while something runs."""

import asyncio
import pathlib


class Memory:
    """Resident MiB of a process while a block runs: at its beginning, at most, and at its end. Context manager.

    It begins after `settles` seconds: what the first of each kind of work takes for good is no growth."""

    def __init__(self, pid, settles=0):
        self._status, self._settles = pathlib.Path(f"/proc/{pid}/status"), settles

    def now(self):
        """0 of a process that has ended."""
        resident = next((line for line in self._status.read_text().splitlines() if line.startswith("VmRSS:")), "VmRSS: 0 kB")
        return int(resident.split()[1]) / 1024

    async def _watch(self):
        await asyncio.sleep(self._settles)
        self.begin = self.most = self.now()
        while True:
            self.most = max(self.most, self.now())
            await asyncio.sleep(0.2)

    async def __aenter__(self):
        self.begin = self.most = self.now()
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_):
        self._watching.cancel()
        self.end = self.now()
        self.most = max(self.most, self.end)

    def document(self):
        return {"begin": self.begin, "most": self.most, "end": self.end}
