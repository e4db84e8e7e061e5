"""Checkpoints with random weights in the diffusers layout, fp16, written in seconds: SDXL's base and refiner, adapters for the
base (a ControlNet, LoRAs of 32 ranks, an IP-Adapter with its image encoder), SD 1.5, and Stable Video Diffusion xt.

`full` are the real architectures: configurations and tensors' names and shapes are those of the golden cases, SD 1.5's UNet that
of the published file's list, Stable Video Diffusion's those of diffusers' and transformers' classes (shapes/), the ControlNet's
follow from its UNet's, and so do those of LoRAs and IP-Adapter. `reduced` are the demo checkpoint's and the golden cases'. Tokenizers and noise schedulers are the
demo checkpoint's in all: its 628 tokens are tokens of a larger vocabulary as well, and its schedulers' settings are SDXL's, which
are SD 1.5's; Stable Video Diffusion's scheduler is that of its golden case, which is the published one.

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
import re
import shutil
import struct
import zlib

POOL = 262_147  # a prime: rows of a matrix do not begin at the same numbers
HEADER_ALIGNMENT = 8
SDXL = ("base", "refiner")
SD15 = "sd15"
SVD = "svd"
ADAPTERS = "adapters"  # a folder of adapters for the base, with these names
CONTROL = "edges"
IMAGE_PROMPT, IMAGE_ENCODER, IMAGE_TOKENS = "painting", "image_encoder", 4
LORAS, LORA_RANKS = tuple(f"style{number}" for number in range(8)), 32
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
# Stable Video Diffusion xt, as far as it differs from the golden one.
SVD_FULL = {
    "unet": {"addition_time_embed_dim": 256, "block_out_channels": [320, 640, 1280, 1280], "cross_attention_dim": 1024,
             "down_block_types": ["CrossAttnDownBlockSpatioTemporal"] * 3 + ["DownBlockSpatioTemporal"], "layers_per_block": 2,
             "num_attention_heads": [5, 10, 20, 20], "num_frames": 25, "projection_class_embeddings_input_dim": 768,
             "sample_size": 96, "up_block_types": ["UpBlockSpatioTemporal"] + ["CrossAttnUpBlockSpatioTemporal"] * 3},
    "vae": {"block_out_channels": [128, 256, 512, 512], "sample_size": 768},
    "image_encoder": {"hidden_size": 1280, "intermediate_size": 5120, "num_attention_heads": 16, "num_hidden_layers": 32,
                      "patch_size": 14, "projection_dim": 1024},
}
SHAPES = pathlib.Path(__file__).with_name("shapes")
COMPLETE = "complete.json"  # says which models are there with all that they have


@dataclasses.dataclass(frozen=True)
class Component:
    """One network: its config.json, and {tensor: shape}. Without a configuration it is one file."""

    config: dict | None
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
    """{tensor: shape} of a list of lines "320x4x3x3 [NAME-IN-A-SINGLE-FILE] NAME"; behind "N*", # in a name is each of 0 to N - 1."""
    shapes = {}
    for line in path.read_text().splitlines():
        count, text = re.fullmatch(r"(?:(\d+)\* )?(.*)", line).groups()
        shape, *_, name = text.split()
        for number in range(int(count or 1)):
            shapes[name.replace("#", str(number))] = [int(size) for size in shape.split("x")]
    return shapes


def control_net(unet):
    """The ControlNet for a UNet of SDXL's kind: its way down, an encoder of the hint, and a convolution of one pixel on each skip."""
    config = {**unet.config, "_class_name": "ControlNetModel", "conditioning_channels": 3,
              "conditioning_embedding_out_channels": [16, 32, 96, 256]}
    for field in ("out_channels", "up_block_types", "sample_size"):
        config.pop(field, None)
    kept = ("conv_in.", "time_embedding.", "add_embedding.", "down_blocks.", "mid_block.")
    shapes = {name: shape for name, shape in unet.shapes.items() if name.startswith(kept)}
    channels, hint = config["block_out_channels"], config["conditioning_embedding_out_channels"]

    def convolution(name, taken, given, kernel):
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = [given, taken, kernel, kernel], [given]

    convolution("controlnet_cond_embedding.conv_in", 3, hint[0], 3)
    pairs = list(zip(hint, hint[1:]))
    for number, (taken, given) in enumerate(pair for small, large in pairs for pair in ((small, small), (small, large))):
        convolution(f"controlnet_cond_embedding.blocks.{number}", taken, given, 3)
    convolution("controlnet_cond_embedding.conv_out", hint[-1], channels[0], 3)
    skips = [channels[0]]
    for number, width in enumerate(channels):
        skips += [width] * (config["layers_per_block"] + (number + 1 < len(channels)))
    for number, width in enumerate(skips):
        convolution(f"controlnet_down_blocks.{number}", width, width, 1)
    convolution("controlnet_mid_block", channels[-1], channels[-1], 1)
    return Component(config, shapes)


def lora(unet):
    """A LoRA in PEFT's names of every linear in the transformers of a UNet."""
    shapes = {}
    for name, shape in unet.shapes.items():
        if ".transformer_blocks." in name and len(shape) == 2:
            module = f"unet.{name.removesuffix('.weight')}"
            shapes[f"{module}.lora_A.weight"], shapes[f"{module}.lora_B.weight"] = [LORA_RANKS, shape[1]], [shape[0], LORA_RANKS]
    return Component(None, shapes)


