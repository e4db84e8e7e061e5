"""Checkpoints of SDXL's architecture with random weights: base and refiner in the diffusers layout, fp16, written in seconds.

`full` is the real architecture: configurations and tensors' names and shapes are those of the golden cases. `reduced` is the demo
checkpoint's. Tokenizers and noise schedulers are the demo checkpoint's in both: its 628 tokens are tokens of a larger vocabulary
as well, and its schedulers' settings are SDXL's.

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
FULL_NETWORKS = {
    "base": {"unet": "unet_sdxl_base", "vae": "vae_sdxl", "text_encoder": "text_encoder_sdxl",
             "text_encoder_2": "text_encoder_2_sdxl"},
    "refiner": {"unet": "unet_sdxl_refiner", "vae": "vae_sdxl", "text_encoder_2": "text_encoder_2_sdxl"},
}
COMPLETE = "complete.json"  # is there when everything else is


@dataclasses.dataclass(frozen=True)
class Component:
    """One network: its config.json, and {tensor: shape}."""

    config: dict
    shapes: dict


def full(root):
    """{"base" or "refiner": {component: Component}} of SDXL 1.0."""
    cases = {case["name"]: case for case in json.loads((root / "tests/golden/networks.json").read_text())}

    def component(name):
        shapes = json.loads((root / f"tests/golden/networks/{name}.parameters.json").read_text())
        config = dict(cases[name]["config"])
        if cases[name]["class"].startswith("CLIP"):
            config.update(architectures=[cases[name]["class"]], model_type="clip_text_model")
        else:
            config["_class_name"] = cases[name]["class"]
        return Component(config, shapes)

    return {model: {name: component(case) for name, case in networks.items()} for model, networks in FULL_NETWORKS.items()}


def reduced(root):
    """The same of the demo checkpoint."""
    demo = root / "deploy/demo-model"
    return {model: {name: Component(json.loads((demo / model / name / "config.json").read_text()),
                                    {tensor: entry["shape"] for tensor, entry in
                                     read_header(demo / model / name / tensor_file(name)).items()})
                    for name in networks}
            for model, networks in FULL_NETWORKS.items()}


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


def copy_rest(demo, folder):
    """Everything but the networks."""
    shutil.copy(demo / "model_index.json", folder)
    for name in ("scheduler", "tokenizer", "tokenizer_2"):
        if (demo / name).is_dir():
            shutil.copytree(demo / name, folder / name, dirs_exist_ok=True)


def write(root, folder, architecture):
    """base/ and refiner/ below `folder`, unless they are there already; the bytes of weights. `architecture`: "full" or "reduced"."""
    marker = folder / COMPLETE
    if marker.exists() and json.loads(marker.read_text())["architecture"] == architecture:
        return json.loads(marker.read_text())["bytes"]
    if folder.exists():
        shutil.rmtree(folder)
    models = {"full": full, "reduced": reduced}[architecture](root)
    numbers, size = Numbers(), 0
    with concurrent.futures.ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as threads:
        for model, components in models.items():
            for name, component in components.items():
                target = pathlib.Path(folder, model, name)
                target.mkdir(parents=True)
                (target / "config.json").write_text(json.dumps(component.config, indent=2) + "\n")
                # Base and refiner share VAE and text encoder, and not the UNet, as SDXL's do.
                write_tensors(target / tensor_file(name), component.shapes, numbers, threads, salt=model if name == "unet" else "")
                size += (target / tensor_file(name)).stat().st_size
            copy_rest(root / "deploy/demo-model" / model, folder / model)
    marker.write_text(json.dumps({"architecture": architecture, "bytes": size}) + "\n")
    return size
