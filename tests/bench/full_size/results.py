"""Figures with all their samples: kept as JSON, shown as one table."""

import json
import math
import os
import pathlib
import statistics

CONTESTANTS = {"latentd": "latentd", "eager": "diffusers, eager", "compile": "diffusers, torch.compile"}

# kind: (what the table calls it, unit). A figure's name is its kind, or the kind and a shape: "unet_step 2@1024x1024".
KINDS = {
    "unet_step": ("UNet step (rows@size)", "ms"),
    "unet_step_f8": ("the same with the linears of transformers in e4m3, scales by row (rows@size)", "ms"),
    "vae_decode": ("VAE decode (rows@size)", "ms"),
    "refiner_step": ("refiner step (rows@size)", "ms"),
    "text": ("text encoders, one row", "ms"),
    "picture": ("picture with guidance (steps@size), request to PNG in the client; peers without text and PNG", "ms"),
    "served_step": ("of the picture with guidance: a step", "ms"),
    "served_decode": ("of that: VAE decode", "ms"),
    "served_text": ("of that: text", "ms"),
    "served_png": ("of that: PNG", "ms"),
    "served_beyond": ("of that: all but text, steps and decode, so PNG and the way to the client too", "ms"),
    "picture_unguided": ("picture without guidance (steps@size), request to PNG in the client; peers without text and PNG", "ms"),
    "picture_refined": ("picture of base and refiner (steps@size), request to PNG in the client", "ms"),
    "served_refiner_step": ("of that: a step of the refiner", "ms"),
    "start_cold": ("process start to READY, one bucket, nothing in the cache", "s"),
    "start_cold_picture": ("process start to first picture, nothing in the cache", "s"),
    "compile_cold": ("of that: compiling, loading and running the graphs of base, refiner, VAE and text; torch.compile: first step and decode", "s"),
    "start_cached": ("process start to READY, one bucket from the cache", "s"),
    "start_cached_picture": ("process start to first picture, from the cache", "s"),
    "weights": ("weights of the base's UNet (rows@size), from the page cache to the GPU", "ms/GB"),
    "first_unseen": ("first picture at a size never seen, beyond its steady time; torch.compile: first step and decode", "s"),
    "first_cached": ("first picture at a size in the cache, beyond its steady time", "s"),
    "switch": ("first picture at the other of two seen sizes, beyond its steady time", "ms"),
    "model_loaded": ("first picture of a second checkpoint, page cache warm, beyond its steady time", "s"),
    "model_switch": ("first picture of the other of two models that are loaded, beyond its steady time", "ms"),
    "memory_one_bucket": ("GPU memory of the process: base, refiner, VAE, text, one bucket", "MiB"),
    "memory_another_bucket": ("GPU memory for one more bucket of nearly the same area", "MiB"),
    "sd15_step": ("Stable Diffusion 1.5: UNet step (rows@size)", "ms"),
    "sd15_decode": ("Stable Diffusion 1.5: VAE decode (rows@size)", "ms"),
    "sd15_picture": ("Stable Diffusion 1.5: picture with guidance (steps@size), request to PNG in the client; peers without text and PNG", "ms"),
    "sd15_served_step": ("of that: a step", "ms"),
    "sd15_served_decode": ("of that: VAE decode", "ms"),
    "sd15_served_text": ("of that: text", "ms"),
    "sd15_served_png": ("of that: PNG", "ms"),
    "sd15_served_beyond": ("of that: all but text, steps and decode, so PNG and the way to the client too", "ms"),
    "control_without": ("guided step without a ControlNet (rows@size); the peer's network alone", "ms"),
    "control_with": ("the same with one net", "ms"),
    "control_cost": ("what the net adds to a guided step, of pictures in turn", "ms"),
    "control_without_picture": ("picture with guidance without a net (steps@size), request to PNG", "ms"),
    "control_with_picture": ("the same with one net", "ms"),
    "control_first": ("first picture with a net, which is loaded for it, beyond the next", "s"),
    "control_memory": ("GPU memory that the first picture with a net leaves taken", "MiB"),
    "inpaint_without": ("guided step without a mask (rows@size)", "ms"),
    "inpaint_with": ("the same with one", "ms"),
    "inpaint_cost": ("what the mask adds to it, of pictures in turn", "ms"),
    "image_prompt_without": ("guided step without an IP-Adapter (rows@size)", "ms"),
    "image_prompt_with": ("the same with one image", "ms"),
    "image_prompt_cost": ("what the image adds to it, of pictures in turn", "ms"),
    "image_prompt_first": ("first picture with an IP-Adapter, which is loaded for it with its encoder, beyond the next", "s"),
    "image_prompt_memory": ("GPU memory that the first picture with an IP-Adapter leaves taken", "MiB"),
    "lora_first": ("first picture with a LoRA of 32 ranks, its file in the page cache, beyond the next", "ms"),
    "lora_again": ("the same with another weight, so that the LoRA is in memory and merged anew", "ms"),
    "lora_switch": ("first picture of the other of two merged sets, beyond the next", "ms"),
    "lora_memory": ("GPU memory that a merged set of 32 ranks leaves taken", "MiB"),
    "picture_crowd": ("four clients of pictures with guidance (steps@size)", "pictures/s"),
    "crowd_plain": ("eight clients without LoRAs (steps@size)", "pictures/s"),
    "crowd_merged": ("eight clients with eight LoRAs, each merged", "pictures/s"),
    "crowd_slots": ("eight clients with eight LoRAs in slots", "pictures/s"),
    "whole_step": ("guided step on one of two GPUs (rows@size)", "ms"),
    "split_step": ("the same with a row on each", "ms"),
    "whole_picture": ("picture with guidance on one of two GPUs (steps@size), request to PNG", "ms"),
    "split_picture": ("the same with a row on each", "ms"),
    "auto_picture": ("the same, split while the other GPU would be idle", "ms"),
    "auto_steps": ("of its steps those that were split", "%"),
    "whole_crowd": ("eight clients of two GPUs, nothing split (steps@size)", "pictures/s"),
    "auto_crowd": ("the same, split while a GPU would be idle", "pictures/s"),
    "split_memory": ("GPU memory of the process on both, at the end less that after the first crowd", "MiB"),
    "cached_picture": ("picture with guidance and --feature-cache (steps@size/feature_cache_interval), request to PNG", "ms"),
    "cached_step": ("of that: a step, full ones and shallow ones in the mean", "ms"),
    "cached_shallow": ("of that: a shallow step, by what its pictures take less", "ms"),
    "effort_picture": ("picture with guidance and --feature-cache (steps@size/effort), request to PNG", "ms"),
    "video_start_cold": ("video: process start to READY, one bucket, nothing in the cache", "s"),
    "video_compile_cold": ("of that: compiling, loading and running the graphs", "s"),
    "video_start_cached": ("video: process start to READY from the cache", "s"),
    "video_clip": ("clip with guidance, `latent animate` to the last PNG written", "s"),
    "video_step": ("of that: a step", "ms"),
    "video_decode": ("of that: decoding all frames", "ms"),
    "video_png": ("of that: PNGs of all frames, on CPUs", "ms"),
    "video_image": ("of that: the image read, resized and encoded by CLIP", "ms"),
    "video_memory": ("GPU memory of the process; behind / the frames of a chunk", "MiB"),
    "video_start_chunks": ("start to READY of a server with other chunks, the rest in the cache", "s"),
    "chunks_clip": ("clip with such chunks", "s"),
    "chunks_step": ("of that: a step", "ms"),
    "chunks_decode": ("of that: decoding all frames", "ms"),
    "chunks_png": ("of that: PNGs of all frames, on CPUs", "ms"),
    "chunks_image": ("of that: the image read, resized and encoded by CLIP", "ms"),
    "beside_alone": ("image without guidance (steps@size), request to PNG, from a server that draws videos too", "ms"),
    "beside_clip": ("the same beside a clip that runs", "ms"),
    "beside_wait": ("of that: 99th percentile beyond the one alone, by the clip's own step", "steps"),
    "video_distance": ("frames' mean distance from diffusers' in fp32 (steps@clip)", "1/255"),
    "video_unet": ("UNet of videos alone (rows@size)", "ms"),
    "video_vae": ("decoder of videos alone (frames@size)", "ms"),
    "memory_peer": ("GPU memory that torch has reserved", "MiB"),
}
# Bars, and goals beyond them; for SDXL, bf16, an H100 or H200.
BARS = {
    "unet_step 2@1024x1024": (26, 21),
    "vae_decode 1@1024x1024": (22, 15),
    "vae_decode 1@2048x2048": (130, 75),
    "picture 30@1024x1024": (830, 650),
    "picture_unguided 4@1024x1024": (120, 85),
    "refiner_step 2@1024x1024": (27, 21),
    "compile_cold 1024x1024": (60, 20),
    "start_cached 1024x1024": (8, 2.5),
    "weights 2@1024x1024": (100, None),  # 10 GB/s
    "switch 1024x1024 1152x896": (1, 0),
    "first_cached 1152x896": (0.5, 0.3),
    "first_unseen 1152x896": (5, 2),
    "memory_one_bucket 1024x1024": (13351, 11921),  # 14 and 12.5 GB
    "memory_another_bucket 1152x896": (100, 32),
    "served_beyond 30@1024x1024": (20, 10),
    "model_loaded 1024x1024": (1, None),
    "model_switch 1024x1024": (1, None),
    "control_cost 2@1024x1024": (12, None),
    "split_step 2@1024x1024": (17, 16.2),
    "split_picture 30@1024x1024": (550, 520),
    "video_step 1024x576x25": (360, 310),
    "video_decode 1024x576x25": (500, 400),
    "video_clip 1024x576x25": (9.6, 8.2),
    "video_compile_cold 1024x576x25": (90, 40),
    "video_start_cached 1024x576x25": (5, 3),
    "video_memory 1024x576x25/7": (13351, 10490),  # 14 and 11 GB
    "video_memory 1024x576x25": (30518, None),  # 32 GB
    "beside_wait 4@512x512": (2, 1),
}
# How many times as fast as torch.compile, in the same run.
TIMES_AS_FAST = {"sd15_picture 30@512x512": 1.3}


