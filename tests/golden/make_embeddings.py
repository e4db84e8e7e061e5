"""Makes small textual inversions for the demo checkpoint's base, of random numbers as large as its tokens'.

Usage: python make_embeddings.py --model DIR --out DIR

  swirl.safetensors   three vectors for each text encoder
  dull.safetensors    one for each, in half precision
"""
import argparse

import torch
from diffusers import StableDiffusionXLPipeline
from safetensors.torch import save_file


def vectors(encoder, count, seed):
    table = encoder.get_input_embeddings().weight.detach().float()
    own = torch.randn((count, table.shape[1]), generator=torch.Generator("cpu").manual_seed(seed))
    return own * table.std() * 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of base/")
    parser.add_argument("--out", required=True, help="folder that gets the files")
    arguments = parser.parse_args()
    pipeline = StableDiffusionXLPipeline.from_pretrained(f"{arguments.model}/base")
    for name, count, seed in (("swirl", 3, 1), ("dull", 1, 3)):
        tensors = {"clip_l": vectors(pipeline.text_encoder, count, seed),
                   "clip_g": vectors(pipeline.text_encoder_2, count, seed + 1)}
        if name == "dull":
            tensors = {key: tensor.half() for key, tensor in tensors.items()}
        save_file(tensors, f"{arguments.out}/{name}.safetensors")


if __name__ == "__main__":
    main()
