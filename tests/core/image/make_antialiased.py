"""Makes pictures/antialiased-WIDTHxHEIGHT.f32: lanczos.png as diffusers 0.42.1 resizes it for an image encoder.

Usage: python make_antialiased.py

Each is planes of red, green and blue in [-1, 1], or a little beyond, as little-endian float32.
"""
import pathlib

import numpy
import torch
from diffusers.pipelines.stable_video_diffusion.pipeline_stable_video_diffusion import _resize_with_antialiasing
from PIL import Image

OUT = pathlib.Path(__file__).parent / "pictures"
SIZES = ((16, 16), (5, 3), (37, 23), (64, 48), (12, 40), (50, 7), (2, 2))


def main():
    pixels = numpy.asarray(Image.open(OUT / "lanczos.png").convert("RGB")).astype(numpy.float32) / 255.0
    planes = torch.from_numpy(pixels.transpose(2, 0, 1))[None] * 2.0 - 1.0
    for width, height in SIZES:
        resized = _resize_with_antialiasing(planes, (height, width))
        (OUT / f"antialiased-{width}x{height}.f32").write_bytes(resized.numpy().astype("<f4").tobytes())


if __name__ == "__main__":
    main()
