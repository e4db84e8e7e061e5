"""Writes pictures/: small files of every kind that a decoder meets, and what Pillow makes of them.

Usage: python make_pictures.py     (with Pillow==13.0.0 and numpy)

FILE.rgb has the pixels of FILE, as diffusers' load_image gives them: turned by ImageOps.exif_transpose, then
convert("RGB"). grey-16.png.rgb is divided by 257 instead, since Pillow clamps that to 255.
FILE.alpha has the transparency of some, as convert("RGBA") has it.
turned-N.* have the EXIF orientation N.
lanczos-WIDTHxHEIGHT.rgb is lanczos.png resized to that size by Image.resize with LANCZOS.
"""
import io
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps

OUT = pathlib.Path(__file__).parent / "pictures"
WIDTH, HEIGHT = 13, 9
TRANSPARENT = ("rgba.png", "grey-alpha.png", "palette-transparent.png", "rgb-transparent.png", "grey-transparent.png",
               "lossy-alpha.webp", "lossless-alpha.webp")
RNG = np.random.default_rng(3)
SIZES = [(64, 48), (16, 16), (37, 40), (20, 23), (37, 23), (8, 8), (111, 5), (3, 69), (1, 1), (36, 24)]
BICUBIC_SIZES = [(64, 48), (16, 16), (37, 40), (8, 8), (3, 69), (111, 5)]


