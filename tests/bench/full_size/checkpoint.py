"""Checkpoints with random weights in the diffusers layout, fp16, written in seconds: SDXL's base and refiner, and SD 1.5.

`full` are the real architectures: configurations and tensors' names and shapes are those of the golden cases, SD 1.5's UNet that
of the published file's list. `reduced` are the demo checkpoint's and the golden SD 1.5's. Tokenizers and noise schedulers are the
demo checkpoint's in all: its 628 tokens are tokens of a larger vocabulary as well, and its schedulers' settings are SDXL's, which
are SD 1.5's.

Weights are drawn as the golden cases' are (tests/golden/README.md), so that activations stay finite: their deviation is
1/sqrt(fan in); gains are around 1, biases around 0, both with 0.1. The random numbers repeat after POOL.
"""

import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import random
import shutil
import struct
import zlib

POOL = 262_147  # a prime: rows of a matrix do not begin at the same numbers
HEADER_ALIGNMENT = 8
SDXL = ("base", "refiner")
SD15 = "sd15"
OTHER = "other"  # another of the base's architecture, of which nothing is equal to the base's
FULL_NETWORKS = {
    "base": {"unet": "unet_sdxl_base", "vae": "vae_sdxl", "text_encoder": "text_encoder_sdxl",
             "text_encoder_2": "text_encoder_2_sdxl"},
    "refiner": {"unet": "unet_sdxl_refiner", "vae": "vae_sdxl", "text_encoder_2": "text_encoder_2_sdxl"},
}
FULL_NETWORKS[OTHER] = FULL_NETWORKS["base"]
DEMO = {"base": "base", "refiner": "refiner", SD15: "base", OTHER: "base"}  # the demo model's that has what is no network
# SD 1.5's as it was published, but for what says nothing of the network.
SD15_UNET = {"_class_name": "UNet2DConditionModel", "act_fn": "silu", "attention_head_dim": 8, "block_out_channels": [320, 640, 1280, 1280],
             "center_input_sample": False, "cross_attention_dim": 768,
             "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
             "downsample_padding": 1, "flip_sin_to_cos": True, "freq_shift": 0, "in_channels": 4, "layers_per_block": 2,
             "mid_block_scale_factor": 1, "norm_eps": 1e-05, "norm_num_groups": 32, "out_channels": 4, "sample_size": 64,
             "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"]}
COMPLETE = "complete.json"  # says which models are there with all that they have


@dataclasses.dataclass(frozen=True)
class Component:
    """One network: its config.json, and {tensor: shape}."""

    config: dict
    shapes: dict


def case_component(root, cases, name, **differs):
    """The component of a golden case, with these values in its configuration instead."""
    shapes = json.loads((root / f"tests/golden/networks/{name}.parameters.json").read_text())
    config = {**cases[name]["config"], **differs}
    if cases[name]["class"].startswith("CLIP"):
        config.update(architectures=[cases[name]["class"]], model_type="clip_text_model")
    else:
        config["_class_name"] = cases[name]["class"]
    return Component(config, shapes)


def listed_shapes(path):
    """{tensor: shape} of a list of lines "320x4x3x3 NAME-IN-A-SINGLE-FILE NAME"."""
    lines = (line.split() for line in path.read_text().splitlines())
    return {name: [int(size) for size in shape.split("x")] for shape, _, name in lines}


def full(root):
    """{"base", "refiner", "other" or "sd15": {component: Component}} of SDXL 1.0 and SD 1.5."""
    cases = {case["name"]: case for case in json.loads((root / "tests/golden/networks.json").read_text())}
    models = {model: {name: case_component(root, cases, case) for name, case in networks.items()}
              for model, networks in FULL_NETWORKS.items()}
    models[SD15] = {"unet": Component(SD15_UNET, listed_shapes(root / "tests/core/weights/names/unet_sd15.txt")),
                    "vae": case_component(root, cases, "vae_sdxl", scaling_factor=0.18215, sample_size=512, force_upcast=False),
                    "text_encoder": case_component(root, cases, "text_encoder_sdxl")}
    return models


def reduced(root):
    """The same of the demo checkpoint, and of the golden SD 1.5."""
    demo = root / "deploy/demo-model"
    models = {model: {name: Component(json.loads((demo / DEMO[model] / name / "config.json").read_text()),
                                      {tensor: entry["shape"] for tensor, entry in
                                       read_header(demo / DEMO[model] / name / tensor_file(name)).items()})
                      for name in networks}
              for model, networks in FULL_NETWORKS.items()}
    shapes = json.loads((root / "tests/golden/checkpoints/sd15.parameters.json").read_text())
    models[SD15] = {name: Component(config, shapes[name]) for name, config in sd15_case(root)["networks"].items()}
    return models


