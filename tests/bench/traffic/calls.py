"""How requests are asked for: at their times, through a queue, again after a refusal. Whatever does the sending is a function
`send(job, timeout)` that awaits an Attempt; time is the event loop's."""

import asyncio
import dataclasses
import typing

OK = "OK"
MISSED = "DEADLINE_EXCEEDED"
DROPPED = "DROPPED"  # by the bench's own queue: its deadline passed before its turn
REFUSED = "REFUSED"  # and did not come back, or had no time left for it
MOST_RETURNS = 20  # limit for one request: a client that was told wrong that often gives up
REFUSALS = frozenset({"QUEUE_FULL", "PREDICTED_OVERRUN"})


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One call. Seconds are from its beginning: to its end, and to the end of each step of its picture."""

    code: str
    seconds: float
    steps: tuple = ()
    reason: str = ""
    retry_seconds: typing.Optional[float] = None

    @property
    def first_step(self):
        return self.steps[0] if self.steps else None

    @property
    def refused(self):
        return self.reason in REFUSALS


@dataclasses.dataclass
class Outcome:
    """One request from its arrival on, by all its calls, each of which has the deadline."""

    job: typing.Any
    deadline: float
    seconds: float
    code: str
    waited: float = 0.0  # part of these seconds, before its last call
    first_step: typing.Optional[float] = None
    refusals: list = dataclasses.field(default_factory=list)
    late: list = dataclasses.field(default_factory=list)  # seconds that each call was made later than it was due: the bench's fault

    @property
    def returns(self):
        return len(self.late) - 1

    @property
    def kept(self):
        return self.code == OK and self.seconds - self.waited <= self.deadline

    @property
    def failed(self):
        """Ended in a way that load does not explain."""
        return self.code not in (OK, MISSED, DROPPED, REFUSED)


def now():
    return asyncio.get_running_loop().time()


async def ask(send, job, deadline, arrival, patient=False):
    """Until it is served, or its deadline is over, or it is refused; who is patient comes back when the refusal says, as long as
    that is no longer than its deadline, and has as much time then as before."""
    refusals, late, due = [], [], arrival
    while True:
        late.append(now() - due)
        began = now() - arrival
        waited = due - arrival
        attempt = await send(job, max(0.0, deadline - (began - waited)))
        if attempt.refused:
            refusals.append(attempt)
        delay = attempt.retry_seconds
        if not (attempt.refused and patient and delay is not None and delay < deadline and len(late) <= MOST_RETURNS):
            code = REFUSED if attempt.refused else attempt.code
            first = None if attempt.first_step is None else began + attempt.first_step
            return Outcome(job, deadline, began + attempt.seconds, code, waited, first, refusals, late)
        due = now() + delay
        await asyncio.sleep(delay)


async def play(send, jobs, deadline_of, patient=lambda caller: False, start=None):
    """Asks for each at its time after `start`, by default now; the outcomes, once all have ended."""
    start, asked = now() if start is None else start, []
    for job in jobs:
        await asyncio.sleep(max(0.0, start + job.offset - now()))
        asked.append(asyncio.create_task(ask(send, job, deadline_of(job), start + job.offset, patient(job.caller))))
    return await asyncio.gather(*asked)


class Fifo:
    """Sends one request at a time, in the order in which they came, and drops what has no time left when its turn comes."""

    def __init__(self, send):
        self._send, self._turn = send, asyncio.Lock()

    async def send(self, job, timeout):
        arrival = now()
        async with self._turn:  # the longest waiting is next
            waited = now() - arrival
            if waited >= timeout:
                return Attempt(DROPPED, waited)
            attempt = await self._send(job, timeout - waited)
        return dataclasses.replace(attempt, seconds=waited + attempt.seconds, steps=tuple(waited + step for step in attempt.steps))