def percentile(samples, share):
    """The sample that so large a share of them is not above."""
    ordered = sorted(samples)
    return ordered[math.ceil(share * len(ordered)) - 1]


def text_of(value):
    """Three digits, or whole numbers."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def cell(samples):
    """The median, and the 90th percentile where there are enough samples for one."""
    if not samples:
        return "-"
    median = text_of(statistics.median(samples))
    return f"{median} ({text_of(percentile(samples, 0.9))})" if len(samples) >= 5 else median


class Results:
    """Everything measured so far; saved after each measurement, so that a bench that is cut off has the ones before."""

    def __init__(self, path, machine, settings, resume=False):
        self._path = pathlib.Path(path) if path else None
        self.document = {"machine": machine, "settings": settings, "figures": {}, "items": {}, "notes": {}}
        if resume and self._path and self._path.exists():
            kept = json.loads(self._path.read_text())
            comparable = {"gpu": lambda m: (m.get("gpu") or {}).get("name"), "commit": lambda m: m.get("commit")}
            differs = [name for name, of in comparable.items() if of(kept["machine"]) != of(machine)]
            if differs or kept["settings"] != settings:
                raise SystemExit(f"gpu: {path} is of another {' and '.join(differs) or 'setting'}; leave out --resume, or name another --json")
            self.document.update({key: kept[key] for key in ("figures", "items", "notes")})

    def add(self, figure, contestant, samples, **details):
        """Samples in the unit of the figure's kind; details go to the JSON only."""
        entry = self.document["figures"].setdefault(figure, {}).setdefault(contestant, {"samples": []})
        entry["samples"] += [samples] if isinstance(samples, (int, float)) else list(samples)
        entry.update(details)

    def samples(self, figure, contestant):
        return self.document["figures"].get(figure, {}).get(contestant, {}).get("samples", [])

    def note(self, name, value):
        """Something that is no figure: what a program said, memory by kind."""
        self.document["notes"][name] = value

    def end(self, item, contestant, outcome):
        """"done", or why not."""
        self.document["items"].setdefault(item, {})[contestant] = outcome
        self.save()

    def is_done(self, item, contestant):
        return self.document["items"].get(item, {}).get(contestant) == "done"

    def save(self):
        if self._path is None:
            return
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self.document, indent=1) + "\n")
        os.replace(new, self._path)