def sd15_case(root):
    """The golden SD 1.5: model_index, and configurations of its networks."""
    return json.loads((root / "tests/golden/checkpoints.json").read_text())[SD15]


def tensor_file(component):
    return "model.safetensors" if component.startswith("text") else "diffusion_pytorch_model.safetensors"


def read_header(path):
    """{tensor: dtype, shape, data_offsets} of a safetensors file."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
    return {name: entry for name, entry in header.items() if name != "__metadata__"}


class Numbers:
    """Pools of normally distributed fp16 numbers, one for each deviation and mean."""

    def __init__(self):
        generator = random.Random(7)
        self._normal = [generator.gauss(0, 1) for _ in range(POOL)]
        self._pools = {}

    def pool(self, name, shape):
        """For the tensor of that name."""
        bias, flat = name.endswith("bias"), len(shape) == 1
        deviation = 0.1 if bias or flat else 1 / math.sqrt(math.prod(shape[1:]))
        key = (deviation, 1.0 if flat and not bias else 0.0)
        if key not in self._pools:
            self._pools[key] = struct.pack(f"<{POOL}e", *(value * key[0] + key[1] for value in self._normal))
        return self._pools[key]


def header_bytes(shapes):
    """The beginning of a safetensors file of these fp16 tensors, and where each one's data begins behind it."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % HEADER_ALIGNMENT)
    return struct.pack("<Q", len(text)) + text, {name: header[name]["data_offsets"] for name in shapes}


def fill(descriptor, begin, size, pool, start):
    """Writes the pool round and round."""
    view = memoryview(pool)
    while size > 0:
        written = os.pwrite(descriptor, view[start:start + size], begin)
        begin, size, start = begin + written, size - written, (start + written) % len(pool)


def write_tensors(path, shapes, numbers, threads, salt=""):
    """Tensors of one name, shape and salt are equal in all files."""
    header, offsets = header_bytes(shapes)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.pwrite(descriptor, header, 0)
        writes = [threads.submit(fill, descriptor, len(header) + offsets[name][0], 2 * math.prod(shape),
                                 numbers.pool(name, shape), 2 * (zlib.crc32((salt + name).encode()) % POOL))
                  for name, shape in shapes.items()]
        for write in writes:
            write.result()
    finally:
        os.close(descriptor)


def write_rest(root, model, folder):
    """Writes everything but the networks."""
    demo = root / "deploy/demo-model" / DEMO[model]
    index = json.loads((demo / "model_index.json").read_text())
    if model == SD15:
        index = {**sd15_case(root)["model_index"], "scheduler": index["scheduler"]}
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    for name in ("scheduler", "tokenizer", "tokenizer_2"):
        if name in index and (demo / name).is_dir():
            shutil.copytree(demo / name, folder / name, dirs_exist_ok=True)


def write_model(root, folder, model, components, threads):
    """The bytes of its weights."""
    numbers, size = Numbers(), 0
    for name, component in components.items():
        target = pathlib.Path(folder, model, name)
        target.mkdir(parents=True)
        (target / "config.json").write_text(json.dumps(component.config, indent=2) + "\n")
        # SDXL's base and refiner share VAE and text encoder, and not the UNet.
        salt = model if name == "unet" or model == OTHER else ""
        write_tensors(target / tensor_file(name), component.shapes, numbers, threads, salt)
        size += (target / tensor_file(name)).stat().st_size
    write_rest(root, model, folder / model)
    return size


def written(folder, architecture):
    """{model: bytes of its weights} that are there."""
    marker = folder / COMPLETE
    found = json.loads(marker.read_text()) if marker.exists() else {}
    return found["bytes"] if found.get("architecture") == architecture else {}


def write(root, folder, architecture, models=SDXL):
    """The models below `folder`, unless they are there already; the bytes of their weights. `architecture`: "full" or "reduced"."""
    sizes = written(folder, architecture)
    if folder.exists() and not sizes:
        shutil.rmtree(folder)
    shapes = {"full": full, "reduced": reduced}[architecture](root)
    with concurrent.futures.ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as threads:
        for model in models:
            if model not in sizes:
                shutil.rmtree(folder / model, ignore_errors=True)
                sizes[model] = write_model(root, folder, model, shapes[model], threads)
                (folder / COMPLETE).write_text(json.dumps({"architecture": architecture, "bytes": sizes}) + "\n")
    return sum(sizes[model] for model in models)
