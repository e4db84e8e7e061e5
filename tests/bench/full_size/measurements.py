"""The measurements, the most important first: each a function that runs one round of one contestant."""

import dataclasses
import shutil
import statistics

from . import (adapter_measurements, cache_measurements, control_measurements, crowd_measurements, machine, networks, server,
               split_measurements, video_measurements)
from .processes import Failure
from .session import (BESIDE, COMPILE, CONTROLLED, EAGER, GUIDANCE, LATENTD, MIB, READY_SECONDS, SD15, SDXL, TWO_BASES, VIDEO, shape,
                      text)

STEADY_PICTURES = 3
SWITCHES = 5  # to each of two sizes, in a round


def start_cold(bench, _):
    """Nothing in the cache: what a first start compiles."""
    shutil.rmtree(bench.cache, ignore_errors=True)
    main = text(bench.scale.main)
    latentd = bench.start_server()
    bench.results.add(f"start_cold {main}", LATENTD, latentd.wait_until_ready(READY_SECONDS))
    end = bench.picture().draw()["first_end"]
    bench.results.add(f"start_cold_picture {main}", LATENTD, end - latentd.started)
    values = latentd.scrape()
    phases = server.by_label(values, "latentd_startup_phase_duration_seconds", "phase")
    bench.results.add(f"compile_cold {main}", LATENTD, phases["total"] - phases["weights"], phases=phases,
                      components=server.by_label(values, "latentd_graph_compile_duration_seconds_sum", "component",
                                                 source="compile"))
    bench.picture(refine=True).draw()
    bench.picture(steps=bench.scale.few_steps, guidance=1.0).draw()
    latentd.wait_for_row_counts(READY_SECONDS)
    note_memory(bench, "one bucket")
    used = machine.memory_of(latentd.process.pid)
    if used is not None:
        bench.results.add(f"memory_one_bucket {main}", LATENTD, used / MIB)


def note_memory(bench, when):
    values = bench.server().scrape()
    bench.results.note(f"memory with {when}", {
        "held": server.by_label(values, "latentd_memory_bytes", "kind"),
        "predicted": server.by_label(values, "latentd_memory_predicted_bytes", "kind"),
        "resident": server.total(values, "process_resident_memory_bytes"),
        "processes on the GPU": machine.nvidia_smi("compute-apps", ("pid", "used_memory")),
        "latentd's process": bench.server().process.pid,
        "latent memory": bench.server().memory_report()})


def unet_step(bench, contestant):
    if contestant == LATENTD:
        step, = bench.our_network("unet_step", "unet", [shape(2, bench.scale.main)], kernels=True)
        bench.results.add(f"weights {step['shape']}", LATENTD, 1000 * step["load"] / step["weights_gb"])
    else:
        first = bench.peer_network(contestant, "unet_step", "unet", 2, bench.scale.main)
        if contestant == COMPILE:
            bench.results.note("seconds of torch.compile's first UNet step", first)


def unet_step_f8(bench, contestant):
    """A peer's own way to compute in 8 bits, to be read beside latentd's step of --precision=fp8 or fp8_all."""
    bench.peer_network(contestant, "unet_step_f8", "unet_f8", 2, bench.scale.main)


def vae_decode(bench, contestant):
    if contestant == LATENTD:
        bench.our_network("vae_decode", "vae", [shape(1, bench.scale.main)], kernels=True)
        return
    first = bench.peer_network(contestant, "vae_decode", "vae", 1, bench.scale.main)
    unet = bench.results.document["notes"].get("seconds of torch.compile's first UNet step")
    if contestant == COMPILE and unet is not None:
        bench.results.add(f"compile_cold {text(bench.scale.main)}", COMPILE, unet + first)


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture that contestants draw in turn. `model` is the peers' name for it, `prefix` that of its figures."""

    figure: str
    steps: int
    guidance: float
    size: tuple
    models: tuple = SDXL
    model: str = "base"
    prefix: str = ""

    @property
    def which(self):
        return shape(self.steps, self.size)


def ask_for_pictures(bench, contestant, picture, count):
    width, height = picture.size
    return bench.ask_peer(contestant, "pictures", model=picture.model, steps=picture.steps, guidance=picture.guidance, width=width,
                          height=height, count=count)


def client_of(bench, picture):
    return bench.picture(size=picture.size, steps=picture.steps, guidance=picture.guidance, models=picture.models)


