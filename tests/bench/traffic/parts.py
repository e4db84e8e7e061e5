"""The measurements, part by part; each adds to the document of its session."""

import asyncio
import dataclasses
import random
import statistics

from full_size.processes import Failure

from . import figures
from .calls import OK, play
from .memory import Memory
from .mixture import FEWEST_STEPS, MOST_STEPS, Alone, Job, area_of, size_of, text_of

WARM_UP = 0.2  # part of a window: arrivals in it are served and not counted
AT_MOST = 20_000  # requests of a window
CALL_SECONDS = 600  # limit of a request without a deadline
TIMES_ALONE = 3  # is the deadline
ARRIVAL_GAP = (0.1, 0.3)  # seconds between short requests
SETTLES = 0.2  # part of the overload's time: memory is measured from there on
LONG_STEPS = 100
UNDER_WAY, SHORT_ONES = 1.0, 3  # seconds until long ones are; short requests that are asked for then, one after the other
ROUNDS = 2  # rounds of small jobs alone and beside a large one


def requests_of(outcomes):
    """All samples, as they go to the JSON: when, what, how it ended, what each refusal said."""
    return [[round(outcome.job.offset, 4), list(outcome.job.size), outcome.job.steps, outcome.job.guided, outcome.job.caller,
             outcome.code, round(outcome.seconds, 4), outcome.first_step and round(outcome.first_step, 4),
             [[refusal.reason, refusal.retry_seconds] for refusal in outcome.refusals]] for outcome in outcomes]


async def drawn(send, job):
    """Seconds of a picture that must come."""
    attempt = await send(job, CALL_SECONDS)
    if attempt.code != OK:
        raise Failure(f"a request without competition ended with {attempt.code} {attempt.reason}".rstrip())
    return attempt.seconds


async def draw_each_size(session, contestant):
    """The first pictures of a process take longer."""
    async with session.sending(contestant) as send:
        for number, size in enumerate(session.sizes):
            for guided in (True, False):
                await drawn(send, Job(number, size, FEWEST_STEPS, guided))


async def alone(session):
    """Seconds of every size, with and without guidance, with the fewest and the most steps: what deadlines are made of."""
    kinds = [(size, guided, steps) for size in session.sizes for guided in (True, False) for steps in (FEWEST_STEPS, MOST_STEPS)]
    samples = {kind: [] for kind in kinds}
    async with session.sending("latentd") as send:
        for number in range(session.options.alone_repeats):
            for size, guided, steps in kinds:
                samples[size, guided, steps].append(await drawn(send, Job(number, size, steps, guided)))
    few, many = ({(size, guided): statistics.median(samples[size, guided, steps]) for size, guided, counted in kinds if counted == steps}
                 for steps in (FEWEST_STEPS, MOST_STEPS))
    session.alone = Alone(few, many)
    mean = session.mixture.mean_seconds(session.alone, session.options.seed)
    session.document["alone"] = {"seconds": session.alone.document(), "mean_seconds": mean, "one_at_a_time": 1 / mean}
    session.say(f"alone: {mean:.3g} s a request in the mean, {1 / mean:.3g} a second one after the other")


async def window(session, contestant, rate, seconds):
    """The outcomes of what came after the warm-up, once all have ended."""
    jobs = session.mixture.arrivals(session.options.seed, rate, seconds, AT_MOST)
    async with session.sending(contestant) as send:
        outcomes = await play(send, jobs, lambda job: TIMES_ALONE * session.alone.seconds(job))
    session.note_failures(contestant, outcomes)
    return [outcome for outcome in outcomes if outcome.job.offset >= WARM_UP * seconds]


async def rate_window(session, contestant, rate):
    """Kept deadlines and latencies at a rate, as a window of a RateSearch has them."""
    outcomes = await window(session, contestant, rate, session.options.seconds)
    kept = figures.share_kept(outcomes)
    session.say(f"  {contestant:8} {rate:7.3g} a second: {kept:5.1%} of {len(outcomes)} deadlines kept")
    return {"rate": rate, "kept": kept, "counted": len(outcomes), **figures.latency(outcomes), "codes": figures.codes(outcomes),
            "requests": requests_of(outcomes)}


async def capacity(session):
    """The rate at which 90 % of deadlines are kept, for each contestant; window by window in turns, since machines vary."""
    one_at_a_time = session.document["alone"]["one_at_a_time"]
    low, high = (factor * one_at_a_time for factor in session.options.rates)
    searches = {contestant: figures.RateSearch(low, high) for contestant in session.contestants}
    for _ in range(session.options.windows):
        for contestant, search in searches.items():
            kept = await session.attempt("capacity", contestant, lambda *_: rate_window(session, contestant, search.next_rate))
            if kept:
                search.add(**kept)
        session.document["capacity"] = {contestant: search.document() for contestant, search in searches.items() if search.windows}
        session.save()
    await at_same_rate(session, session.document["capacity"])


