"""What a process holds of memory while something runs."""

import asyncio
import pathlib


class Memory:
    """Resident MiB of a process while a block runs: at its beginning, at most, and at its end. Context manager."""

    def __init__(self, pid):
        self._status = pathlib.Path(f"/proc/{pid}/status")

    def now(self):
        """0 of a process that has ended."""
        resident = next((line for line in self._status.read_text().splitlines() if line.startswith("VmRSS:")), "VmRSS: 0 kB")
        return int(resident.split()[1]) / 1024

    async def _watch(self):
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
