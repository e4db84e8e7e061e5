"""Measurements of pictures whose rows two GPUs share: each a function that runs one round of latentd."""

from . import crowd_measurements, machine, server
from .processes import Failure
from .session import AUTO, LATENTD, MIB, READY_SECONDS, SPLIT, WHOLE, shape

CLIENTS = 8
CROWDS = 3
MOST_WARM = 60


def warm(latentd, client, splits):
    """Draws until the graphs of split steps are there, which are made while the server serves."""
    latentd.wait_for_row_counts(READY_SECONDS)
    for _ in range(MOST_WARM):
        client.draw()
        if not splits or server.total(latentd.scrape(), "latentd_split_steps_total"):
            return
    raise Failure(f"none of {MOST_WARM} pictures was split")


def measured(bench, models):
    """Pictures one at a time, and the share of their steps that were split. The first steps of a size are tried out."""
    latentd, client = bench.server(models), bench.picture(models=models)
    warm(latentd, client, splits=models != WHOLE)
    client.draw()
    before = latentd.scrape()
    found = [client.measured() for _ in range(bench.scale.pictures * bench.scale.rounds)]
    after = latentd.scrape()
    split = server.total(after, "latentd_split_steps_total") - server.total(before, "latentd_split_steps_total")
    return found, 100 * split / (len(found) * bench.scale.steps)


def pictures(bench, _):
    step, which = shape(2, bench.scale.main), shape(bench.scale.steps, bench.scale.main)
    for name, models in (("whole", WHOLE), ("split", SPLIT), ("auto", AUTO)):
        found, share = measured(bench, models)
        bench.results.add(f"{name}_picture {which}", LATENTD, [one["whole"] for one in found], state=machine.state())
        if name == "auto":
            bench.results.add(f"auto_steps {which}", LATENTD, share)
        else:
            bench.results.add(f"{name}_step {step}", LATENTD, [one["step"]["base"] for one in found], share=share)


def crowd(bench, models):
    """Pictures a second of clients that ask for one after the other."""
    clients = [bench.picture(models=models, seed=number) for number in range(CLIENTS)]
    return crowd_measurements.pictures_a_second(bench, clients)


def crowds(bench, _):
    which = shape(bench.scale.steps, bench.scale.main)
    for name, models in (("whole", WHOLE), ("auto", AUTO)):
        latentd = bench.server(models)
        warm(latentd, bench.picture(models=models), splits=models != WHOLE)
        crowd(bench, models)
        before = machine.memory_of(latentd.process.pid)
        bench.results.add(f"{name}_crowd {which}", LATENTD, [crowd(bench, models) for _ in range(CROWDS)], state=machine.state())
    if before is not None:
        bench.results.add(f"split_memory {which}", LATENTD, (machine.memory_of(latentd.process.pid) - before) / MIB)
