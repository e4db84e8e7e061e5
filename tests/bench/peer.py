"""The diffusers side of the bench: draws when told to, on standard input, and says how long it took, on standard output.

A line `draw N FILE` draws N pictures, writes the last one to FILE as a PNG, and answers with one line of JSON: the seconds
of each picture, and the monotonic time at which the first was there. Loaded as float32 and run without a watermark or a
progress bar. With --compile, the UNet and the VAE's decoder go through torch.compile.
"""
import argparse
import json
import sys
import time

import torch
from diffusers import StableDiffusionXLPipeline


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, help="a checkpoint in the diffusers layout")
    parser.add_argument("--request", required=True, help="the pipeline's arguments, as JSON; `seed` makes the generator")
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()

    pipe = StableDiffusionXLPipeline.from_pretrained(arguments.model, torch_dtype=torch.float32, add_watermarker=False)
    pipe.set_progress_bar_config(disable=True)
    if arguments.compile:
        pipe.unet = torch.compile(pipe.unet)
        pipe.vae.decode = torch.compile(pipe.vae.decode)
    request = json.loads(arguments.request)
    seed = request.pop("seed")

    for line in sys.stdin:
        _, count, file = line.split(maxsplit=2)
        ends, seconds = [], []
        for _ in range(int(count)):
            start = time.monotonic()
            image = pipe(**request, generator=torch.Generator("cpu").manual_seed(seed)).images[0]
            ends.append(time.monotonic())
            seconds.append(ends[-1] - start)
        image.save(file.strip())
        print(json.dumps({"seconds": seconds, "first_end": ends[0]}), flush=True)


if __name__ == "__main__":
    main()
