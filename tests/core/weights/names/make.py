"""Makes the lists of tensors of published networks, NAME.txt, with diffusers and transformers from configurations alone.

Usage: python make.py DIRECTORY

A line of a list: shape, the tensor's name in a single file (latent diffusion's, OpenCLIP's or TAESD's own), its name in
diffusers or transformers. In a line "N* shape name name", # stands for 0 to N - 1. Behind the last name stands "T" where
it is the stored tensor's transpose, or the rows that it is; without a last name no network reads the tensor.

The names of single files are written by rules of this script. diffusers' own converters must agree with each of them,
tensor by tensor, or nothing is written.
"""
import itertools
import pathlib
import re
import sys

import diffusers
import torch
from diffusers.loaders import single_file_utils
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

EARLY_UNET = {
    "block_out_channels": [320, 640, 1280, 1280],
    "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
    "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3,
    "layers_per_block": 2,
}
XL_UNET = {
    "block_out_channels": [320, 640, 1280],
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "layers_per_block": 2,
    "attention_head_dim": [5, 10, 20],
    "cross_attention_dim": 2048,
    "transformer_layers_per_block": [1, 2, 10],
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
}
UNETS = {
    "unet_sd15": {**EARLY_UNET, "attention_head_dim": 8, "cross_attention_dim": 768},
    "unet_sd21": {
        **EARLY_UNET, "attention_head_dim": [5, 10, 20, 20], "cross_attention_dim": 1024, "use_linear_projection": True
    },
    "unet_sdxl": XL_UNET,
    "unet_sdxl_refiner": {
        **XL_UNET,
        "block_out_channels": [384, 768, 1536, 1536],
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
        "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
        "attention_head_dim": [6, 12, 24, 24],
        "cross_attention_dim": 1280,
        "transformer_layers_per_block": 4,
        "projection_class_embeddings_input_dim": 2560,
    },
    "unet_ssd_1b": {
        **XL_UNET,
        "transformer_layers_per_block": [1, [2, 2], [4, 4]],
        "reverse_transformer_layers_per_block": [[4, 4, 10], [2, 1, 1], 1],
        "mid_block_type": "UNetMidBlock2D",
    },
    "unet_vega": {
        **XL_UNET,
        "transformer_layers_per_block": [1, [1, 1], [2, 2]],
        "reverse_transformer_layers_per_block": [[2, 2, 2], [1, 1, 1], 1],
        "mid_block_type": "UNetMidBlock2D",
    },
    "unet_koala_700m": {
        **XL_UNET, "layers_per_block": 1, "transformer_layers_per_block": [1, 2, 5], "mid_block_type": None
    },
    "unet_koala_1b": {**XL_UNET, "layers_per_block": 1, "transformer_layers_per_block": [1, 2, 6]},
}
VAE = {
    "block_out_channels": [128, 256, 512, 512],
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
    "layers_per_block": 2,
}
CLIP_L = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
CLIP_H = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 23, "num_attention_heads": 16}
CLIP_G = {
    "hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32, "num_attention_heads": 20,
    "projection_dim": 1280
}

RESNET = {
    "norm1": "in_layers.0", "conv1": "in_layers.2", "time_emb_proj": "emb_layers.1", "norm2": "out_layers.0",
    "conv2": "out_layers.3", "conv_shortcut": "skip_connection"
}
UNET_ENDS = {
    "conv_in": "input_blocks.0.0", "conv_norm_out": "out.0", "conv_out": "out.2",
    "time_embedding.linear_1": "time_embed.0", "time_embedding.linear_2": "time_embed.2",
    "add_embedding.linear_1": "label_emb.0.0", "add_embedding.linear_2": "label_emb.0.2"
}
CLIP_LAYER = {
    "layer_norm1": "ln_1", "layer_norm2": "ln_2", "self_attn.out_proj": "attn.out_proj", "mlp.fc1": "mlp.c_fc",
    "mlp.fc2": "mlp.c_proj"
}


def shapes(network):
    """The shapes of a network's tensors by name."""
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


def unet_name(name, config):
    """The name of a UNet's tensor in latent diffusion."""
    module, end = name.rsplit(".", 1)
    if module in UNET_ENDS:
        return f"{UNET_ENDS[module]}.{end}"
    stride = config["layers_per_block"] + 1
    match = re.fullmatch(r"(down_blocks|up_blocks)\.(\d+)\.(resnets|attentions|downsamplers|upsamplers)\.(\d+)\.(.+)", module)
    if match is None:
        kind, index, rest = re.fullmatch(r"mid_block\.(resnets|attentions)\.(\d+)\.(.+)", module).groups()
        place = f"middle_block.{2 * int(index) if kind == 'resnets' else 1}"
        return f"{place}.{RESNET[rest] if kind == 'resnets' else rest}.{end}"
    way, block, kind, layer, rest = match.groups()
    block, layer = int(block), int(layer)
    if kind == "downsamplers":
        return f"input_blocks.{(block + 1) * stride}.0.op.{end}"
    if kind == "upsamplers":
        attends = config["up_block_types"][block].startswith("CrossAttn")
        return f"output_blocks.{(block + 1) * stride - 1}.{2 if attends else 1}.conv.{end}"
    place = f"input_blocks.{1 + block * stride + layer}" if way == "down_blocks" else f"output_blocks.{block * stride + layer}"
    return f"{place}.0.{RESNET[rest]}.{end}" if kind == "resnets" else f"{place}.1.{rest}.{end}"


