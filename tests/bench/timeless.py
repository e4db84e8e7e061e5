"""An event loop for tests in which no time passes."""

import asyncio
import heapq


class TimelessLoop(asyncio.SelectorEventLoop):
    """A loop whose clock, once all tasks wait, is at once where the first of them goes on."""

    _time = 0.0

    def time(self):
        return self._time

    def _run_once(self):
        while self._scheduled and self._scheduled[0].cancelled():
            heapq.heappop(self._scheduled)._scheduled = False
            self._timer_cancelled_count -= 1
        if self._scheduled and not self._ready:
            self._time = max(self._time, self._scheduled[0].when())
        super()._run_once()


def timeless(work):
    """Returns the coroutine's result; no time passes."""
    loop = TimelessLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
