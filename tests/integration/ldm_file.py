"""A checkpoint of diffusers' folders as one file, with the names and layouts of latent diffusion's own code (LDM, sgm), as
model sites have it: the reverse of what latentd reads. For checkpoints in f16."""

import json
import struct

DTYPE_BYTES = 2
RESNET = {"norm1": "in_layers.0", "conv1": "in_layers.2", "time_emb_proj": "emb_layers.1", "norm2": "out_layers.0",
          "conv2": "out_layers.3", "conv_shortcut": "skip_connection"}
UNET = {"conv_in": "input_blocks.0.0", "conv_norm_out": "out.0", "conv_out": "out.2",
        "time_embedding.linear_1": "time_embed.0", "time_embedding.linear_2": "time_embed.2",
        "add_embedding.linear_1": "label_emb.0.0", "add_embedding.linear_2": "label_emb.0.2"}
OPEN_CLIP = {"layer_norm1": "ln_1", "layer_norm2": "ln_2", "self_attn.out_proj": "attn.out_proj", "mlp.fc1": "mlp.c_fc",
             "mlp.fc2": "mlp.c_proj"}


def read(path):
    """{name: (dtype, shape, bytes)} of a safetensors file."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]])
            for name, entry in header.items()}


def write(path, tensors, metadata=None):
    header, end = {"__metadata__": metadata or {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def read_component(folder):
    path, = folder.glob("*.safetensors")
    return read(path)


def split(name):
    """("down_blocks.0.resnets.1", "conv1", "weight")."""
    path, _, kind = name.rpartition(".")
    return path, kind


def unet_name(name, layers, attends):
    """`layers` of a block of the way down; `attends` says of a block of the way up whether it has attention."""
    path, kind = split(name)
    if path in UNET:
        return f"{UNET[path]}.{kind}"
    place, block, part, index, *rest = path.split(".")
    if place == "mid_block":  # mid_block.resnets.1.conv1: there is no number of a block
        part, index, rest = block, part, [index, *rest]
        module = f"middle_block.{1 if part == 'attentions' else 2 * int(index)}"
    elif part == "downsamplers":
        return f"input_blocks.{(int(block) + 1) * (layers + 1)}.0.op.{kind}"
    elif part == "upsamplers":
        return f"output_blocks.{int(block) * (layers + 1) + layers}.{2 if attends(block) else 1}.conv.{kind}"
    else:
        number = int(block) * (layers + 1) + int(index) + (1 if place == "down_blocks" else 0)
        module = f"{'input' if place == 'down_blocks' else 'output'}_blocks.{number}.{1 if part == 'attentions' else 0}"
    inside = ".".join(rest)
    return f"{module}.{RESNET[inside] if part == 'resnets' else inside}.{kind}"


def unet(folder):
    tensors = read_component(folder)
    layers = json.loads((folder / "config.json").read_text())["layers_per_block"]

    def attends(block):
        return f"up_blocks.{block}.attentions.0.norm.weight" in tensors

    return {f"model.diffusion_model.{unet_name(name, layers, attends)}": tensor for name, tensor in tensors.items()}


def vae_name(name, blocks):
    for old, new in ((".conv_norm_out.", ".norm_out."), (".mid_block.resnets.0.", ".mid.block_1."),
                     (".mid_block.resnets.1.", ".mid.block_2."), (".mid_block.attentions.0.group_norm.", ".mid.attn_1.norm."),
                     (".mid_block.attentions.0.to_out.0.", ".mid.attn_1.proj_out."),
                     (".mid_block.attentions.0.to_", ".mid.attn_1."), (".conv_shortcut.", ".nin_shortcut."),
                     (".downsamplers.0.", ".downsample."), (".upsamplers.0.", ".upsample."), (".resnets.", ".block.")):
        name = name.replace(old, new)
    parts = name.split(".")
    if parts[1] == "down_blocks":
        parts[1] = "down"
    elif parts[1] == "up_blocks":
        parts[1:3] = ["up", str(blocks - 1 - int(parts[2]))]
    return ".".join(parts)


def vae(folder, prefix="first_stage_model."):
    blocks = len(json.loads((folder / "config.json").read_text())["block_out_channels"])
    result = {}
    for name, (dtype, shape, data) in read_component(folder).items():
        renamed = vae_name(name, blocks)
        is_matrix = ".attn_1." in renamed and len(shape) == 2  # stored as a convolution
        result[prefix + renamed] = (dtype, shape + [1, 1] if is_matrix else shape, data)
    return result


def clip(folder, prefix="conditioner.embedders.0.transformer."):
    return {prefix + name: tensor for name, tensor in read_component(folder).items()}


def transposed(tensor):
    dtype, (rows, columns), data = tensor
    at = lambda row, column: (row * columns + column) * DTYPE_BYTES
    return dtype, [columns, rows], b"".join(data[at(row, column):at(row, column) + DTYPE_BYTES]
                                            for column in range(columns) for row in range(rows))


def joined(tensors):
    """One below the other."""
    dtype, shape, _ = tensors[0]
    return dtype, [len(tensors) * shape[0], *shape[1:]], b"".join(data for _, _, data in tensors)


def open_clip(folder, prefix="conditioner.embedders.1.model."):
    tensors, result = read_component(folder), {}
    for name, tensor in tensors.items():
        path, kind = split(name)
        layer = path.removeprefix("text_model.encoder.layers.")
        number, _, inside = layer.partition(".")
        if name == "text_projection.weight":
            result["text_projection"] = transposed(tensor)
        elif name == "text_model.embeddings.position_embedding.weight":
            result["positional_embedding"] = tensor
        elif name == "text_model.embeddings.token_embedding.weight":
            result["token_embedding.weight"] = tensor
        elif path == "text_model.final_layer_norm":
            result[f"ln_final.{kind}"] = tensor
        elif inside == "self_attn.q_proj":
            result[f"transformer.resblocks.{number}.attn.in_proj_{kind}"] = joined(
                [tensors[f"text_model.encoder.layers.{number}.self_attn.{which}_proj.{kind}"] for which in "qkv"])
        elif inside in OPEN_CLIP:
            result[f"transformer.resblocks.{number}.{OPEN_CLIP[inside]}.{kind}"] = tensor
    return {prefix + name: tensor for name, tensor in result.items()}


def sdxl(folder):
    """All components of a folder of SDXL's base, as one file has them."""
    return {**unet(folder / "unet"), **vae(folder / "vae"), **clip(folder / "text_encoder"), **open_clip(folder / "text_encoder_2")}