async def at_same_rate(session, found):
    """How latencies compare: a window of each at the rate that the slowest keeps up with."""
    held = [each["best"]["rate"] for each in found.values() if each["best"]]
    for contestant in found if held else ():
        kept = await session.attempt("capacity", contestant, lambda *_: rate_window(session, contestant, min(held)))
        if kept:
            found[contestant]["at_same_rate"] = kept


async def small_jobs(send, size, seconds, first):
    """Asks for one small picture after the other; their outcomes as attempts."""
    end, attempts = asyncio.get_running_loop().time() + seconds, []
    while asyncio.get_running_loop().time() < end:
        attempts.append(await send(Job(first + len(attempts), size, FEWEST_STEPS, True), CALL_SECONDS))
    return attempts


async def large_jobs(send, size, begun, attempts):
    """Draws jobs of many steps, one after the other until cancelled; `begun` is set once the first one is under way."""
    job = Job(0, size, MOST_STEPS, True, caller=1)
    while True:
        asking = asyncio.create_task(send(job, CALL_SECONDS))
        try:
            if not begun.is_set():
                await asyncio.wait([asking], timeout=1)
                begun.set()
            attempt = await asking
        finally:
            asking.cancel()
        if attempt.code != OK:
            raise Failure(f"the large request ended with {attempt.code} {attempt.reason}".rstrip())
        attempts.append(attempt)


async def beside_large(send, large_size, attempts, work):
    """The result of `work()` while large images are drawn at all times; `attempts` gets those that were."""
    begun = asyncio.Event()

    async def begin():
        await begun.wait()
        return await work()

    large, working = asyncio.create_task(large_jobs(send, large_size, begun, attempts)), asyncio.create_task(begin())
    try:
        await asyncio.wait([working, large], return_when=asyncio.FIRST_COMPLETED)
        return await (large if large.done() else working)
    finally:
        large.cancel()
        working.cancel()
        await asyncio.gather(large, working, return_exceptions=True)


async def isolate(session, contestant):
    """Rounds turn about, so that a machine that gets slower does so for both."""
    large, small, seconds = max(session.sizes, key=area_of), size_of(session.options.small), session.options.seconds / ROUNDS
    quiet, beside = [], []
    for _ in range(ROUNDS):
        async with session.sending(contestant) as send:
            quiet += await small_jobs(send, small, seconds, len(quiet))
        async with session.sending(contestant) as send:
            beside += await beside_large(send, large, [], lambda: small_jobs(send, small, seconds, len(beside)))
    if any(attempt.code != OK for attempt in quiet + beside):
        raise Failure(f"small requests ended with {sorted({attempt.code for attempt in quiet + beside} - {OK})}")
    found = {name: {**figures.spread([attempt.seconds for attempt in attempts]), "samples": [attempt.seconds for attempt in attempts]}
             for name, attempts in (("quiet", quiet), ("beside", beside))}
    session.say(f"  {contestant:8} p99 {found['quiet']['p99']:.3g} s alone, {found['beside']['p99']:.3g} s beside a large picture")
    return {**found, "small": list(small), "large": list(large)}


async def isolation(session):
    """The wait of small requests while a large one runs at all times."""
    session.document["isolation"] = found = {}
    for contestant in list(session.contestants):
        measured = await session.attempt("isolation", contestant, isolate)
        if measured:
            found[contestant] = measured
            session.save()


async def waits_for_step(send, size, large, count, seed):
    """Times that so many short requests wait until their own first step begins: a step of one takes as long as its last but one.
    They go on until one of `large` is through."""
    gaps, waits = random.Random(seed), []
    while len(waits) < count or not large:
        await asyncio.sleep(gaps.uniform(*ARRIVAL_GAP))
        attempt = await send(Job(len(waits), size, FEWEST_STEPS, True), CALL_SECONDS)
        if attempt.code != OK or len(attempt.steps) < FEWEST_STEPS:
            raise Failure(f"a short request ended with {attempt.code} {attempt.reason} after {len(attempt.steps)} steps")
        waits.append(attempt.steps[0] - (attempt.steps[-2] - attempt.steps[-3]))
    return waits


async def arrive(session, contestant):
    """By size."""
    options, found = session.options, {}
    async with session.sending(contestant) as send:
        for size in session.sizes:
            large = []
            waits = await beside_large(send, size, large, lambda: waits_for_step(send, size, large, options.arrivals, options.seed))
            step = statistics.median(end - begin for attempt in large for begin, end in zip(attempt.steps, attempt.steps[1:]))
            found[text_of(size)] = {"waits": figures.spread(waits), "step": step, "samples": waits}
    return found


