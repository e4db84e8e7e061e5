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


def pictures(bench, _):
    """Four clients of the large size, whose pictures share steps of up to eight rows."""
    bench.server(CROWDED_BASE).wait_for_row_counts(READY_SECONDS)
    clients = bench.crowd(CLIENTS, CROWDED_BASE, bench.scale.main)
    draw_first(clients)
    which = shape(bench.scale.crowd_steps, bench.scale.main)
    bench.results.add(f"picture_crowd {which}", LATENTD, pictures_a_second(bench, clients), state=machine.state())