def vae_name(name):
    """The name of an AutoencoderKL's tensor in latent diffusion, for four resolutions."""
    name = name.replace("conv_norm_out", "norm_out").replace("conv_shortcut", "nin_shortcut")
    name = re.sub(r"mid_block\.resnets\.(\d)", lambda match: f"mid.block_{int(match[1]) + 1}", name)
    name = name.replace("mid_block.attentions.0.", "mid.attn_1.").replace("group_norm", "norm")
    name = re.sub(r"attn_1\.to_([qkv])", r"attn_1.\1", name).replace("to_out.0", "proj_out")
    name = re.sub(r"down_blocks\.(\d)\.resnets", r"down.\1.block", name)
    name = re.sub(r"up_blocks\.(\d)\.resnets", lambda match: f"up.{3 - int(match[1])}.block", name)
    name = re.sub(r"down_blocks\.(\d)\.downsamplers\.0", r"down.\1.downsample", name)
    return re.sub(r"up_blocks\.(\d)\.upsamplers\.0", lambda match: f"up.{3 - int(match[1])}.upsample", name)


def open_clip_name(name):
    """The name of a text encoder's tensor in OpenCLIP, but for queries, keys, values and the projection."""
    name = name.removeprefix("text_model.")
    if name == "embeddings.position_embedding.weight":
        return "positional_embedding"
    if name == "embeddings.token_embedding.weight":
        return "token_embedding.weight"
    if name.startswith("final_layer_norm."):
        return name.replace("final_layer_norm", "ln_final")
    index, module, end = re.fullmatch(r"encoder\.layers\.(\d+)\.(.+)\.(weight|bias)", name).groups()
    return f"transformer.resblocks.{index}.{CLIP_LAYER[module]}.{end}"


def transformers_name(name):
    """The name that CLIPTextModel has had in files, which transformers 5 may leave a part of out."""
    return name if name.startswith(("text_model.", "text_projection.")) else f"text_model.{name}"


def unet_list(config):
    network = diffusers.UNet2DConditionModel.from_config(config)
    return [(shape, unet_name(name, config), (name,)) for name, shape in shapes(network).items()]


def vae_list():
    network = diffusers.AutoencoderKL.from_config(VAE)
    lines = []
    for name, shape in shapes(network).items():
        is_attention = "attentions" in name and len(shape) == 2
        lines.append(((*shape, 1, 1) if is_attention else shape, vae_name(name), (name,)))
    return lines


def clip_list(config):
    network = CLIPTextModel(CLIPTextConfig(**config))
    names = {transformers_name(name): shape for name, shape in shapes(network).items() if "position_ids" not in name}
    return [(shape, name, (name,)) for name, shape in names.items()]


def open_clip_list(config, kind, unread_layers=0):
    """With layers behind the last that the network has, and what OpenCLIP has beside the text."""
    network = kind(CLIPTextConfig(**config))
    names = {transformers_name(name): shape for name, shape in shapes(network).items() if "position_ids" not in name}
    width = config["hidden_size"]
    lines = []
    for name, shape in names.items():
        if re.search(r"[qkv]_proj", name) or name.startswith("text_projection"):
            continue
        lines.append((shape, open_clip_name(name), (name,)))
    for layer in range(config["num_hidden_layers"]):
        for end, shape in ("weight", (3 * width, width)), ("bias", (3 * width,)):
            path = f"text_model.encoder.layers.{layer}.self_attn"
            rows = [(f"{path}.{part}_proj.{end}", f"{i * width}-{(i + 1) * width}") for i, part in enumerate("qkv")]
            lines.append((shape, f"transformer.resblocks.{layer}.attn.in_proj_{end}", tuple(itertools.chain(*rows))))
    for shape, name, _ in [line for line in lines if line[1].startswith("transformer.resblocks.0.")] * unread_layers:
        lines.append((shape, name.replace("resblocks.0.", f"resblocks.{config['num_hidden_layers']}."), ()))
    is_projected = kind is CLIPTextModelWithProjection
    lines.append(((width, width), "text_projection", ("text_projection.weight", "T") if is_projected else ()))
    lines.append(((), "logit_scale", ()))
    return lines