def image_prompt(unet, features):
    """An IP-Adapter for a UNet, as h94's base: it projects so many features of an image. Its attentions are numbered down, up, middle."""
    order, text = ("down_blocks", "up_blocks", "mid_block"), unet.config["cross_attention_dim"]
    keys = sorted((name for name in unet.shapes if name.endswith("attn2.to_k.weight")),
                  key=lambda name: (order.index(name.partition(".")[0]), [int(part) for part in name.split(".") if part.isdigit()]))
    shapes = {"image_proj.proj.weight": [IMAGE_TOKENS * text, features], "image_proj.proj.bias": [IMAGE_TOKENS * text],
              "image_proj.norm.weight": [text], "image_proj.norm.bias": [text]}
    for number, name in enumerate(keys):
        for weight in ("to_k_ip", "to_v_ip"):
            shapes[f"ip_adapter.{2 * number + 1}.{weight}.weight"] = [unet.shapes[name][0], text]
    return Component(None, shapes)


def adapters(unet, encoder):
    """All that the folder of adapters has, for a UNet, with that image encoder."""
    return {CONTROL: control_net(unet), IMAGE_ENCODER: encoder, IMAGE_PROMPT: image_prompt(unet, encoder.config["projection_dim"]),
            **{name: lora(unet) for name in LORAS}}


def video_components(root, shapes_of, differs):
    """Components of the golden Stable Video Diffusion, with these values in their configurations instead."""
    networks = golden_case(root, SVD)["networks"]
    return {name: Component({**config, **differs.get(name, {})}, shapes_of(name)) for name, config in networks.items()}


def full(root):
    """{model: {component: Component}} of SDXL 1.0, adapters for its base, SD 1.5, and Stable Video Diffusion xt."""
    cases = {case["name"]: case for case in json.loads((root / "tests/golden/networks.json").read_text())}
    models = {model: {name: case_component(root, cases, case) for name, case in networks.items()}
              for model, networks in FULL_NETWORKS.items()}
    models[SD15] = {"unet": Component(SD15_UNET, listed_shapes(root / "tests/core/weights/names/unet_sd15.txt")),
                    "vae": case_component(root, cases, "vae_sdxl", scaling_factor=0.18215, sample_size=512, force_upcast=False),
                    "text_encoder": case_component(root, cases, "text_encoder_sdxl")}
    models[SVD] = video_components(root, lambda name: listed_shapes(SHAPES / f"{name}_svd.txt"), SVD_FULL)
    models[ADAPTERS] = adapters(models["base"]["unet"], models[SVD]["image_encoder"])
    return models


def reduced(root):
    """The same of the demo checkpoint, and of the golden SD 1.5 and Stable Video Diffusion."""
    demo = root / "deploy/demo-model"
    models = {model: {name: Component(json.loads((demo / DEMO[model] / name / "config.json").read_text()),
                                      {tensor: entry["shape"] for tensor, entry in
                                       read_header(demo / DEMO[model] / name / tensor_file(name)).items()})
                      for name in networks}
              for model, networks in FULL_NETWORKS.items()}
    shapes = json.loads((root / "tests/golden/checkpoints/sd15.parameters.json").read_text())
    models[SD15] = {name: Component(config, shapes[name]) for name, config in golden_case(root, SD15)["networks"].items()}
    of_video = json.loads((root / "tests/golden/checkpoints/svd.parameters.json").read_text())
    models[SVD] = video_components(root, of_video.get, {})
    models[ADAPTERS] = adapters(models["base"]["unet"], models[SVD]["image_encoder"])
    return models


def golden_case(root, name):
    """The golden checkpoint of that name: model_index, and configurations of its networks."""
    return json.loads((root / "tests/golden/checkpoints.json").read_text())[name]


def tensor_file(component):
    return "model.safetensors" if component.startswith(("text", "image")) else "diffusion_pytorch_model.safetensors"


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


def write_video_rest(root, folder):
    case = golden_case(root, SVD)
    for place, content in (("model_index.json", case["model_index"]), ("scheduler/scheduler_config.json", case["scheduler"]),
                           ("feature_extractor/preprocessor_config.json", case["feature_extractor"])):
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_text(json.dumps(content, indent=2) + "\n")


def write_rest(root, model, folder):
    """Writes everything but the networks."""
    if model == ADAPTERS:
        return
    if model == SVD:
        write_video_rest(root, folder)
        return
    demo = root / "deploy/demo-model" / DEMO[model]
    index = json.loads((demo / "model_index.json").read_text())
    if model == SD15:
        index = {**golden_case(root, SD15)["model_index"], "scheduler": index["scheduler"]}
    (folder / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
    for name in ("scheduler", "tokenizer", "tokenizer_2"):
        if name in index and (demo / name).is_dir():
            shutil.copytree(demo / name, folder / name, dirs_exist_ok=True)


def write_model(root, folder, model, components, threads):
    """The bytes of its weights."""
    numbers, size = Numbers(), 0
    for name, component in components.items():
        file = pathlib.Path(folder, model, f"{name}.safetensors" if component.config is None else f"{name}/{tensor_file(name)}")
        file.parent.mkdir(parents=True, exist_ok=True)
        if component.config is not None:
            (file.parent / "config.json").write_text(json.dumps(component.config, indent=2) + "\n")
        # SDXL's base and refiner share VAE and text encoder, and not the UNet; no two LoRAs are alike.
        salt = model if name == "unet" or model == OTHER else name if name in LORAS else ""
        write_tensors(file, component.shapes, numbers, threads, salt)
        size += file.stat().st_size
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
