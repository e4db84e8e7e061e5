"""Measurements of masks, IP-Adapters and LoRAs: each a function that runs one round of latentd."""

import statistics

from . import crowd_measurements, images, machine, server
from .checkpoint import IMAGE_PROMPT, LORAS
from .session import CONTROLLED, CROWDED, LATENTD, MIB, READY_SECONDS, SLOTS, shape, text

CLIENTS = 8
WEIGHT = 0.1
SIDE = 64  # images are an argument of bench_client
IMAGE = {"ip_adapters": server.adapter_with_image(IMAGE_PROMPT, images.scene(SIDE, SIDE))}


def cost_of(bench, figure, **more):
    """Pictures in turn, without and with `more`; what it adds to a step is the difference of such a pair."""
    which = shape(2, bench.scale.main)
    for _ in range(bench.scale.pictures):
        without, with_it = bench.picture(models=CONTROLLED).measured(), bench.picture(models=CONTROLLED, **more).measured()
        for name, found in (("without", without), ("with", with_it)):
            bench.results.add(f"{figure}_{name} {which}", LATENTD, found["step"]["base"], state=machine.state())
        bench.results.add(f"{figure}_cost {which}", LATENTD, with_it["step"]["base"] - without["step"]["base"])


def inpaint(bench, _):
    mask = images.png(SIDE, SIDE, lambda x, y: (255,) * 3 if x > SIDE // 2 else (0,) * 3)
    cost_of(bench, "inpaint", image=server.octets(images.scene(SIDE, SIDE)), mask_image=server.octets(mask), strength=1.0)


def warm_image_prompt(bench, _):
    """Also finds what the first picture with an image takes beyond the next, and how much memory it leaves taken."""
    add_first(bench, "image_prompt", IMAGE, 1000)


def image_prompt(bench, _):
    cost_of(bench, "image_prompt", **IMAGE)


def lora(number, weight=WEIGHT):
    return {"adapters": server.adapter(LORAS[number], weight)}


def add_first(bench, kind, more, unit):
    """Milliseconds over `unit` of the first picture with `more` beyond the next, and the memory of the GPU that it leaves taken."""
    latentd = bench.server(CONTROLLED)
    latentd.wait_for_row_counts(READY_SECONDS)
    few = {"steps": bench.scale.few_steps, "models": CONTROLLED}
    bench.picture(**few).draw(2)
    before = machine.memory_of(latentd.process.pid)
    client = bench.picture(**few, **more)
    first, = client.milliseconds()
    bench.results.add(f"{kind}_first {text(bench.scale.main)}", LATENTD, (first - statistics.median(client.milliseconds(3))) / unit)
    if before is not None:
        bench.results.add(f"{kind}_memory {text(bench.scale.main)}", LATENTD, (machine.memory_of(latentd.process.pid) - before) / MIB)


def lora_switch(bench, _):
    """The first picture with each of four LoRAs; then two merged sets take turns; then each LoRA is merged anew, for another weight."""
    bench.start_server(CONTROLLED).wait_until_ready(READY_SECONDS)
    for number in range(4):
        add_first(bench, "lora", lora(number), 1)
    main, few = text(bench.scale.main), {"steps": bench.scale.few_steps, "models": CONTROLLED}
    clients = [bench.picture(**few, **lora(number)) for number in (0, 1)]
    for client in clients * 3:
        (first,), (steady,) = client.milliseconds(), client.milliseconds()
        bench.results.add(f"lora_switch {main}", LATENTD, first - steady)
    for number in range(4):
        client = bench.picture(**few, **lora(number, 2 * WEIGHT))
        first, = client.milliseconds()
        bench.results.add(f"lora_again {main}", LATENTD, first - statistics.median(client.milliseconds(3)))


def crowd(bench, models, figure, of=None):
    crowd_measurements.measure(bench, figure, CLIENTS, models, bench.scale.small, of)


def lora_crowd(bench, _):
    """Eight clients without LoRAs, then with one each, merged."""
    crowd(bench, CROWDED, "crowd_plain")
    crowd(bench, CROWDED, "crowd_merged", lora)


def lora_crowd_slots(bench, _):
    crowd(bench, SLOTS, "crowd_slots", lora)
