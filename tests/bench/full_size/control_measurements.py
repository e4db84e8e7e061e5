"""ControlNet's measurements: each a function that runs one round of one contestant."""

from . import images, machine, server
from .checkpoint import CONTROL
from .session import CONTROLLED, LATENTD, MIB, READY_SECONDS, shape, text


def pictures(bench):
    """Clients of pictures that are alike but for the net: without one, with one."""
    width, height = bench.scale.main
    net = server.adapter_with_image(CONTROL, images.edges(width, height))
    return bench.picture(models=CONTROLLED), bench.picture(models=CONTROLLED, controls=net)


def warm(bench, contestant):
    """Also finds what the first picture with a net takes beyond the others, and how much memory it leaves taken."""
    if contestant != LATENTD:
        return
    latentd = bench.server(CONTROLLED)
    latentd.wait_for_row_counts(READY_SECONDS)
    plain, controlled = pictures(bench)
    plain.draw(2)
    before = machine.memory_of(latentd.process.pid)
    first, = controlled.milliseconds()
    steady, = controlled.milliseconds()
    bench.results.add(f"control_first {text(bench.scale.main)}", LATENTD, (first - steady) / 1000)
    note_memory(bench, latentd)
    if before is not None:
        bench.results.add(f"control_memory {text(bench.scale.main)}", LATENTD, (machine.memory_of(latentd.process.pid) - before) / MIB)


def note_memory(bench, latentd):
    values = latentd.scrape()
    bench.results.note("memory with a ControlNet", {"held": server.by_label(values, "latentd_memory_bytes", "kind"),
                                                    "latent memory": latentd.memory_report()})


def steps(bench, contestant):
    """Pictures in turn, without and with the net; the net's cost is the difference of such a pair. A peer's networks run once."""
    if contestant != LATENTD:
        if bench.results.samples(f"control_with {shape(2, bench.scale.main)}", contestant):
            return
        for name, network in (("control_without", "unet"), ("control_with", "controlled")):
            bench.peer_network(contestant, name, network, 2, bench.scale.main)
        return
    which = shape(bench.scale.steps, bench.scale.main)
    for _ in range(bench.scale.pictures):
        without, controlled = (client.measured() for client in pictures(bench))
        for name, found in (("control_without", without), ("control_with", controlled)):
            bench.results.add(f"{name} {shape(2, bench.scale.main)}", LATENTD, found["step"]["base"], state=machine.state())
            bench.results.add(f"{name}_picture {which}", LATENTD, found["whole"])
        bench.results.add(f"control_cost {shape(2, bench.scale.main)}", LATENTD, controlled["step"]["base"] - without["step"]["base"])