async def arrival(session):
    """How long a short request waits, beside a picture that is drawn at all times, until its own first step begins."""
    measured = await session.attempt("arrival", "latentd", arrive)
    if measured:
        session.document["arrival"] = measured
        for text, each in measured.items():
            session.say(f"  {text}: {each['waits']['p50'] * 1000:.3g} ms until the own first step, where a step takes {each['step'] * 1000:.3g}")


async def seconds_beside(send, job, long_ones):
    """Seconds of a request while long ones run, the first of which has begun a while ago: the median of some."""
    asking = [asyncio.create_task(send(long, CALL_SECONDS)) for long in long_ones]
    try:
        if asking:
            await asyncio.sleep(UNDER_WAY)
        seconds = [await drawn(send, job) for _ in range(SHORT_ONES)]
        return None if asking and all(each.done() for each in asking) else statistics.median(seconds)
    finally:
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


async def pass_long_ones(session, contestant):
    """By guidance, steps, and how many long pictures there are: as requests of their own, and as one request of so many."""
    size, found = size_of(session.options.small), []
    async with session.sending(contestant) as send:
        for guided in (True, False):
            for steps in session.options.short_steps:
                short = Job(1, size, steps, guided)
                alone_seconds = await seconds_beside(send, short, [])
                for count in session.options.long_ones:
                    long = Job(2, size, LONG_STEPS, guided)
                    requests = await seconds_beside(send, short, [long] * count)
                    pictures = await seconds_beside(send, short, [dataclasses.replace(long, images=count)])
                    found.append({"guided": guided, "steps": steps, "beside": count, "alone": alone_seconds, "requests": requests,
                                  "pictures": pictures})
                    session.say(f"  {steps} steps {'' if guided else 'without guidance '}beside {count} of {LONG_STEPS}: " + ", ".join(
                        "the long ones ended first" if seconds is None else f"{seconds:.3g} s, {seconds / alone_seconds:.2f} times alone"
                        for seconds in (requests, pictures)))
    return found


async def passing(session):
    """How long a short request takes beside long ones of its size and its caller, when none has a deadline that matters."""
    measured = await session.attempt("passing", "latentd", pass_long_ones)
    if measured:
        session.document["passing"] = measured


def capacity_of(session):
    """Requests a second that count as what the machine can do, and where that is from."""
    if session.options.capacity:
        return session.options.capacity, "--capacity"
    best = session.document.get("capacity", {}).get("latentd", {}).get("best")
    return (best["rate"], "measured") if best else (session.document["alone"]["one_at_a_time"], "one after the other")


async def overwhelm(session, contestant):
    """A process of its own, so that its memory begins where that of a new one does."""
    options, rate = session.options, session.document["overload"]["capacity"]
    session.restart(contestant)
    await draw_each_size(session, contestant)
    jobs = session.mixture.arrivals(options.seed, options.overload * rate, options.overload_seconds, AT_MOST)
    async with Memory(session.server(contestant).pid, SETTLES * options.overload_seconds) as memory:
        outcomes = await session.crowd(contestant).play(jobs, options.overload_deadline)
    session.note_failures(contestant, outcomes)
    good = figures.goodput(outcomes, session.alone, options.overload_seconds)
    capacity_work = rate * session.document["alone"]["mean_seconds"]
    session.say(f"  {contestant:8} {good['work'] / capacity_work:.0%} of the capacity came in time, of {len(outcomes)} requests")
    return {"asked": len(outcomes), "served": sum(outcome.kept for outcome in outcomes), "codes": figures.codes(outcomes),
            "goodput": {**good, "requests_of_capacity": good["requests"] / rate, "work_of_capacity": good["work"] / capacity_work},
            **figures.latency(outcomes), "refusals": figures.refusals(outcomes), "memory_mib": memory.document(),
            "callers": figures.by_caller(outcomes, options.callers), "requests": requests_of(outcomes)}


async def overload(session):
    """Many times what the machine can do, from callers that give up when they are refused and from such that come back."""
    rate, source = capacity_of(session)
    session.document["overload"] = found = {"capacity": rate, "capacity_is": source, "contestants": {}}
    for contestant in ("latentd", "peer"):  # the other's queue is the bench's own
        measured = await session.attempt("overload", contestant, overwhelm)
        if measured:
            found["contestants"][contestant] = measured
            session.save()


PARTS = {"capacity": capacity, "isolation": isolation, "arrival": arrival, "passing": passing, "overload": overload}