def smooth(width, height, channels):
    """A gradient with noise: compresses, and yet every pixel differs."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [(x * (7 + c) + y * (11 - c) * 2) % 256 for c in range(channels)]
    return (np.stack(planes, -1) + RNG.integers(0, 20, (height, width, channels))).clip(0, 255).astype(np.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(bit_depth, color_type, rows, *, extra=()):
    """A PNG from packed rows, for the kinds that Pillow does not write."""
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, bit_depth, color_type, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunk(*e) for e in extra) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def adam7(pixels):
    """An interlaced RGB PNG: Pillow reads those but does not write them."""
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    raw = b""
    for x, y, dx, dy in passes:
        part = pixels[y::dy, x::dx]
        if part.size:
            raw += b"".join(b"\0" + row.tobytes() for row in part)
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def packed_rows(bits):
    values = RNG.integers(0, 1 << bits, (HEIGHT, WIDTH))
    for row in values:
        stream = "".join(format(v, f"0{bits}b") for v in row)
        stream += "0" * (-len(stream) % 8)
        yield bytes(int(stream[i:i + 8], 2) for i in range(0, len(stream), 8))


def wide_rows(channels):
    values = RNG.integers(0, 1 << 16, (HEIGHT, WIDTH, channels)).astype(">u2")
    values[0, :, 0] = np.arange(WIDTH) * 40  # also around what fits into 8 bits
    return [row.tobytes() for row in values]


def saved(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def pictures():
    rgb, rgba = Image.fromarray(smooth(WIDTH, HEIGHT, 3)), Image.fromarray(smooth(WIDTH, HEIGHT, 4))
    grey = Image.fromarray(smooth(WIDTH, HEIGHT, 1)[:, :, 0])
    grey_alpha = Image.merge("LA", [grey, grey.rotate(180)])
    palette = rgb.quantize(16)
    yield "rgb.png", saved(rgb, "PNG")
    yield "rgba.png", saved(rgba, "PNG")
    yield "grey.png", saved(grey, "PNG")
    yield "grey-alpha.png", saved(grey_alpha, "PNG")
    yield "palette.png", saved(palette, "PNG")
    yield "palette-transparent.png", saved(palette, "PNG", transparency=bytes(range(0, 256, 16)))
    yield "rgb-transparent.png", saved(rgb, "PNG", transparency=rgb.getpixel((3, 3)))
    yield "grey-transparent.png", saved(grey, "PNG", transparency=grey.getpixel((3, 3)))
    yield "interlaced.png", adam7(np.array(rgb))
    for bits in (1, 2, 4):
        yield f"grey-{bits}.png", png(bits, 0, packed_rows(bits))
        colors = RNG.integers(0, 256, 3 << bits).astype(np.uint8).tobytes()
        yield f"palette-{bits}.png", png(bits, 3, packed_rows(bits), extra=[(b"PLTE", colors)])
    yield "grey-16.png", png(16, 0, wide_rows(1))
    yield "rgb-16.png", png(16, 2, wide_rows(3))
    yield "grey-alpha-16.png", png(16, 4, wide_rows(2))
    yield "rgba-16.png", png(16, 6, wide_rows(4))
    yield "gamma.png", png(8, 2, [row.tobytes() for row in np.array(rgb)], extra=[(b"gAMA", struct.pack(">I", 100000))])
    yield "rgb.jpg", saved(rgb, "JPEG", quality=85)
    yield "full-chroma.jpg", saved(rgb, "JPEG", quality=95, subsampling=0)
    yield "progressive.jpg", saved(rgb, "JPEG", quality=60, progressive=True)
    yield "grey.jpg", saved(grey, "JPEG")
    yield "cmyk.jpg", saved(rgba.convert("RGB").convert("CMYK"), "JPEG", quality=90)
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by 90 degrees
    yield "rotated.jpg", saved(rgb, "JPEG", exif=exif)
    yield "lossy.webp", saved(rgb, "WEBP", quality=80)
    yield "lossless.webp", saved(rgb, "WEBP", lossless=True)
    yield "lossy-alpha.webp", saved(rgba, "WEBP", quality=80, exact=True)
    yield "lossless-alpha.webp", saved(rgba, "WEBP", lossless=True, exact=True)


def exif_of(orientation):
    exif = Image.Exif()
    exif[0x010F] = "a maker"  # a tag before the orientation
    exif[0x0112] = orientation
    return exif


def turned_pictures():
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    rgb = Image.fromarray(np.stack([x * 19, y * 27, (x + y) * 11], -1).astype(np.uint8))
    for n in range(1, 9):
        yield f"turned-{n}.jpg", saved(rgb, "JPEG", quality=90, exif=exif_of(n))
        yield f"turned-{n}.png", saved(rgb, "PNG", exif=exif_of(n))
        yield f"turned-{n}.webp", saved(rgb, "WEBP", lossless=True, exif=exif_of(n))


def grey_of_16_bits(path):
    data = path.read_bytes()
    length = struct.unpack(">I", data[33:37])[0]
    rows = zlib.decompress(data[41:41 + length])
    values = np.frombuffer(rows, np.uint8).reshape(HEIGHT, 1 + 2 * WIDTH)[:, 1:].copy().view(">u2")
    return np.repeat(np.round(values / 257).astype(np.uint8)[:, :, None], 3, -1).tobytes()


def main():
    OUT.mkdir(exist_ok=True)
    for name, data in [*pictures(), *turned_pictures()]:
        path = OUT / name
        path.write_bytes(data)
        image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
        pixels = grey_of_16_bits(path) if name == "grey-16.png" else image.tobytes()
        (OUT / f"{name}.rgb").write_bytes(pixels)
        if name in TRANSPARENT:
            (OUT / f"{name}.alpha").write_bytes(Image.open(path).convert("RGBA").getchannel("A").tobytes())
    rgb, other = Image.fromarray(smooth(WIDTH, HEIGHT, 3)), Image.fromarray(smooth(WIDTH, HEIGHT, 3))
    (OUT / "animated.webp").write_bytes(saved(rgb, "WEBP", save_all=True, append_images=[other], duration=100))
    noise = RNG.integers(0, 256, (23, 37, 3)).astype(np.uint8)
    noise[5:15, 5:20] = [255, 0, 128]  # flat and with hard edges: Lanczos overshoots there
    image = Image.fromarray(noise)
    image.save(OUT / "lanczos.png")
    for size in SIZES:
        (OUT / f"lanczos-{size[0]}x{size[1]}.rgb").write_bytes(image.resize(size, Image.Resampling.LANCZOS).tobytes())
    for size in BICUBIC_SIZES:
        (OUT / f"bicubic-{size[0]}x{size[1]}.rgb").write_bytes(image.resize(size, Image.Resampling.BICUBIC).tobytes())


if __name__ == "__main__":
    main()
