"""IP-Adapters of a checkpoint with values drawn by a seed, and the image encoder that they read."""

import json
import random
import struct

import ldm_file

IMAGE_FEATURES, HIDDEN, SIDE, PATCH = 24, 32, 28, 14
ENCODER = {"hidden_size": HIDDEN, "intermediate_size": 48, "projection_dim": IMAGE_FEATURES, "num_hidden_layers": 2,
           "num_attention_heads": 2, "image_size": SIDE, "patch_size": PATCH}


class Tensors:
    """Tensors of float32 by their names, drawn one after the other."""

    def __init__(self, seed):
        self.draw, self.all = random.Random(seed), {}

    def add(self, name, *shape, deviation=None):
        count = 1
        for side in shape:
            count *= side
        deviation = deviation or (shape[0] / count) ** 0.5
        values = struct.pack(f"<{count}f", *(self.draw.gauss(0, deviation) for _ in range(count)))
        self.all[name] = ("F32", list(shape), values)

    def add_linear(self, name, inputs, outputs):
        self.add(f"{name}.weight", outputs, inputs)
        self.add(f"{name}.bias", outputs, deviation=0.1)

    def add_norm(self, name, features):
        for part in ("weight", "bias"):
            self.add(f"{name}.{part}", features, deviation=0.5)


def write_encoder(folder):
    """A CLIPVisionModelWithProjection, as transformers has it."""
    tensors = Tensors(seed=9)
    root = "vision_model"
    tensors.add(f"{root}.embeddings.class_embedding", HIDDEN, deviation=1)
    tensors.add(f"{root}.embeddings.patch_embedding.weight", HIDDEN, 3, PATCH, PATCH)
    tensors.add(f"{root}.embeddings.position_embedding.weight", 1 + (SIDE // PATCH) ** 2, HIDDEN)
    for norm in ("pre_layrnorm", "post_layernorm"):
        tensors.add_norm(f"{root}.{norm}", HIDDEN)
    for i in range(ENCODER["num_hidden_layers"]):
        layer = f"{root}.encoder.layers.{i}"
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            tensors.add_linear(f"{layer}.self_attn.{part}", HIDDEN, HIDDEN)
        tensors.add_linear(f"{layer}.mlp.fc1", HIDDEN, ENCODER["intermediate_size"])
        tensors.add_linear(f"{layer}.mlp.fc2", ENCODER["intermediate_size"], HIDDEN)
        for norm in ("layer_norm1", "layer_norm2"):
            tensors.add_norm(f"{layer}.{norm}", HIDDEN)
    tensors.add("visual_projection.weight", IMAGE_FEATURES, HIDDEN)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(ENCODER))
    ldm_file.write(folder / "model.safetensors", tensors.all)


def _attentions(base):
    """Widths of a UNet's attentions to its text in the order of IP-Adapters: down, up, middle."""
    config = json.loads((base / "unet/config.json").read_text())
    shapes = {name: shape for name, (_, shape, _) in ldm_file.read_component(base / "unet").items()}
    widths = {name: shape[0] for name, shape in shapes.items() if name.endswith("attn2.to_k.weight")}
    order = ("down_blocks", "up_blocks", "mid_block")
    keys = sorted(widths, key=lambda name: (order.index(name.split(".")[0]),
                                            [int(part) for part in name.split(".") if part.isdigit()]))
    return [widths[name] for name in keys], config["cross_attention_dim"]


def write(base, path, seed, plus=False):
    """Writes an adapter for the checkpoint `base`: of 4 tokens, or with `plus` of 6."""
    widths, text = _attentions(base)
    tensors = Tensors(seed)
    if plus:
        width, tokens = 40, 6
        tensors.add("image_proj.latents", 1, tokens, width)
        tensors.add_linear("image_proj.proj_in", HIDDEN, width)
        tensors.add_linear("image_proj.proj_out", width, text)
        tensors.add_norm("image_proj.norm_out", text)
        for norm in ("0.norm1", "0.norm2", "1.0"):
            tensors.add_norm(f"image_proj.layers.0.{norm}", width)
        for name, inputs, outputs in (("0.to_q", width, 64), ("0.to_kv", width, 128), ("0.to_out", 64, width),
                                      ("1.1", width, 4 * width), ("1.3", 4 * width, width)):
            tensors.add(f"image_proj.layers.0.{name}.weight", outputs, inputs)
    else:
        tensors.add_linear("image_proj.proj", IMAGE_FEATURES, 4 * text)
        tensors.add_norm("image_proj.norm", text)
    for i, width in enumerate(widths):
        for weight in ("to_k_ip", "to_v_ip"):
            tensors.add(f"ip_adapter.{2 * i + 1}.{weight}.weight", width, text)
    path.parent.mkdir(parents=True, exist_ok=True)
    ldm_file.write(path, tensors.all)
