"""Makes what diffusers 0.42.1 makes of images for an image encoder, in pictures/.

Usage: python make_antialiased.py

antialiased-WIDTHxHEIGHT.f32 is lanczos.png in that size; antialiased-from-WIDTHxHEIGHT.f32 are some rows of what `rings` of that size
become, 224x224. Each is planes of red, green and blue in [-1, 1], or a little beyond, as little-endian float32.
"""
import pathlib

import numpy
import torch
from diffusers.pipelines.stable_video_diffusion.pipeline_stable_video_diffusion import _resize_with_antialiasing
from PIL import Image

OUT = pathlib.Path(__file__).parent / "pictures"
SIZES = ((16, 16), (5, 3), (37, 23), (64, 48), (12, 40), (50, 7), (2, 2))
SOURCES = ((640, 360), (1024, 576), (224, 224), (100, 50), (3000, 2000), (333, 517))
SIDE, ROWS = 224, (0, 100, 223)


def rings(width, height):
    """Rings that become finer to the right and downwards, in three colours: antialias_test.cc has the same."""
    y, x, c = numpy.mgrid[0:height, 0:width, 0:3]
    return ((x * x + 3 * y * y) // (40 + 8 * c) + 5 * x) % 256


def planes_of(pixels):
    floats = pixels.astype(numpy.float32) / numpy.float32(255)
    return torch.from_numpy(floats.transpose(2, 0, 1).copy())[None] * 2.0 - 1.0


def main():
    planes = planes_of(numpy.asarray(Image.open(OUT / "lanczos.png").convert("RGB")))
    for width, height in SIZES:
        resized = _resize_with_antialiasing(planes, (height, width))
        (OUT / f"antialiased-{width}x{height}.f32").write_bytes(resized.numpy().astype("<f4").tobytes())
    for width, height in SOURCES:
        resized = _resize_with_antialiasing(planes_of(rings(width, height)), (SIDE, SIDE))[:, :, list(ROWS)]
        (OUT / f"antialiased-from-{width}x{height}.f32").write_bytes(resized.numpy().astype("<f4").tobytes())


if __name__ == "__main__":
    main()
