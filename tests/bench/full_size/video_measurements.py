"""Stable Video Diffusion's measurements: each a function that runs one round of one contestant."""

import shutil
import threading

from . import images, machine, results, server
from .processes import Failure
from .session import BESIDE, LATENTD, MIB, READY_SECONDS, VIDEO, shape, text

WARM_STEPS = 2
SEED = 7
LIKENESS_STEPS = 3


def clip_name(scale, rows=None):
    """"1024x576x25", or with rows "2@1024x576x25"."""
    name = f"{text(scale.video)}x{scale.frames}"
    return name if rows is None else f"{rows}@{name}"


def image_of(bench):
    path = bench.folder / "first.png"
    if not path.exists():
        path.write_bytes(images.scene(*bench.scale.video))
    return path


def draw(bench, models=VIDEO, steps=None):
    found = draw_into(bench, bench.folder / "clip", models, steps or bench.scale.clip_steps)
    shutil.rmtree(bench.folder / "clip")
    return found


def draw_into(bench, frames, models, steps):
    width, height = bench.scale.video
    shutil.rmtree(frames, ignore_errors=True)
    frames.mkdir()
    found = server.animate(bench.options, bench.server(models), image_of(bench), frames, seed=SEED, width=width, height=height,
                           num_inference_steps=steps)
    count = len(list(frames.iterdir()))
    if count != bench.scale.frames:
        raise Failure(f"a clip of {count} frames")
    return found


def start_cold(bench, _):
    """Nothing in the cache: what a first start compiles."""
    shutil.rmtree(bench.cache, ignore_errors=True)
    latentd = bench.start_server(VIDEO)
    bench.results.add(f"video_start_cold {clip_name(bench.scale)}", LATENTD, latentd.wait_until_ready(READY_SECONDS))
    note_start(bench, latentd, "nothing in the cache", "video_compile_cold")


def note_start(bench, latentd, when, figure=None):
    values = latentd.scrape()
    phases = server.by_label(values, "latentd_startup_phase_duration_seconds", "phase")
    if figure:
        bench.results.add(f"{figure} {clip_name(bench.scale)}", LATENTD, phases["total"] - phases["weights"])
    bench.results.note(f"start of videos, {when}", {
        "phases": phases,
        "compiling": server.by_label(values, "latentd_graph_compile_duration_seconds_sum", "component", source="compile"),
        "loading": server.by_label(values, "latentd_graph_compile_duration_seconds_sum", "component", source="disk_load")})


def add_clip(bench, found, prefix="video", which=None):
    results, which = bench.results, which or clip_name(bench.scale)
    results.add(f"{prefix}_clip {which}", LATENTD, found["seconds"], state=machine.state())
    results.add(f"{prefix}_step {which}", LATENTD, 1000 * found["step"], steps=found["steps"])
    results.add(f"{prefix}_decode {which}", LATENTD, 1000 * found["stages"]["decode"])
    results.add(f"{prefix}_png {which}", LATENTD, 1000 * found["stages"]["encode_file"])
    results.add(f"{prefix}_image {which}", LATENTD, 1000 * found["stages"]["text"])
    if found["redone"]:
        results.note(f"{prefix}_clip {which}: not what it says", "frames were not finite, and decoded again in fp32")


def warm(bench, _):
    draw(bench, steps=WARM_STEPS)


def clips(bench, _):
    add_clip(bench, draw(bench))
    note_memory(bench, bench.server(VIDEO), "all frames in a chunk", f"video_memory {clip_name(bench.scale)}")


def note_memory(bench, latentd, when, figure):
    values = latentd.scrape()
    used = machine.memory_of(latentd.process.pid)
    bench.results.note(f"memory of videos, {when}", {
        "held": server.by_label(values, "latentd_memory_bytes", "kind"),
        "predicted": server.by_label(values, "latentd_memory_predicted_bytes", "kind"),
        "latent memory": latentd.memory_report(), "process": used})
    if used is not None and not bench.results.samples(figure, LATENTD):
        bench.results.add(figure, LATENTD, used / MIB)


def start_cached(bench, _):
    """A new process, which finds all graphs in the cache."""
    if not bench.cache.is_dir():
        bench.server(VIDEO)
    latentd = bench.start_server(VIDEO)
    ready = latentd.wait_until_ready(READY_SECONDS)
    note_start(bench, latentd, "from the cache")
    compiled = server.total(latentd.scrape(), "latentd_graph_compilations_total")
    if compiled:
        raise Failure(f"{compiled:.0f} graphs were not in the cache")
    bench.results.add(f"video_start_cached {clip_name(bench.scale)}", LATENTD, ready)