def draw_in_turn(bench, contestant, picture):
    """A round of pictures; a client's or a peer's first ones have been drawn by `warm`."""
    if contestant != LATENTD:
        answer = ask_for_pictures(bench, contestant, picture, bench.scale.pictures)
        bench.results.add(f"{picture.figure} {picture.which}", contestant, answer["samples"])
        return
    for _ in range(bench.scale.pictures):
        add_served(bench, picture, client_of(bench, picture).measured())


def add_served(bench, picture, found):
    """A picture of the server; where it was guided, also what it consists of."""
    results, which = bench.results, picture.which
    results.add(f"{picture.figure} {which}", LATENTD, found["whole"])
    if found["redone"]:
        results.note(f"{picture.figure} {which}: not what it says", "a picture was not finite, and decoded again in fp32 or failed")
    if picture.guidance <= 1:
        return
    results.add(f"{picture.prefix}served_step {which}", LATENTD, found["step"]["base"])
    for kind, stage in (("served_decode", "decode"), ("served_text", "text"), ("served_png", "encode_file")):
        results.add(f"{picture.prefix}{kind} {which}", LATENTD, found["stages"][stage])
    results.add(f"{picture.prefix}served_beyond {which}", LATENTD, found["beyond"])


def warm(bench, contestant, picture):
    if contestant == LATENTD:
        bench.server(picture.models).wait_for_row_counts(READY_SECONDS)
        client_of(bench, picture).draw(2)
    else:
        ask_for_pictures(bench, contestant, picture, 1)
        rows = 2 if picture.guidance > 1 else 1
        bench.compiled.update({(f"{picture.prefix}unet", rows, picture.size), (f"{picture.prefix}vae", 1, picture.size)})


def guided(bench):
    return Picture("picture", bench.scale.steps, GUIDANCE, bench.scale.main)


def unguided(bench):
    return Picture("picture_unguided", bench.scale.few_steps, 1.0, bench.scale.main)


def sd15_guided(bench):
    return Picture("sd15_picture", bench.scale.steps, GUIDANCE, bench.scale.small, models=SD15, model="sd15", prefix="sd15_")


def sd15_step(bench, contestant):
    if contestant == LATENTD:
        bench.our_network("sd15_step", "unet", [shape(2, bench.scale.small)], model="sd15", kernels=True)
    else:
        bench.peer_network(contestant, "sd15_step", "sd15_unet", 2, bench.scale.small)


def sd15_decode(bench, contestant):
    if contestant == LATENTD:
        bench.our_network("sd15_decode", "vae", [shape(1, bench.scale.small)], model="sd15")
    else:
        bench.peer_network(contestant, "sd15_decode", "sd15_vae", 1, bench.scale.small)


def start_cached(bench, _):
    """Stops what runs and starts from the cache."""
    if not bench.cache.is_dir():
        bench.server()
    main = text(bench.scale.main)
    latentd = bench.start_server()
    ready = latentd.wait_until_ready(READY_SECONDS)
    end = bench.picture().draw()["first_end"]
    values = latentd.scrape()
    compiled = server.total(values, "latentd_graph_compilations_total")
    if compiled:
        raise Failure(f"{compiled:.0f} graphs were not in the cache")
    bench.results.add(f"start_cached {main}", LATENTD, ready,
                      phases=server.by_label(values, "latentd_startup_phase_duration_seconds", "phase"))
    bench.results.add(f"start_cached_picture {main}", LATENTD, end - latentd.started)


def first_at_other_size(bench, figure, compiles):
    """Seconds of the first picture beyond those that follow; whether it has to compile is looked after."""
    bench.picture().draw()
    latentd, client = bench.server(), bench.other_picture()
    latentd.wait_for_row_counts(READY_SECONDS)
    before = server.total(latentd.scrape(), "latentd_graph_compilations_total")
    first, = client.milliseconds()
    compiled = server.total(latentd.scrape(), "latentd_graph_compilations_total") - before
    if bool(compiled) != compiles:
        raise Failure(f"{text(bench.scale.other)} was {'in' if compiles else 'not in'} the cache")
    steady = client.milliseconds(STEADY_PICTURES)
    bench.results.add(f"{figure} {text(bench.scale.other)}", LATENTD, (first - statistics.median(steady)) / 1000, first=first,
                      steady=steady, compiled=compiled)