def bars_of(figure, found):
    """(bar, beyond), either of them None where there is none."""
    compiled = found.get("compile", {}).get("samples", [])
    if figure in TIMES_AS_FAST and compiled:
        return statistics.median(compiled) / TIMES_AS_FAST[figure], None
    return BARS.get(figure, (None, None))


def rows_of(document):
    """(figure, {contestant: text}, bar, beyond, whether the bar holds) in the order of KINDS."""
    kinds = list(KINDS)
    order = sorted(document["figures"], key=lambda figure: kinds.index(figure.partition(" ")[0]))
    for figure in order:
        found = document["figures"][figure]
        bar, beyond = bars_of(figure, found)
        ours = found.get("latentd", {}).get("samples", [])
        holds = None if bar is None or not ours else statistics.median(ours) <= bar
        yield figure, {name: cell(found.get(name, {}).get("samples", [])) for name in CONTESTANTS}, bar, beyond, holds


def table(document):
    """Markdown: median (90th percentile) of each contestant, the bar, and whether latentd keeps it."""
    lines = [f"| | unit | {' | '.join(CONTESTANTS.values())} | bar | beyond | |", "|---" * (len(CONTESTANTS) + 5) + "|"]
    for figure, cells, bar, beyond, holds in rows_of(document):
        kind, _, shape = figure.partition(" ")
        label, unit = KINDS[kind]
        bars = ["-" if value is None else text_of(value) for value in (bar, beyond)]
        verdict = {None: "", True: "holds", False: "MISSED"}[holds]
        lines.append(f"| {label}{f', {shape}' if shape else ''} | {unit} | {' | '.join(cells.values())} | {' | '.join(bars)} | {verdict} |")
    return "\n".join(lines)


def heading(document):
    """The machine in a few lines."""
    machine, settings = document["machine"], document["settings"]
    gpu = machine["gpu"] or {}
    lines = [f"{gpu.get('name', 'no GPU')}, driver {gpu.get('driver_version', '-')}, power limit {gpu.get('power.limit', '-')} W, "
             f"SM clock up to {gpu.get('clocks.max.sm', '-')} MHz; {machine['cpus']} CPUs ({machine['cpu']})",
             f"{machine['latentd'] or 'latentd'} ({machine['commit'] or 'commit unknown'}), {settings['backend']}, {settings['precision']}; "
             f"median (90th percentile)"]
    versions = document["notes"].get("peer versions")
    return "\n".join(lines + ([f"peers: {', '.join(f'{name} {version}' for name, version in versions.items())}"] if versions else []))


def left_out(document):
    """Measurements left out, and the reasons; a line each."""
    return [f"{item}, {CONTESTANTS[contestant]}: {outcome.splitlines()[0]}" for item, outcomes in document["items"].items()
            for contestant, outcome in outcomes.items() if outcome != "done"]
