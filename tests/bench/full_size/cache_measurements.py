"""Measurements of pictures with less work: each a function that runs one round of one contestant."""

from . import machine, server
from .session import CACHING, LATENTD, READY_SECONDS, shape

INTERVALS = (1, 2, 3, 5)  # 1: all evaluations are full
EFFORTS = ("full", "high", "fast")


def clients(bench):
    """Clients of pictures that are alike but for the interval, by that."""
    return {interval: bench.picture(steps=bench.scale.cached_steps, models=CACHING, feature_cache_interval=interval)
            for interval in INTERVALS}


def warm(bench, _):
    bench.server(CACHING).wait_for_row_counts(READY_SECONDS)
    for client in clients(bench).values():
        client.draw(2)


def pictures(bench, _):
    """One picture of each interval, behind each other. What a shallow step takes is from the difference to the picture without."""
    which = shape(bench.scale.cached_steps, bench.scale.main)
    for _ in range(bench.scale.pictures):
        full = None
        for interval, client in clients(bench).items():
            found = client.measured()
            step = found["step"]["base"]
            bench.results.add(f"cached_picture {which}/{interval}", LATENTD, found["whole"], state=machine.state())
            bench.results.add(f"cached_step {which}/{interval}", LATENTD, step, shallow=found["shallow"])
            if full is None:
                full = step
            elif found["shallow"]:
                less = (full - step) * bench.scale.cached_steps / found["shallow"]
                bench.results.add(f"cached_shallow {which}/{interval}", LATENTD, full - less)


def of_each_effort(bench):
    return {name: bench.picture(steps=bench.scale.cached_steps, models=CACHING, effort=server.Text(f"EFFORT_{name.upper()}"))
            for name in EFFORTS}


def warm_efforts(bench, _):
    bench.server(CACHING).wait_for_row_counts(READY_SECONDS)
    for client in of_each_effort(bench).values():
        client.draw(2)


def efforts(bench, _):
    """One picture of each effort, behind each other."""
    which = shape(bench.scale.cached_steps, bench.scale.main)
    for _ in range(bench.scale.pictures):
        for name, client in of_each_effort(bench).items():
            found = client.measured()
            bench.results.add(f"effort_picture {which}/{name}", LATENTD, found["whole"], state=machine.state(),
                              skipped_rows=found["skipped"], shallow=found["shallow"])