def first_unseen(bench, contestant):
    """The size is compiled for the request."""
    if contestant == COMPILE:
        first = bench.peer_network(COMPILE, "unet_step", "unet", 2, bench.scale.other)
        first += bench.peer_network(COMPILE, "vae_decode", "vae", 1, bench.scale.other)
        bench.results.add(f"first_unseen {text(bench.scale.other)}", COMPILE, first)
        return
    server_process = bench.server().process.pid
    before = machine.memory_of(server_process)
    first_at_other_size(bench, "first_unseen", compiles=True)
    note_memory(bench, "another bucket")
    if before is not None:
        grown = machine.memory_of(server_process) - before
        bench.results.add(f"memory_another_bucket {text(bench.scale.other)}", LATENTD, grown / MIB)


def first_cached(bench, _):
    """A new process: the size is in its cache, and not loaded."""
    bench.start_server().wait_until_ready(READY_SECONDS)
    first_at_other_size(bench, "first_cached", compiles=False)


def switch(bench, _):
    """Both sizes have been drawn: the first picture after the other size, and the one after it. Each is asked for by itself, so
    that the pause before it is the same. One picture takes some ms more or less than the next: so there are many."""
    few = {"steps": bench.scale.few_steps, "guidance": 1.0}
    for client in (bench.picture(**few), bench.other_picture(**few)):
        client.draw(2)
    figure = f"switch {text(bench.scale.main)} {text(bench.scale.other)}"
    for client in (bench.picture(**few), bench.other_picture(**few)) * SWITCHES:
        (first,), (steady,) = client.milliseconds(), client.milliseconds()
        bench.results.add(figure, LATENTD, first - steady)


def switch_models(bench, _):
    """A second checkpoint of the base's architecture: its first picture beyond those that follow, which is what loading it takes;
    then both are there, and take turns as sizes do in `switch`."""
    few = {"steps": bench.scale.few_steps, "guidance": 1.0, "models": TWO_BASES}
    latentd = bench.start_server(TWO_BASES)
    latentd.wait_until_ready(READY_SECONDS)
    latentd.wait_for_row_counts(READY_SECONDS)
    base, other = bench.picture(**few), bench.picture(**few, model="other")
    base.draw(2)
    before = server.total(latentd.scrape(), "latentd_graph_compilations_total")
    first, = other.milliseconds()
    compiled = server.total(latentd.scrape(), "latentd_graph_compilations_total") - before
    if compiled:
        raise Failure(f"{compiled:.0f} graphs were compiled for a model of the same architecture")
    steady = other.milliseconds(STEADY_PICTURES)
    main = text(bench.scale.main)
    bench.results.add(f"model_loaded {main}", LATENTD, (first - statistics.median(steady)) / 1000, first=first, steady=steady)
    base.draw(2)
    for client in (base, other) * SWITCHES:
        (first,), (steady,) = client.milliseconds(), client.milliseconds()
        bench.results.add(f"model_switch {main}", LATENTD, first - steady)


def refiner_step(bench, contestant):
    if contestant == LATENTD:
        bench.our_network("refiner_step", "unet", [shape(2, bench.scale.main)], model="refiner")
    else:
        bench.peer_network(contestant, "refiner_step", "refiner", 2, bench.scale.main)


def warm_refined(bench, _):
    bench.server().wait_for_row_counts(READY_SECONDS)
    bench.picture(refine=True).draw()


def refined(bench, _):
    """The server's refiner, as part of a picture."""
    found = bench.picture(refine=True).measured()
    which = shape(bench.scale.steps, bench.scale.main)
    bench.results.add(f"picture_refined {which}", LATENTD, found["whole"])
    bench.results.add(f"served_refiner_step {which}", LATENTD, found["step"]["refiner"])


def text_encoders(bench, contestant):
    if contestant == EAGER:
        answer = bench.ask_peer(EAGER, "network", network="text", rows=1, width=8, height=8, runs=bench.scale.runs)
        bench.results.add("text", EAGER, answer["samples"])
        return
    both = [networks.measure(bench.options, bench.checkpoint / "base", name, [shape(1, bench.scale.main)], bench.scale.runs, READY_SECONDS)
            for name in ("text_encoder", "text_encoder_2")]
    bench.results.add("text", LATENTD, [sum(pair) for pair in zip(*(found[0]["samples"] for found in both))])


