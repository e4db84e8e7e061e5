"""Makes small LoRAs for the demo checkpoint's base, of random numbers, in the formats that diffusers reads.

Usage: python make_loras.py --model DIR --out DIR

  kohya.safetensors      kohya's names: UNet and both text encoders, an alpha that is not the rank, half precision
  diffusers.safetensors  diffusers' names of today, ranks and alphas by module in lora_adapter_metadata; convolutions too
  dora.safetensors       the same of one rank, with lora_magnitude_vector
"""
import argparse
import json
import zlib

import torch
from diffusers import StableDiffusionXLPipeline
from safetensors.torch import save_file

STRENGTH = 0.35  # share of the weights: enough to be another picture


def numbers(name, shape):
    return torch.randn(shape, generator=torch.Generator("cpu").manual_seed(zlib.crc32(name.encode())))


def factors(name, weight, rank):
    """The two matrices of a weight, whose product is as large as the weight times STRENGTH."""
    down = numbers(f"{name}.down", (rank, *weight.shape[1:]))
    up = numbers(f"{name}.up", (weight.shape[0], rank, *[1] * (weight.dim() - 2)))
    size = float(weight.float().std()) * STRENGTH / rank**0.5
    return down, up * size


def weights_of(model, wanted):
    for name, module in model.named_modules():
        if getattr(module, "weight", None) is not None and any(name.endswith(ending) for ending in wanted):
            yield name, module.weight.detach()


def make_kohya(pipeline):
    tensors = {}
    parts = [("lora_unet", pipeline.unet, ("attn1.to_q", "attn1.to_v", "attn2.to_k", "to_out.0", "proj_in")),
             ("lora_te1", pipeline.text_encoder, ("q_proj", "out_proj", "fc1")),
             ("lora_te2", pipeline.text_encoder_2, ("v_proj", "out_proj", "fc2"))]
    for prefix, model, wanted in parts:
        for name, weight in weights_of(model, wanted):
            path = name if prefix == "lora_unet" or name.startswith("text_model.") else f"text_model.{name}"
            key = f"{prefix}_{path.replace('.', '_')}"
            rank = 2
            down, up = factors(key, weight, rank)
            tensors[f"{key}.lora_down.weight"] = down.half()
            tensors[f"{key}.lora_up.weight"] = (up * rank).half()  # alpha / rank makes it smaller again
            tensors[f"{key}.alpha"] = torch.tensor(1.0)
    metadata = {"ss_base_model_version": "sdxl_base_v1-0", "ss_network_module": "networks.lora", "ss_network_dim": "2",
                "modelspec.trigger_phrase": "film style"}
    return tensors, metadata


def make_diffusers(pipeline):
    tensors, config = {}, {"unet.r": 2, "unet.lora_alpha": 2, "unet.rank_pattern": {}, "unet.alpha_pattern": {}}
    wanted = ("attn1.to_k", "attn2.to_q", "conv1")
    targets = []
    for name, weight in weights_of(pipeline.unet, wanted):
        rank, alpha = 2, 2
        if "conv" in name:
            rank, alpha = 1, 1.5
            config["unet.rank_pattern"][name] = rank
            config["unet.alpha_pattern"][name] = alpha
        down, up = factors(f"unet.{name}", weight, rank)
        targets.append(name)
        tensors[f"unet.{name}.lora_A.weight"] = down.bfloat16()
        tensors[f"unet.{name}.lora_B.weight"] = (up * rank / alpha).bfloat16()
    config.update({"unet.target_modules": targets, "unet.peft_type": "LORA"})
    return tensors, {"format": "pt", "lora_adapter_metadata": json.dumps(config)}


def make_dora(pipeline):
    tensors = {}
    for name, weight in weights_of(pipeline.unet, ("attn2.to_v", "attn1.to_out.0")):
        down, up = factors(f"dora.{name}", weight, 2)
        length = weight.float().flatten(1).norm(dim=1) * (1 + 0.1 * numbers(f"dora.{name}.m", weight.shape[:1]))
        tensors[f"unet.{name}.lora_A.weight"] = down
        tensors[f"unet.{name}.lora_B.weight"] = up
        tensors[f"unet.{name}.lora_magnitude_vector"] = length
    return tensors, {"format": "pt"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of base/")
    parser.add_argument("--out", required=True, help="folder that gets the files")
    arguments = parser.parse_args()
    pipeline = StableDiffusionXLPipeline.from_pretrained(
        f"{arguments.model}/base", torch_dtype=torch.float32, add_watermarker=False)
    for name, make in (("kohya", make_kohya), ("diffusers", make_diffusers), ("dora", make_dora)):
        tensors, metadata = make(pipeline)
        save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, f"{arguments.out}/{name}.safetensors", metadata)
        print(name, len(tensors))


if __name__ == "__main__":
    main()