def in_chunks(bench, _):
    """A server that decodes some frames at a time: graphs of its own for these, and less memory."""
    models = (*VIDEO, bench.scale.chunk)
    which = f"{clip_name(bench.scale)}/{bench.scale.chunk}"
    latentd = bench.start_server(models)
    bench.results.add(f"video_start_chunks {which}", LATENTD, latentd.wait_until_ready(READY_SECONDS))
    note_start(bench, latentd, "chunks")
    draw(bench, models, WARM_STEPS)
    add_clip(bench, draw(bench, models), "chunks", which)
    note_memory(bench, latentd, f"chunks of {bench.scale.chunk}", f"video_memory {which}")


def likeness(bench, contestant):
    """A clip of a few steps by both, beside the same one by diffusers in fp32."""
    frames = bench.folder / "likeness"
    if contestant == LATENTD:
        draw_into(bench, frames, VIDEO, LIKENESS_STEPS)
        bench.stop_server()  # the peer needs the memory
        return
    width, height = bench.scale.video
    found = bench.ask_peer(contestant, "likeness", folder=str(frames), image=str(image_of(bench)), width=width, height=height,
                           steps=LIKENESS_STEPS, seed=SEED)
    which = f"{LIKENESS_STEPS}@{clip_name(bench.scale)}"
    bench.results.add(f"video_distance {which}", LATENTD, found["files"])
    bench.results.add(f"video_distance {which}", contestant, found["own"])


class RunningClip:
    """A clip that is drawn meanwhile; entered once its first step is through."""

    def __init__(self, bench):
        self._bench, self._failure = bench, None
        self._thread = threading.Thread(target=self._draw)

    def _draw(self):
        try:
            draw(self._bench, BESIDE, self._bench.scale.beside_steps)
        except Exception as failure:  # for the thread that waits
            self._failure = failure

    def is_running(self):
        return self._thread.is_alive()

    def __enter__(self):
        latentd = self._bench.server(BESIDE)
        before = server.total(latentd.scrape(), "latentd_denoise_steps_total")
        self._thread.start()
        while self.is_running() and server.total(latentd.scrape(), "latentd_denoise_steps_total") == before:
            continue
        return self

    def __exit__(self, *_):
        self._thread.join()
        if self._failure:
            raise self._failure


def beside(bench, _):
    """Small images, one after the other: alone, and each of them from its beginning to its end beside a clip. The last one of a clip,
    which may have had no clip beside it, does not count."""
    scale = bench.scale
    small = bench.picture(scale.small, scale.few_steps, 1.0, BESIDE)
    small.draw(2)
    draw(bench, BESIDE, WARM_STEPS)
    alone, together = small.milliseconds(scale.beside), []
    step = 1000 * draw(bench, BESIDE, scale.beside_steps)["step"]
    while len(together) < scale.beside:
        found = []
        with RunningClip(bench) as clip:
            while clip.is_running() and len(together) + len(found) <= scale.beside:
                found += small.milliseconds()
        together += found[:-1]
        if len(found) < 2:
            raise Failure("a clip is over before two images are: ask for more steps of it")
    which = f"{scale.few_steps}@{text(scale.small)}"
    bench.results.add(f"beside_alone {which}", LATENTD, alone)
    bench.results.add(f"beside_clip {which}", LATENTD, together, state=machine.state())
    late = results.percentile(together, 0.99) - results.percentile(alone, 0.99)
    bench.results.add(f"beside_wait {which}", LATENTD, late / step, p99_alone=results.percentile(alone, 0.99),
                      p99_beside=results.percentile(together, 0.99), step_of_the_clip=step)


def networks(bench, contestant):
    """Networks alone: a guided step, and the decoder over all frames and over a chunk."""
    scale = bench.scale
    if contestant != LATENTD:
        bench.peer_network(contestant, "video_unet", "svd_unet", 2, scale.video, runs=8, which=clip_name(scale, 2))
        bench.peer_network(contestant, "video_vae", "svd_vae", scale.frames, scale.video, runs=3)
        return
    bench.our_network("video_unet", "unet", [clip_name(scale, 2)], model=VIDEO[0], kernels=True, runs=10)
    bench.our_network("video_vae", "vae", [shape(scale.frames, scale.video), shape(scale.chunk, scale.video)], model=VIDEO[0],
                      kernels=True, runs=10)