def at_sizes(bench, contestant, figure, component, rows, sizes):
    if contestant == LATENTD:
        bench.our_network(figure, component, [shape(rows, size) for size in sizes])
        return
    failures = []
    for size in sizes:
        try:
            bench.peer_network(contestant, figure, component, rows, size)
        except Failure as failure:  # too little memory, as a rule; others need less
            failures.append(f"{text(size)}: {failure}")
    if failures:
        raise Failure("; ".join(failures))


def vae_large(bench, contestant):
    at_sizes(bench, contestant, "vae_decode", "vae", 1, [bench.scale.large])


def vae_sizes(bench, contestant):
    at_sizes(bench, contestant, "vae_decode", "vae", 1, bench.scale.vae_sizes)


def unet_sizes(bench, contestant):
    at_sizes(bench, contestant, "unet_step", "unet", 2, bench.scale.unet_sizes)


def unet_rows(bench, contestant):
    for rows in bench.scale.rows if contestant != LATENTD else ():
        bench.peer_network(contestant, "unet_step", "unet", rows, bench.scale.main)
    if contestant == LATENTD:
        bench.our_network("unet_step", "unet", [shape(rows, bench.scale.main) for rows in bench.scale.rows])


@dataclasses.dataclass(frozen=True)
class Measurement:
    """`seconds` says who takes part, and about how long each one takes, but for starting a peer and compiling."""

    name: str
    run: callable
    seconds: dict
    prepare: callable = None
    rounds: callable = lambda scale: 1
    networks: callable = lambda scale: ()  # graphs that the compiling peer needs: (network, rows, size)
    network_bench: bool = False  # true if latentd's part is cuda_network_bench's
    models: tuple = SDXL  # whose weights it needs
    gpus: int = 1


