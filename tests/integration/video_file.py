"""A checkpoint of Stable Video Diffusion as one file, with the names and layouts of the code that it was trained with (sgm), as
it was published: the reverse of what latentd reads. For checkpoints in f32."""

import json

import ldm_file

UNET, VISION = "model.diffusion_model.", "conditioner.embedders.0.open_clip.model.visual."
ENCODER, DECODER = "conditioner.embedders.3.encoder.", "first_stage_model."
FRAMES = {name: ldm_file.RESNET[name] for name in ("norm1", "conv1", "time_emb_proj", "norm2", "conv2")}
VAE_ENDS = {"conv_norm_out": "norm_out", "time_conv_out": "conv_out.time_mix_conv"}
VAE_ATTENTION = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "proj_out"}
VISION_NORMS = {"vision_model.pre_layrnorm": "ln_pre", "vision_model.post_layernorm": "ln_post"}
POSITIONS = {"time_pos_embed.linear_1": "time_pos_embed.0", "time_pos_embed.linear_2": "time_pos_embed.2"}


def module_name(place, block, part, index, layers):
    """The path of a residual block or a transformer in one of the lists."""
    column = 1 if part == "attentions" else 0
    if place == "mid_block":
        return f"middle_block.{1 if column else 2 * index}"
    first, name = (1, "input_blocks") if place == "down_blocks" else (0, "output_blocks")
    return f"{name}.{first + block * (layers + 1) + index}.{column}"


def unet_name(name, layers, attends):
    path, _, kind = name.rpartition(".")
    if path in ldm_file.UNET:
        return f"{ldm_file.UNET[path]}.{kind}"
    place, *rest = path.split(".")
    block = 0 if place == "mid_block" else int(rest.pop(0))
    part, index = rest[0], int(rest[1])
    if part == "downsamplers":
        return f"input_blocks.{(block + 1) * (layers + 1)}.0.op.{kind}"
    if part == "upsamplers":
        return f"output_blocks.{block * (layers + 1) + layers}.{2 if attends(block) else 1}.conv.{kind}"
    inner = ".".join(rest[2:])
    if inner.startswith("spatial_res_block."):
        inner = ldm_file.RESNET[inner.removeprefix("spatial_res_block.")]
    elif inner.startswith("temporal_res_block."):
        inner = f"time_stack.{FRAMES[inner.removeprefix('temporal_res_block.')]}"
    inner = POSITIONS.get(inner, inner.replace("temporal_transformer_blocks.", "time_stack."))
    return f"{module_name(place, block, part, index, layers)}.{inner}.{kind}"


def vae_name(name, blocks):
    path, _, kind = name.rpartition(".")
    half, *rest = path.split(".")
    if half == "quant_conv":
        return name
    if rest[0] == "mid_block" and rest[1] == "attentions":
        return f"{half}.mid.attn_1.{VAE_ATTENTION['.'.join(rest[3:])]}.{kind}"
    if rest[0] == "mid_block":
        module, inner = f"mid.block_{int(rest[2]) + 1}", ".".join(rest[3:])
    elif rest[0] in ("down_blocks", "up_blocks"):
        number = int(rest[1]) if rest[0] == "down_blocks" else blocks - 1 - int(rest[1])
        way = rest[0].removesuffix("_blocks")
        if rest[2].endswith("samplers"):
            return f"{half}.{way}.{number}.{way}sample.conv.{kind}"
        module, inner = f"{way}.{number}.block.{rest[3]}", ".".join(rest[4:])
    else:
        return f"{half}.{VAE_ENDS.get(rest[0], rest[0])}.{kind}"
    if kind == "mix_factor":
        return f"{half}.{module}.mix_factor"
    if inner.startswith("temporal_res_block."):
        inner = f"time_stack.{FRAMES[inner.removeprefix('temporal_res_block.')]}"
    inner = inner.removeprefix("spatial_res_block.")
    return f"{half}.{module}.{'nin_shortcut' if inner == 'conv_shortcut' else inner}.{kind}"


def transposed(tensor):
    dtype, (rows, columns), data = tensor
    cells = [data[i:i + 4] for i in range(0, len(data), 4)]
    return dtype, [columns, rows], b"".join(b"".join(cells[column::columns]) for column in range(columns))


def vision_tensors(tensors):
    """OpenCLIP's of transformers': query, key and value in one, and the last projection from the right."""
    named, plain = {}, {"vision_model.embeddings.class_embedding": "class_embedding",
                        "vision_model.embeddings.patch_embedding.weight": "conv1.weight",
                        "vision_model.embeddings.position_embedding.weight": "positional_embedding"}
    for name, tensor in tensors.items():
        if name == "visual_projection.weight":
            named["proj"] = transposed(tensor)
        elif name in plain:
            named[plain[name]] = tensor
        elif ".layers." in name:
            number, _, inner = name.removeprefix("vision_model.encoder.layers.").partition(".")
            module, _, kind = inner.rpartition(".")
            if module not in ldm_file.OPEN_CLIP:
                continue
            named[f"transformer.resblocks.{number}.{ldm_file.OPEN_CLIP[module]}.{kind}"] = tensor
        else:
            path, _, kind = name.rpartition(".")
            named[f"{VISION_NORMS[path]}.{kind}"] = tensor
    for name in tensors:
        if not name.endswith(".q_proj.weight"):
            continue
        layer = name.removesuffix(".self_attn.q_proj.weight")
        for kind in ("weight", "bias"):
            fused = ldm_file.joined([tensors[f"{layer}.self_attn.{part}_proj.{kind}"] for part in "qkv"])
            named[f"transformer.resblocks.{layer.rpartition('.')[2]}.attn.in_proj_{kind}"] = fused
    return named


def vae_tensors(tensors, blocks):
    for name, (dtype, shape, data) in tensors.items():
        renamed = vae_name(name, blocks)
        if ".attn_1." in renamed and len(shape) == 2:
            shape = [*shape, 1, 1]
        yield (DECODER if name.startswith("decoder.") else ENCODER) + renamed, (dtype, shape, data)


def write_video_file(folder, path, image_encoder=True):
    """All of the checkpoint in that folder, with some of what else is in a published one."""
    config = json.loads((folder / "unet/config.json").read_text())
    layers = config["layers_per_block"]
    blocks = len(json.loads((folder / "vae/config.json").read_text())["block_out_channels"])

    def attends(block):
        return config["up_block_types"][block].startswith("CrossAttn")

    tensors = {UNET + unet_name(name, layers, attends): tensor
               for name, tensor in ldm_file.read_component(folder / "unet").items()}
    tensors.update(vae_tensors(ldm_file.read_component(folder / "vae"), blocks))
    if image_encoder:
        tensors.update({VISION + name: tensor
                        for name, tensor in vision_tensors(ldm_file.read_component(folder / "image_encoder")).items()})
    one = ("F32", [1], b"\0\0\x80\x3f")
    for name in (ENCODER + "decoder.conv_in.bias", ENCODER + "post_quant_conv.bias", DECODER + "encoder.conv_in.bias",
                 "conditioner.embedders.0.open_clip.model.logit_scale"):
        tensors[name] = one
    ldm_file.write(path, tensors)
    return path
