"""Makes what diffusers 0.42.1 with Pillow 13.0.0 makes of lanczos.png around inpainting.

Usage: python make_inpainting.py

blur-RADIUS.rgb          VaeImageProcessor.blur
fill-WIDTHxHEIGHT.rgb    resize, mode "fill"
cover-WIDTHxHEIGHT.rgb   resize, mode "crop"
overlay.rgb, overlay-cropped.rgb   apply_overlay of drawn.rgb, kept.rgb and mask.rgb, 64 x 64 each, with and without a region
crop_regions.json        get_crop_region of masks with one white rectangle
"""
import json
import pathlib

import numpy
from diffusers.image_processor import VaeImageProcessor
from PIL import Image

OUT = pathlib.Path(__file__).parent / "pictures"
SIDE = 64
REGION = (9, 20, 50, 61)
RNG = numpy.random.default_rng(5)


def write(name, image):
    (OUT / name).write_bytes(numpy.asarray(image.convert("RGB")).tobytes())


def all_values():
    """0 to 255, some left out, in 64 numbers."""
    return numpy.array([*range(0, 256, 5), 1, 2, 3, 127, 128, 129, 251, 252, 253, 254, 77, 191], dtype=numpy.uint8)[:SIDE]


def overlays(processor):
    values = all_values()
    kept = numpy.stack([numpy.tile(values, (SIDE, 1)), numpy.tile(values[::-1], (SIDE, 1)),
                        RNG.integers(0, 256, (SIDE, SIDE))], -1).astype(numpy.uint8)
    mask = numpy.repeat(numpy.tile(values[:, None], (1, SIDE))[:, :, None], 3, -1)
    drawn = RNG.integers(0, 256, (SIDE, SIDE, 3)).astype(numpy.uint8)
    inside = numpy.zeros_like(mask)
    left, top, right, bottom = REGION
    inside[top:bottom, left:right] = mask[top:bottom, left:right]
    images = {"kept": kept, "mask": mask, "drawn": drawn}
    for name, pixels in images.items():
        write(f"{name}.rgb", Image.fromarray(pixels))
    kept, drawn = Image.fromarray(kept), Image.fromarray(drawn)
    write("overlay.rgb", processor.apply_overlay(Image.fromarray(mask), kept, drawn))
    write("overlay-cropped.rgb", processor.apply_overlay(Image.fromarray(inside), kept, drawn, REGION))


def regions(processor):
    cases = []
    for size, box, drawn, padding in (
            ((100, 80), (40, 30, 60, 50), (64, 64), 0), ((100, 80), (40, 30, 60, 50), (128, 64), 8),
            ((100, 80), (40, 30, 60, 50), (64, 128), 7), ((100, 80), (0, 0, 1, 1), (64, 64), 5),
            ((100, 80), (90, 70, 100, 80), (96, 64), 3), ((100, 80), (2, 3, 99, 20), (64, 64), 0),
            ((100, 80), (2, 3, 99, 20), (64, 512), 1), ((100, 80), (0, 0, 100, 80), (64, 64), 300),
            ((513, 301), (100, 5, 233, 300), (1024, 576), 32), ((513, 301), (500, 290, 513, 301), (832, 1216), 11),
            ((40, 500), (10, 100, 13, 400), (512, 512), 2), ((77, 31), (70, 1, 72, 30), (200, 104), 4)):
        mask = Image.new("L", size)
        mask.paste(1, box)
        region = processor.get_crop_region(mask, *drawn, pad=padding)
        cases.append({"size": size, "box": box, "drawn": drawn, "padding": padding, "region": region})
    lines = ",\n".join(json.dumps(case) for case in cases)
    (OUT.parent / "crop_regions.json").write_text(f"[\n{lines}\n]\n")


def main():
    processor = VaeImageProcessor()
    image = Image.open(OUT / "lanczos.png").convert("RGB")
    for radius in (1, 2, 4, 9, 33, 200):
        write(f"blur-{radius}.rgb", processor.blur(image, radius))
    for width, height in ((64, 64), (64, 16), (24, 80), (37, 23), (120, 24), (16, 8)):
        write(f"fill-{width}x{height}.rgb", processor.resize(image, height, width, "fill"))
        write(f"cover-{width}x{height}.rgb", processor.resize(image, height, width, "crop"))
    overlays(processor)
    regions(processor)


if __name__ == "__main__":
    main()
