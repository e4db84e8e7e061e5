"""ControlNets of a checkpoint, made as people train them: they begin as a copy of its UNet's way down. Their own layers,
which are zeros at first, have values drawn by a seed here."""

import json
import random
import struct

import ldm_file

COPIED = ("conv_in.", "time_embedding.", "add_embedding.", "down_blocks.", "mid_block.")
NOT_ITS_OWN = ("up_block_types", "out_channels", "sample_size", "_diffusers_version")
HINT_CHANNELS = (8, 8, 8, 8)
BYTES = {"F16": ("e", 2), "F32": ("f", 4)}


def write(base, folder, seed, gain=0.05, types=0):
    """Writes a net for the checkpoint `base` into `folder`, as diffusers has it. `gain`: of what it adds to the UNet. `types`: of a
    ControlNet-Union the types of its maps."""
    draw = random.Random(seed)
    config = json.loads((base / "unet/config.json").read_text())
    unet = ldm_file.read_component(base / "unet")
    tensors = {name: tensor for name, tensor in unet.items() if name.startswith(COPIED)}
    kind, size = BYTES[unet["conv_in.weight"][0]]

    def add(name, deviation, inputs, outputs, side):
        for part, shape in (("weight", [outputs, inputs, side, side]), ("bias", [outputs])):
            count = outputs * (inputs * side * side if part == "weight" else 1)
            scale = deviation / (inputs * side * side) ** 0.5
            values = struct.pack(f"<{count}{kind}", *(draw.gauss(0, scale) for _ in range(count)))
            tensors[f"{name}.{part}"] = ({2: "F16", 4: "F32"}[size], shape, values)

    widths = config["block_out_channels"]
    add("controlnet_cond_embedding.conv_in", 1, 3, HINT_CHANNELS[0], 3)
    for i, (before, after) in enumerate(zip(HINT_CHANNELS, HINT_CHANNELS[1:])):
        add(f"controlnet_cond_embedding.blocks.{2 * i}", 2, before, before, 3)
        add(f"controlnet_cond_embedding.blocks.{2 * i + 1}", 2, before, after, 3)
    add("controlnet_cond_embedding.conv_out", 2, HINT_CHANNELS[-1], widths[0], 3)
    if types:
        add_union(tensors, add, types, widths[0], 4 * widths[0], config["addition_time_embed_dim"])
    skips = [widths[0]]
    for i, width in enumerate(widths):
        downsampled = i + 1 < len(widths)
        skips += [width] * (config["layers_per_block"] + downsampled)
    for i, width in enumerate(skips):
        add(f"controlnet_down_blocks.{i}", gain, width, width, 1)
    add("controlnet_mid_block", gain, widths[-1], widths[-1], 1)

    folder.mkdir(parents=True)
    config = {name: value for name, value in config.items() if name not in NOT_ITS_OWN}
    config |= {"_class_name": "ControlNetModel", "conditioning_embedding_out_channels": HINT_CHANNELS}
    if types:
        config |= {"_class_name": "ControlNetUnionModel", "num_control_type": types, "num_trans_channel": widths[0],
                   "num_proj_channel": widths[0]}
    (folder / "config.json").write_text(json.dumps(config))
    ldm_file.write(folder / "diffusion_pytorch_model.safetensors", tensors)


def add_union(tensors, add, types, width, embedding, sinusoids):
    """Adds to `tensors`, by `add`, what a union has beside other nets."""
    def take(name, renamed, shape):
        kind, _, values = tensors.pop(name)
        tensors[renamed] = (kind, shape, values)

    linear = {}
    for name, outputs, inputs in (("spatial_ch_projs", width, width), ("control_add_embedding.linear_1", embedding, types * sinusoids),
                                  ("control_add_embedding.linear_2", embedding, embedding), ("task_embedding", types, width),
                                  ("transformer_layes.0.attn.in_proj", 3 * width, width), ("transformer_layes.0.attn.out_proj", width, width),
                                  ("transformer_layes.0.mlp.c_fc", 4 * width, width), ("transformer_layes.0.mlp.c_proj", width, 4 * width)):
        add(name, 1, inputs, outputs, 1)
        linear[name] = [outputs, inputs]
    for name, shape in linear.items():
        take(f"{name}.weight", f"{name}.weight", shape)
    take("task_embedding.weight", "task_embedding", linear["task_embedding"])
    del tensors["task_embedding.bias"]
    for part in ("weight", "bias"):
        name = f"transformer_layes.0.attn.in_proj.{part}"
        take(name, name.replace("proj.", "proj_"), tensors[name][1])
    for norm in ("ln_1", "ln_2"):
        for part in ("weight", "bias"):  # drawn like a bias
            add("drawn", 1, width, width, 1)
            del tensors["drawn.weight"]
            take("drawn.bias", f"transformer_layes.0.{norm}.{part}", [width])