MEASUREMENTS = (
    Measurement("start_cold", start_cold, {LATENTD: 90}),
    Measurement("unet_step", unet_step, {LATENTD: 30, EAGER: 10, COMPILE: 5}, network_bench=True,
                networks=lambda scale: (("unet", 2, scale.main),)),
    Measurement("vae_decode", vae_decode, {LATENTD: 15, EAGER: 10, COMPILE: 5}, network_bench=True,
                networks=lambda scale: (("vae", 1, scale.main),)),
    Measurement("picture", lambda bench, who: draw_in_turn(bench, who, guided(bench)), {LATENTD: 20, EAGER: 35, COMPILE: 20},
                prepare=lambda bench, who: warm(bench, who, guided(bench)), rounds=lambda scale: scale.rounds,
                networks=lambda scale: (("unet", 2, scale.main), ("vae", 1, scale.main))),
    Measurement("first_unseen", first_unseen, {LATENTD: 30}),
    Measurement("switch", switch, {LATENTD: 15}, rounds=lambda scale: scale.rounds),
    Measurement("start_cached", start_cached, {LATENTD: 15}, rounds=lambda scale: scale.starts),
    Measurement("first_cached", first_cached, {LATENTD: 20}),
    Measurement("refiner_step", refiner_step, {LATENTD: 30, EAGER: 20}, network_bench=True),
    Measurement("refined", refined, {LATENTD: 10}, prepare=warm_refined,
                rounds=lambda scale: scale.rounds),
    Measurement("picture_unguided", lambda bench, who: draw_in_turn(bench, who, unguided(bench)), {LATENTD: 10, EAGER: 15, COMPILE: 10},
                prepare=lambda bench, who: warm(bench, who, unguided(bench)), rounds=lambda scale: scale.rounds,
                networks=lambda scale: (("unet", 1, scale.main), ("vae", 1, scale.main))),
    Measurement("picture_crowd", crowd_measurements.pictures, {LATENTD: 45}, rounds=lambda scale: scale.starts, models=("base",)),
    Measurement("sd15_picture", lambda bench, who: draw_in_turn(bench, who, sd15_guided(bench)), {LATENTD: 30, EAGER: 40, COMPILE: 10},
                prepare=lambda bench, who: warm(bench, who, sd15_guided(bench)), rounds=lambda scale: scale.rounds,
                networks=lambda scale: (("sd15_unet", 2, scale.small), ("sd15_vae", 1, scale.small)), models=SD15),
    Measurement("sd15_step", sd15_step, {LATENTD: 20, EAGER: 10, COMPILE: 5}, network_bench=True,
                networks=lambda scale: (("sd15_unet", 2, scale.small),), models=SD15),
    Measurement("sd15_decode", sd15_decode, {LATENTD: 15, EAGER: 10, COMPILE: 5}, network_bench=True,
                networks=lambda scale: (("sd15_vae", 1, scale.small),), models=SD15),
    Measurement("control", control_measurements.steps, {LATENTD: 40, EAGER: 15}, prepare=control_measurements.warm,
                rounds=lambda scale: scale.rounds, models=CONTROLLED),
    Measurement("inpaint", adapter_measurements.inpaint, {LATENTD: 15}, rounds=lambda scale: scale.rounds, models=CONTROLLED),
    Measurement("image_prompt", adapter_measurements.image_prompt, {LATENTD: 20}, prepare=adapter_measurements.warm_image_prompt,
                rounds=lambda scale: scale.rounds, models=CONTROLLED),
    Measurement("lora_switch", adapter_measurements.lora_switch, {LATENTD: 20}, models=CONTROLLED),
    Measurement("lora_crowd", adapter_measurements.lora_crowd, {LATENTD: 60}, rounds=lambda scale: scale.starts, models=CONTROLLED),
    Measurement("lora_crowd_slots", adapter_measurements.lora_crowd_slots, {LATENTD: 60}, rounds=lambda scale: scale.starts, models=CONTROLLED),
    Measurement("split", split_measurements.pictures, {LATENTD: 60}, models=("base",), gpus=2),
    Measurement("split_crowd", split_measurements.crowds, {LATENTD: 90}, models=("base",), gpus=2),
    Measurement("cached_features", cache_measurements.pictures, {LATENTD: 60}, prepare=cache_measurements.warm,
                rounds=lambda scale: scale.rounds, models=("base",)),
    Measurement("efforts", cache_measurements.efforts, {LATENTD: 45}, prepare=cache_measurements.warm_efforts,
                rounds=lambda scale: scale.rounds, models=("base",)),
    Measurement("video_start_cold", video_measurements.start_cold, {LATENTD: 120}, models=VIDEO),
    Measurement("video", video_measurements.clips, {LATENTD: 45}, prepare=video_measurements.warm,
                rounds=lambda scale: scale.clips, models=VIDEO),
    Measurement("video_start_cached", video_measurements.start_cached, {LATENTD: 15}, rounds=lambda scale: scale.starts, models=VIDEO),
    Measurement("video_chunks", video_measurements.in_chunks, {LATENTD: 60}, models=VIDEO),
    Measurement("video_likeness", video_measurements.likeness, {LATENTD: 20, EAGER: 60}, models=VIDEO),
    Measurement("video_beside", video_measurements.beside, {LATENTD: 150}, models=BESIDE),
    Measurement("video_networks", video_measurements.networks, {LATENTD: 90, EAGER: 40}, network_bench=True, models=VIDEO),
    Measurement("switch_models", switch_models, {LATENTD: 40}, rounds=lambda scale: scale.starts, models=TWO_BASES),
    Measurement("text", text_encoders, {LATENTD: 20, EAGER: 20}, network_bench=True),
    Measurement("vae_large", vae_large, {LATENTD: 20, EAGER: 20}, network_bench=True),
    Measurement("vae_sizes", vae_sizes, {LATENTD: 50, EAGER: 40}, network_bench=True),
    Measurement("unet_sizes", unet_sizes, {LATENTD: 90, EAGER: 60}, network_bench=True),
    Measurement("unet_rows", unet_rows, {LATENTD: 60, EAGER: 40}, network_bench=True),
    Measurement("unet_step_f8", unet_step_f8, {EAGER: 10, COMPILE: 10}, networks=lambda scale: (("unet_f8", 2, scale.main),)),
    Measurement("refiner_compiled", refiner_step, {COMPILE: 10}, networks=lambda scale: (("refiner", 2, scale.main),)),
    Measurement("video_compiled", video_measurements.networks, {COMPILE: 20}, models=VIDEO,
                networks=lambda scale: (("svd_unet", 2, scale.video), ("svd_vae", scale.frames, scale.video))),
    Measurement("first_unseen_compiled", first_unseen, {COMPILE: 10},
                networks=lambda scale: (("unet", 2, scale.other), ("vae", 1, scale.other))),
)
