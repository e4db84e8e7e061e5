"""Measurements of clients that ask at the same time, each for one picture after the other."""

import concurrent.futures
import time

from . import machine
from .session import CROWDED_BASE, LATENTD, READY_SECONDS, shape

CLIENTS = 4


def pictures_a_second(bench, clients):
    """By all of them together. The first pictures have been drawn before, so that nothing is loaded."""
    with concurrent.futures.ThreadPoolExecutor(len(clients)) as threads:
        began = time.monotonic()
        list(threads.map(lambda client: client.draw(bench.scale.crowd_pictures), clients))
        return len(clients) * bench.scale.crowd_pictures / (time.monotonic() - began)


def draw_first(clients):
    with concurrent.futures.ThreadPoolExecutor(len(clients)) as threads:
        list(threads.map(lambda client: client.draw(1), clients))


def measure(bench, figure, count, models, size, of=None):
    """So many clients of a server that has all row counts ready, each for as many pictures as the scale says; of(i) as in Bench.crowd."""
    bench.server(models).wait_for_row_counts(READY_SECONDS)
    clients = bench.crowd(count, models, size, of)
    draw_first(clients)
    bench.results.add(f"{figure} {shape(bench.scale.crowd_steps, size)}", LATENTD, pictures_a_second(bench, clients), state=machine.state())


def pictures(bench, _):
    """Four clients of the large size, whose pictures share steps of up to eight rows."""
    measure(bench, "picture_crowd", CLIENTS, CROWDED_BASE, bench.scale.main)