def taesd_list():
    network = diffusers.AutoencoderTiny()
    lines = []
    for name, shape in shapes(network).items():
        half, index, rest = re.fullmatch(r"(encoder|decoder)\.layers\.(\d+)\.(.+)", name).groups()
        lines.append((shape, f"taesd_{half}.{int(index) + (half == 'decoder')}.{rest}", (name,)))
    return lines


def marked(lines, prefix):
    """Tensors with a number of their own in every element; those that are cut up have one in every third of rows."""
    tensors = {}
    for number, (shape, name, wanted) in enumerate(lines):
        if len(wanted) > 2:
            thirds = [torch.full((shape[0] // 3, *shape[1:]), 3 * number + part, dtype=torch.int16) for part in range(3)]
            tensors[prefix + name] = torch.cat(thirds)
        elif wanted[1:] == ("T",):
            tensors[prefix + name] = torch.arange(shape[0] * shape[1], dtype=torch.int32).reshape(shape)
        else:
            tensors[prefix + name] = torch.tensor(3 * number, dtype=torch.int16).expand(shape)
    return tensors


def check(title, lines, prefix, converted):
    """Exits unless a converter of diffusers has made the same tensors of marked ones."""
    stored = marked(lines, prefix)
    wanted = {}
    for shape, name, targets in lines:
        tensor = stored[prefix + name]
        if len(targets) == 1:
            wanted[targets[0]] = tensor.reshape(tensor.shape[:2]) if shape[2:] == (1, 1) and "mid.attn" in name else tensor
        elif targets[1:] == ("T",):
            wanted[targets[0]] = tensor.T
        for target, rows in zip(targets[::2], targets[1::2]) if len(targets) > 2 else ():
            begin, end = map(int, rows.split("-"))
            wanted[target] = tensor[begin:end]
    converted = {transformers_name(name) if "encoder.layers" in name and "text" in title else name: tensor
                 for name, tensor in converted(stored).items()}
    if converted.keys() != wanted.keys():
        sys.exit(f"{title}: {sorted(converted.keys() ^ wanted.keys())[:8]} are in one of the two lists")
    for name, tensor in wanted.items():
        if not torch.equal(tensor, converted[name]):
            sys.exit(f"{title}: diffusers makes {name} of other elements")
    print(f"{title}: diffusers agrees on {len(wanted)} tensors")


class Projected:
    """Stands for a text encoder, of which the converter reads the width."""

    def __init__(self, config):
        self.config = CLIPTextConfig(**config)


def check_all(lists):
    for name, config in UNETS.items():
        check(name, lists[name], "model.diffusion_model.",
              lambda stored, config=config: single_file_utils.convert_ldm_unet_checkpoint(dict(stored), config))
    check("vae", lists["vae"], "first_stage_model.",
          lambda stored: single_file_utils.convert_ldm_vae_checkpoint(dict(stored), VAE))
    check("text encoder L", lists["clip_l"], "cond_stage_model.transformer.",
          lambda stored: single_file_utils.convert_ldm_clip_checkpoint(dict(stored)))
    for title, key, config, prefix in (("text encoder H", "open_clip_h", CLIP_H, "cond_stage_model.model."),
                                       ("text encoder G", "open_clip_g", CLIP_G, "conditioner.embedders.1.model.")):
        unread = {"text_projection.weight"} if key == "open_clip_h" else set()
        check(title, lists[key], prefix,
              lambda stored, config=config, prefix=prefix, unread=unread: {
                  name: tensor for name, tensor in single_file_utils.convert_open_clip_checkpoint(
                      Projected(config), dict(stored), prefix).items() if name not in unread and "logit" not in name})


def grouped(lines):
    """Lines that differ in one number alone become one, in the place of the first."""
    groups = {}
    for shape, name, wanted in lines:
        pattern = re.compile(r"(transformer_blocks|resblocks|encoder\.layers)\.(\d+)\.")
        found = pattern.search(name)
        template = tuple(pattern.sub(r"\1.#.", text) for text in (name, *wanted))
        groups.setdefault((shape, template), []).append((int(found[2]) if found else None, (name, *wanted)))
    for (shape, template), members in groups.items():
        size = "x".join(map(str, shape)) or "scalar"
        if len(members) > 1 and [number for number, _ in members] == list(range(len(members))):
            yield " ".join((f"{len(members)}*", size, *template))
        else:
            yield from (" ".join((size, *names)) for _, names in members)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with torch.device("meta"):
        lists = {name: unet_list(config) for name, config in UNETS.items()}
        lists["vae"] = vae_list()
        lists["clip_l"] = clip_list(CLIP_L)
        lists["open_clip_h"] = open_clip_list(CLIP_H, CLIPTextModel, unread_layers=1)
        lists["open_clip_g"] = open_clip_list(CLIP_G, CLIPTextModelWithProjection)
        lists["taesd"] = taesd_list()
    check_all(lists)
    for name, lines in lists.items():
        pathlib.Path(sys.argv[1], f"{name}.txt").write_text("\n".join(grouped(lines)) + "\n")


if __name__ == "__main__":
    main()
