"""Writes odd_pictures.json: files of odd but common kinds, and the pixels that diffusers' load_image makes of them.

Usage: python make_odd_pictures.py     (with Pillow==13.0.0 and numpy)

Each has a name, the file in base64 and which of the pictures Pillow makes of it, or why it refuses it: turned by
ImageOps.exif_transpose, then convert("RGB"). A picture's rgb is a zlib stream in base64.
"""
import base64
import io
import json
import pathlib
import struct
import warnings
import zlib

import numpy as np
from PIL import Image, ImageOps

WIDTH, HEIGHT = 13, 9
XMP_OF_JPEG = b"http://ns.adobe.com/xap/1.0/\0"


def pixels():
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    return np.stack([x * 19, y * 27, (x + y) * 11], -1).astype(np.uint8)


def saved(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


RGB = Image.fromarray(pixels())
# Large enough for a restart marker behind each row of blocks.
WIDE = Image.fromarray(np.tile(pixels(), (7, 3, 1)))


# Metadata


def tiff(*entries, order="<", magic=None, behind=b"", offset=8, count=None):
    """A TIFF of one directory. An entry is (tag, type, count, four bytes of value)."""
    begin = magic or (b"II*\0" if order == "<" else b"MM\0*")
    directory = struct.pack(order + "H", len(entries) if count is None else count)
    for tag, kind, values, value in entries:
        directory += struct.pack(order + "HHL", tag, kind, values) + value[:4].ljust(4, b"\0")
    return begin + struct.pack(order + "L", offset) + b"\0" * (offset - 8) + directory + b"\0" * 4 + behind


def oriented(value, order="<", kind=3, count=1, **more):
    codes = {1: "B", 2: "B", 3: "H", 4: "L", 6: "b", 7: "B", 8: "h", 9: "l", 11: "f", 13: "L"}
    return tiff((0x0112, kind, count, struct.pack(order + codes[kind], value)), order=order, **more)


def elsewhere(kind, data, order="<", count=1, **more):
    """Its value lies behind the directory of one entry."""
    return tiff((0x0112, kind, count, struct.pack(order + "L", 26)), order=order, behind=data, **more)


MAKER = (0x010F, 2, 4, b"abc\0")
EXIF = b"Exif\0\0"


def tiffs():
    for n in range(0, 10):
        yield f"little-{n}", oriented(n)
    yield "big-8", oriented(8, ">")
    for kind in (1, 2, 4, 6, 7, 8, 9, 11, 13):
        for order in "<>":
            yield f"type-{kind}-{'little' if order == '<' else 'big'}", oriented(6, order, kind)
    yield "ascii-digit", oriented(ord("6"), kind=2)
    yield "negative", oriented(-6, kind=8)
    yield "half", oriented(6.5, kind=11)
    yield "rational", elsewhere(5, struct.pack("<LL", 6, 1))
    yield "rational-halves", elsewhere(5, struct.pack("<LL", 12, 2))
    yield "rational-uneven", elsewhere(5, struct.pack("<LL", 13, 2))
    yield "rational-of-zero", elsewhere(5, struct.pack("<LL", 6, 0))
    yield "signed-rational", elsewhere(10, struct.pack("<ll", -6, -1))
    yield "double", elsewhere(12, struct.pack(">d", 6), ">")
    yield "long8", elsewhere(16, struct.pack("<Q", 6))
    yield "type-0", tiff((0x0112, 0, 1, b"\6\0"))
    yield "type-14", tiff((0x0112, 14, 1, b"\6\0"))
    yield "type-99", tiff((0x0112, 99, 1, b"\6\0"))
    yield "count-0", oriented(6, count=0)
    yield "count-2", tiff((0x0112, 3, 2, b"\6\0\3\0"))
    yield "count-4", elsewhere(3, struct.pack("<4H", 8, 1, 1, 1), count=4)
    yield "count-huge", oriented(6, count=0x7FFFFFFF)
    yield "twice", tiff((0x0112, 3, 1, b"\6\0"), (0x0112, 3, 1, b"\3\0"))
    yield "twice-first-unreadable", tiff((0x0112, 99, 1, b"\6\0"), (0x0112, 3, 1, b"\3\0"))
    yield "twice-first-empty", tiff((0x0112, 3, 0, b"\6\0"), (0x0112, 3, 1, b"\3\0"))
    yield "unsorted", tiff((0x0132, 2, 4, b"abc\0"), (0x0112, 3, 1, b"\6\0"), MAKER)
    yield "behind-values", tiff((0x010F, 2, 8, b"\x26\0\0\0"), (0x0112, 3, 1, b"\6\0"), behind=b"a maker\0")
    yield "behind-values-beyond", tiff((0x010F, 2, 8, b"\0\1\0\0"), (0x0112, 3, 1, b"\6\0"))
    yield "behind-too-many-values", tiff((0x010F, 2, 0x10000, b"\x08\0\0\0"), (0x0112, 3, 1, b"\6\0"))
    yield "elsewhere-behind-too-many", tiff(
        (0x010F, 2, 0x10000, b"\x08\0\0\0"), (0x0112, 5, 1, b"\x26\0\0\0"), behind=struct.pack("<LL", 6, 1))
    yield "directory-far-off", oriented(6, offset=40)
    yield "directory-beyond", oriented(6)[:4] + b"\0\1\0\0" + oriented(6)[8:]
    yield "directory-in-header", b"II*\0\0\0\0\0" + oriented(6)[8:]
    yield "count-of-entries-too-large", oriented(6, count=1)[:8] + b"\xff\0" + oriented(6)[10:]
    yield "entry-cut", oriented(6)[:18]
    yield "no-next", oriented(6)[:22]
    yield "header-cut", oriented(6)[:6]
    yield "empty", b""
    yield "swapped-little", oriented(6, magic=b"II\0*")
    yield "swapped-big", oriented(6, ">", magic=b"MM*\0")
    yield "big-43", oriented(6, ">", magic=b"MM\0+")
    yield "little-43", oriented(6, magic=b"II+\0")
    yield "no-magic", oriented(6, magic=b"XX*\0")
    yield "other-magic", oriented(6, magic=b"II\x55\0")


def prefixes():
    yield "no-prefix", oriented(6)
    yield "prefix", EXIF + oriented(6)
    yield "two-prefixes", EXIF * 2 + oriented(6)
    yield "three-prefixes", EXIF * 3 + oriented(6)
    yield "prefix-of-one-nul", b"Exif\0" + oriented(6)


def xmps():
    yield "attribute", b'<rdf:Description tiff:Orientation="6" tiff:Make="a"/>'
    yield "element", b"<rdf:Description><tiff:Orientation>8</tiff:Orientation></rdf:Description>"
    yield "single-quotes", b"<rdf:Description tiff:Orientation='6'/>"
    yield "spaces", b'<rdf:Description tiff:Orientation = "6"/>'
    yield "two-digits", b'<rdf:Description tiff:Orientation="62"/>'
    yield "zero", b'<rdf:Description tiff:Orientation="0"/>'
    yield "nine", b'<rdf:Description tiff:Orientation="9"/>'
    yield "second-has-it", b'<a tiff:Orientation="x"/><b tiff:Orientation="3"/>'
    yield "two", b'<a tiff:Orientation="5"/><b tiff:Orientation="3"/>'
    yield "closing-tag-first", b'</tiff:Orientation>7<tiff:Orientation>'
    yield "not-utf-8", b'\xff\xfe<rdf:Description tiff:Orientation="6"/>'
    yield "empty", b""


# PNG


def chunk(kind, data, checksum=None):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(
        ">I", zlib.crc32(kind + data) if checksum is None else checksum)


SIGNATURE = b"\x89PNG\r\n\x1a\n"
HEADER = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
IHDR, IEND = chunk(b"IHDR", HEADER), chunk(b"IEND", b"")
DATA = zlib.compress(b"".join(b"\0" + row.tobytes() for row in pixels()))
IDAT = chunk(b"IDAT", DATA)
BAD = 0x12345678


def png(before=b"", behind=b"", header=IHDR, data=IDAT, end=IEND):
    return SIGNATURE + header + before + data + behind + end


def raw_profile(exif, name=b"exif"):
    digits = exif.hex().encode()
    lines = b"\n".join(digits[i:i + 72] for i in range(0, len(digits), 72))
    return b"\n" + name + b"\n%8d\n" % len(exif) + lines + b"\n"


def text(key, value):
    return chunk(b"tEXt", key + b"\0" + value)


def packed(key, value, method=b"\0"):
    return chunk(b"zTXt", key + b"\0" + method + value)


def international(key, value, flags=b"\0\0", rest=b"\0\0"):
    return chunk(b"iTXt", key + b"\0" + flags + rest + value)


def turned_pngs():
    for name, exif in (*tiffs(), *prefixes()):
        yield f"exif-{name}", png(chunk(b"eXIf", exif))
    exif, other, xmp = oriented(6), oriented(3), b'<x tiff:Orientation="8"/>'
    raw, kxmp = b"Raw profile type exif", b"XML:com.adobe.xmp"
    yield "exif-behind", png(behind=chunk(b"eXIf", exif))
    yield "exif-behind-bad-checksum", png(behind=chunk(b"eXIf", exif, BAD))
    yield "exif-bad-checksum", png(chunk(b"eXIf", exif, BAD))
    yield "exif-chunk-twice", png(chunk(b"eXIf", other) + chunk(b"eXIf", exif))
    yield "exif-before-and-behind", png(chunk(b"eXIf", other), chunk(b"eXIf", exif))
    yield "exif-behind-end", png(end=IEND + chunk(b"eXIf", exif))
    yield "exif-behind-no-end", png(behind=chunk(b"eXIf", exif), end=b"")
    yield "text-exif", png(text(b"exif", exif))
    yield "text-exif-prefix", png(text(b"exif", EXIF + exif))
    yield "text-Exif", png(text(b"Exif", exif))
    yield "packed-exif", png(packed(b"exif", zlib.compress(exif)))
    yield "exif-then-text", png(chunk(b"eXIf", other) + text(b"exif", exif))
    for prefix in (b"", EXIF):
        value = raw_profile(prefix + exif)
        name = "prefix-" if prefix else ""
        yield f"raw-{name}text", png(text(raw, value))
        yield f"raw-{name}packed", png(packed(raw, zlib.compress(value)))
        yield f"raw-{name}international", png(international(raw, value))
        yield f"raw-{name}international-packed", png(international(raw, zlib.compress(value), b"\1\0"))
        yield f"raw-{name}behind", png(behind=packed(raw, zlib.compress(value)))
    yield "raw-upper-case", png(text(raw, raw_profile(EXIF + exif).upper()))
    yield "raw-one-line", png(text(raw, raw_profile(exif).replace(b"\n", b" ")))
    yield "raw-carriage-returns", png(text(raw, raw_profile(exif).replace(b"\n", b"\r\n")))
    yield "raw-other-header", png(text(raw, b"\ngeneric profile\n  8\n" + exif.hex().encode()))
    yield "raw-odd-digits", png(text(raw, raw_profile(exif)[:-2]))
    yield "raw-no-digits", png(text(raw, b"\nexif\n 8\nwxyz"))
    yield "raw-app1", png(packed(b"Raw profile type APP1", zlib.compress(raw_profile(EXIF + exif, b"APP1"))))
    yield "raw-xmp", png(packed(b"Raw profile type xmp", zlib.compress(raw_profile(xmp, b"xmp"))))
    yield "raw-and-exif", png(text(raw, raw_profile(exif)) + chunk(b"eXIf", other))
    yield "raw-and-empty-exif", png(text(raw, raw_profile(exif)) + chunk(b"eXIf", b""))
    yield "raw-cut-stream", png(packed(raw, zlib.compress(raw_profile(exif) + bytes(range(256)))[:-40]))
    yield "raw-broken-stream", png(packed(raw, b"\x78\x9cbroken stream"))
    yield "raw-other-method", png(packed(raw, zlib.compress(raw_profile(exif)), b"\1"))
    yield "raw-other-method-behind", png(behind=packed(raw, zlib.compress(raw_profile(exif)), b"\1"))
    yield "raw-twice", png(text(raw, raw_profile(other)) + text(raw, raw_profile(exif)))
    for name, value in xmps():
        yield f"xmp-{name}", png(international(kxmp, value))
    yield "xmp-packed", png(international(kxmp, zlib.compress(xmp), b"\1\0"))
    yield "xmp-other-method", png(international(kxmp, zlib.compress(xmp), b"\1\1"))
    yield "xmp-flag-2", png(international(kxmp, zlib.compress(xmp), b"\2\0"))
    yield "xmp-language", png(international(kxmp, xmp, rest=b"en\0XMP\0"))
    yield "xmp-behind", png(behind=international(kxmp, xmp))
    yield "xmp-text", png(text(kxmp, xmp))
    yield "xmp-packed-text", png(packed(kxmp, zlib.compress(xmp)))
    yield "xmp-other-key", png(international(b"XMP", xmp))
    yield "xmp-no-fields", png(chunk(b"iTXt", kxmp + b"\0\0\0" + xmp))
    yield "xmp-and-exif", png(international(kxmp, xmp) + chunk(b"eXIf", exif))
    yield "xmp-and-exif-of-1", png(international(kxmp, xmp) + chunk(b"eXIf", oriented(1)))
    yield "xmp-and-exif-of-9", png(international(kxmp, xmp) + chunk(b"eXIf", oriented(9)))
    yield "xmp-and-exif-without", png(international(kxmp, xmp) + chunk(b"eXIf", tiff(MAKER)))
    yield "xmp-and-ascii-exif", png(international(kxmp, xmp) + chunk(b"eXIf", oriented(54, kind=2)))
    yield "xmp-and-empty-exif", png(international(kxmp, xmp) + chunk(b"eXIf", b""))
    yield "xmp-and-no-tiff", png(international(kxmp, xmp) + chunk(b"eXIf", b"no TIFF at all"))
    yield "xmp-twice", png(international(kxmp, b'<x tiff:Orientation="3"/>') + international(kxmp, xmp))


def palette_png(depth, colors, values, extra=b""):
    rows = []
    for y in range(HEIGHT):
        bits = "".join(format(values(x, y) % (1 << depth), f"0{depth}b") for x in range(WIDTH))
        bits += "0" * (-len(bits) % 8)
        rows.append(b"\0" + bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8)))
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, 3, 0, 0, 0)
    before = (chunk(b"PLTE", colors) if colors is not None else b"") + extra
    return png(before, header=chunk(b"IHDR", header), data=chunk(b"IDAT", zlib.compress(b"".join(rows))))


def header(**changes):
    fields = {"width": WIDTH, "height": HEIGHT, "depth": 8, "color": 2, "method": 0, "filter": 0, "interlace": 0}
    return chunk(b"IHDR", struct.pack(">IIBBBBB", *{**fields, **changes}.values()))


def animation(first, n=2, bbox=(WIDTH, HEIGHT, 0, 0), more=b""):
    control = chunk(b"acTL", struct.pack(">II", n, 0))
    frame = lambda sequence: chunk(b"fcTL", struct.pack(">IIIIIHHBB", sequence, *bbox, 1, 10, 0, 0))
    second = frame(1 if first else 0) + chunk(b"fdAT", struct.pack(">I", 2 if first else 1) + DATA)
    return png(control + (frame(0) if first else b""), second + more)


def odd_pngs():
    yield "no-end", png(end=b"")
    yield "no-checksum-of-data", png(end=b"")[:-4]
    yield "no-adler", SIGNATURE + IHDR + chunk(b"IDAT", DATA)[:-8]
    yield "pixels-cut", SIGNATURE + IHDR + chunk(b"IDAT", DATA)[:-30]
    yield "adler-cut-in-chunk", png(data=chunk(b"IDAT", DATA[:-4]))
    yield "adler-wrong", png(data=chunk(b"IDAT", DATA[:-4] + b"\0\0\0\0"))
    yield "end-cut", png()[:-6]
    yield "junk-behind-data", png(end=b"junk that is no chunk")
    yield "junk-behind-end", png() + b"junk" * 20
    yield "another-behind-end", png() + png()
    yield "bad-checksum-data", png(data=chunk(b"IDAT", DATA, BAD))
    yield "bad-checksum-end", png(end=chunk(b"IEND", b"", BAD))
    yield "bad-checksum-text", png(chunk(b"tEXt", b"a\0b", BAD))
    yield "bad-checksum-text-behind", png(behind=chunk(b"tEXt", b"a\0b", BAD))
    yield "bad-checksum-header", png(header=chunk(b"IHDR", HEADER, BAD))
    yield "unknown-critical", png(chunk(b"ABCD", b"data"))
    yield "unknown-critical-behind", png(behind=chunk(b"ABCD", b"data"))
    yield "unknown-ancillary", png(chunk(b"abCd", b"data"))
    yield "no-name", png(chunk(b"a-Cd", b"data"))
    yield "no-name-behind", png(behind=chunk(b"a-Cd", b"data"))
    yield "chunk-before-header", SIGNATURE + chunk(b"abCd", b"") + IHDR + IDAT + IEND
    yield "two-headers", png(IHDR)
    yield "long-header", png(header=chunk(b"IHDR", HEADER + b"\0\0"))
    yield "compression-1", png(header=header(method=1))
    yield "filter-1", png(header=header(filter=1))
    yield "depth-3", png(header=header(depth=3))
    yield "split-data", png(data=b"".join(chunk(b"IDAT", DATA[i:i + 7]) for i in range(0, len(DATA), 7)))
    yield "empty-data-first", png(data=chunk(b"IDAT", b"") + IDAT)
    yield "empty-data-last", png(data=IDAT + chunk(b"IDAT", b""))
    yield "more-data", png(data=IDAT + chunk(b"IDAT", b"more"))
    yield "data-apart", png(data=chunk(b"IDAT", DATA[:20]) + chunk(b"tEXt", b"a\0b") + chunk(b"IDAT", DATA[20:]))
    yield "data-apart-behind", png(behind=chunk(b"tEXt", b"a\0b") + IDAT)
    yield "more-in-stream", png(data=chunk(b"IDAT", zlib.compress(zlib.decompress(DATA) + b"\0" * 500)))
    yield "no-data", png(data=b"")
    yield "gamma-twice", png(chunk(b"gAMA", struct.pack(">I", 45455)) * 2)
    yield "gamma-short", png(chunk(b"gAMA", b"\0"))
    yield "gamma-zero", png(chunk(b"gAMA", b"\0" * 4))
    yield "profile-broken", png(chunk(b"iCCP", b"name\0\0broken"))
    yield "profile-twice", png(chunk(b"iCCP", b"name\0\0" + zlib.compress(b"profile")) * 2)
    yield "srgb-and-profile", png(chunk(b"sRGB", b"\0") + chunk(b"iCCP", b"name\0\0" + zlib.compress(b"profile")))
    yield "transparency-6", png(chunk(b"tRNS", b"\0\1\0\2\0\3"))
    yield "transparency-9", png(chunk(b"tRNS", b"\0\1\0\2\0\3\0\0\0"))
    yield "transparency-2", png(chunk(b"tRNS", b"\0\1"))
    yield "transparency-twice", png(chunk(b"tRNS", b"\0\1\0\2\0\3") * 2)
    yield "transparency-behind", png(behind=chunk(b"tRNS", b"\0\1\0\2\0\3"))
    yield "palette-of-rgb", png(chunk(b"PLTE", bytes(range(9))))
    yield "palette-of-rgb-uneven", png(chunk(b"PLTE", bytes(range(10))))
    colors = bytes((i * 37 + 11) % 256 for i in range(768))
    values = lambda x, y: 3 * x + 31 * y
    for depth in (1, 2, 4, 8):
        yield f"palette-{depth}", palette_png(depth, colors[:3 << depth], values)
        yield f"palette-{depth}-short", palette_png(depth, colors[:3 * ((1 << depth) - 1)], values)
        yield f"palette-{depth}-long", palette_png(depth, colors, values)
        yield f"palette-{depth}-uneven", palette_png(depth, colors[:(3 << depth) - 2], values)
    yield "palette-missing", palette_png(8, None, values)
    yield "palette-4-missing", palette_png(4, None, values)
    yield "palette-empty", palette_png(8, b"", values)
    yield "palette-twice", palette_png(8, colors, values, chunk(b"PLTE", colors[::-1]))
    yield "palette-transparency-long", palette_png(2, colors[:12], values, chunk(b"tRNS", bytes(range(200))))
    yield "palette-transparency-one", palette_png(2, colors[:12], values, chunk(b"tRNS", b"\xff\0"))
    yield "animation", animation(first=True)
    yield "animation-behind-picture", animation(first=False)
    yield "animation-exif-behind", animation(first=True, more=chunk(b"eXIf", oriented(6)))
    yield "animation-of-one", animation(first=True, n=1, more=chunk(b"eXIf", oriented(6)))
    noise = np.random.default_rng(1).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    for kind in range(5):  # the filter of each row
        rows = b"".join(bytes([kind]) + row.tobytes() for row in noise)
        yield f"filter-of-rows-{kind}", png(data=chunk(b"IDAT", zlib.compress(rows)))
    yield "filter-of-rows-5", png(data=chunk(b"IDAT", zlib.compress(b"".join(b"\5" + r.tobytes() for r in noise))))


# JPEG


def segment(marker, data):
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(data) + 2) + data


def inserted(jpeg, segments):
    return jpeg[:2] + segments + jpeg[2:]


def turned_jpegs():
    jpeg = saved(RGB, "JPEG", quality=90)
    app1 = lambda data: segment(0xE1, data)
    for name, exif in (*tiffs(), *prefixes()):
        yield f"exif-{name}", inserted(jpeg, app1(EXIF + exif))
    exif, other, xmp = EXIF + oriented(6), EXIF + oriented(3), XMP_OF_JPEG + b'<x tiff:Orientation="8"/>'
    yield "exif-no-prefix-at-all", inserted(jpeg, app1(oriented(6)))
    yield "exif-segment-twice", inserted(jpeg, app1(exif) + app1(other))
    yield "exif-in-two", inserted(jpeg, app1(exif[:20]) + app1(EXIF + exif[20:]))
    yield "exif-in-two-apart", inserted(jpeg, app1(exif[:20]) + segment(0xFE, b"comment") + app1(EXIF + exif[20:]))
    yield "exif-in-two-no-second-prefix", inserted(jpeg, app1(exif[:20]) + app1(exif[20:]))
    yield "exif-empty-then-exif", inserted(jpeg, app1(EXIF) + app1(exif))
    yield "exif-no-tiff-then-exif", inserted(jpeg, app1(EXIF + b"no TIFF") + app1(exif))
    yield "exif-in-app2", inserted(jpeg, segment(0xE2, exif))
    tables = jpeg.index(b"\xff\xdb")
    yield "exif-behind-jfif", jpeg[:tables] + app1(exif) + jpeg[tables:]
    scan = jpeg.index(b"\xff\xda")
    yield "exif-before-scan", jpeg[:scan] + app1(exif) + jpeg[scan:]
    yield "exif-behind-end", jpeg + app1(exif)
    yield "exif-behind-fill", inserted(jpeg, b"\xff\xff\xff" + app1(exif))
    yield "exif-behind-junk", inserted(jpeg, b"\0junk\0" + app1(exif))
    yield "exif-behind-escaped", inserted(jpeg, b"\xff\0" + app1(exif))
    yield "exif-behind-restart", inserted(jpeg, b"\xff\xd0" + app1(exif))
    no_jfif = jpeg[:2] + jpeg[20:]
    yield "exif-no-jfif", inserted(no_jfif, app1(exif))
    for name, value in xmps():
        yield f"xmp-{name}", inserted(jpeg, app1(XMP_OF_JPEG + value))
    yield "xmp-and-exif", inserted(jpeg, app1(xmp) + app1(exif))
    yield "xmp-and-exif-of-1", inserted(jpeg, app1(xmp) + app1(EXIF + oriented(1)))
    yield "xmp-and-exif-without", inserted(jpeg, app1(EXIF + tiff(MAKER)) + app1(xmp))
    yield "xmp-and-empty-exif", inserted(jpeg, app1(EXIF) + app1(xmp))
    yield "xmp-and-no-tiff", inserted(no_jfif, app1(EXIF + b"no TIFF at all") + app1(xmp))
    yield "xmp-twice", inserted(jpeg, app1(XMP_OF_JPEG + b'<x tiff:Orientation="3"/>') + app1(xmp))
    yield "xmp-twice-second-empty", inserted(jpeg, app1(xmp) + app1(XMP_OF_JPEG))
    yield "xmp-other-name", inserted(jpeg, app1(b"http://ns.adobe.com/xmp/extension/\0" + xmp[29:]))


def odd_jpegs():
    wide = saved(WIDE, "JPEG", quality=80, restart_marker_rows=1)
    plain, progressive = saved(WIDE, "JPEG", quality=80), saved(WIDE, "JPEG", quality=80, progressive=True)
    grey, cmyk = saved(WIDE.convert("L"), "JPEG"), saved(WIDE.convert("CMYK"), "JPEG", quality=90)
    yield "plain", plain
    yield "no-end", plain[:-2]
    yield "half-end", plain[:-1]
    yield "no-end-trailer", plain[:-2] + b"phone's trailer " * 30
    yield "no-end-trailer-of-zeros", plain[:-2] + b"\0" * 300
    yield "no-end-trailer-of-markers", plain[:-2] + b"\xff\xe5\0\4ab" + b"\xff\xc4\0\3x" * 4
    yield "no-end-trailer-of-a-picture", plain[:-2] + plain
    yield "trailer", plain + b"phone's trailer " * 30
    yield "trailer-of-markers", plain + b"\xff\xc4\0\3x\xff\xff\xff"
    yield "pixels-cut", plain[:-60]
    yield "pixels-cut-end", plain[:-60] + b"\xff\xd9"
    yield "progressive", progressive
    yield "progressive-no-end", progressive[:-2]
    yield "progressive-no-end-trailer", progressive[:-2] + b"phone's trailer " * 30
    yield "progressive-cut", progressive[:-60]
    yield "progressive-cut-end", progressive[:-60] + b"\xff\xd9"
    scans = [i for i in range(len(progressive)) if progressive[i:i + 2] == b"\xff\xda"]
    yield "progressive-two-scans", progressive[:scans[2]] + b"\xff\xd9"
    restart = wide.index(b"\xff\xd2")
    yield "restart", wide
    yield "restart-bytes-lost", wide[:restart - 20] + wide[restart:]
    yield "restart-segment-lost", wide[:wide.index(b"\xff\xd1")] + wide[restart:]
    yield "restart-marker-lost", wide[:restart] + wide[restart + 2:]
    yield "restart-marker-wrong", wide[:restart] + b"\xff\xd5" + wide[restart + 2:]
    yield "restart-bytes-more", wide[:restart] + b"\x12\x34\x56" + wide[restart:]
    yield "restart-bytes-changed", wide[:restart - 20] + b"\x12\x34\x56\x78" + wide[restart - 16:]
    middle = plain.index(b"\xff\xda") + 60
    yield "bytes-lost", plain[:middle] + plain[middle + 9:]
    yield "bytes-changed", plain[:middle] + b"\x11\x22\x33\x44" + plain[middle + 4:]
    yield "zeros-in-pixels", plain[:middle] + b"\0" * 16 + plain[middle + 16:]
    yield "marker-in-pixels", plain[:middle] + b"\xff\xe0" + plain[middle:]
    yield "junk-before", b"\0" + plain
    yield "fill-before-markers", plain[:2] + b"\xff\xff" + plain[2:plain.index(b"\xff\xdb")] + b"\xff" * 5 + plain[plain.index(b"\xff\xdb"):]
    yield "junk-between-markers", inserted(plain, b"\1\2\3")
    yield "two-starts", b"\xff\xd8" + plain
    tables = plain.index(b"\xff\xc4")
    end, at = tables, tables
    while plain[at:at + 2] == b"\xff\xc4":
        at += 2 + struct.unpack(">H", plain[at + 2:at + 4])[0]
    yield "no-huffman-tables", plain[:tables] + plain[at:]
    yield "no-quantization", plain[:plain.index(b"\xff\xdb")] + plain[plain.index(b"\xff\xc0"):]
    yield "adobe-rgb", saved(WIDE, "JPEG", quality=90, keep_rgb=True)
    adobe = segment(0xEE, b"Adobe\0\x64\0\0\0\0\2")
    yield "cmyk", cmyk
    yield "ycck", cmyk.replace(b"Adobe\0\x64\0\0\0\0\0", b"Adobe\0\x64\0\0\0\0\2")
    yield "cmyk-no-adobe", cmyk[:cmyk.index(b"\xff\xee")] + cmyk[cmyk.index(b"\xff\xee") + 16:]
    yield "ycc-adobe", inserted(plain, segment(0xEE, b"Adobe\0\x64\0\0\0\0\1"))
    yield "adobe-transform-0", inserted(plain[:2] + plain[20:], segment(0xEE, b"Adobe\0\x64\0\0\0\0\0"))
    yield "adobe-transform-9", inserted(plain[:2] + plain[20:], segment(0xEE, b"Adobe\0\x64\0\0\0\0\x09"))
    yield "no-jfif", plain[:2] + plain[20:]
    yield "grey", grey
    yield "grey-no-end-trailer", grey[:-2] + b"phone's trailer " * 30
    for name in ("4:4:4", "4:2:2", "4:1:1"):
        sampling = {"4:4:4": 0, "4:2:2": 1, "4:1:1": 2}[name]
        yield f"sampling-{name.replace(':', '')}", saved(WIDE, "JPEG", subsampling=sampling)
    frame = plain.index(b"\xff\xc0")
    sampled = lambda factors: plain[:frame + 11] + bytes([factors]) + plain[frame + 12:]
    yield "sampling-41", sampled(0x41)
    yield "sampling-12", sampled(0x12)
    yield "height-0", plain[:frame + 5] + b"\0\0" + plain[frame + 7:]
    yield "height-more", plain[:frame + 5] + struct.pack(">H", WIDE.height + 30) + plain[frame + 7:]
    yield "height-less", plain[:frame + 5] + struct.pack(">H", WIDE.height - 20) + plain[frame + 7:]
    yield "12-bits", plain[:frame + 4] + b"\x0c" + plain[frame + 5:]
    yield "extended", plain[:frame] + b"\xff\xc1" + plain[frame + 2:]
    yield "of-two-components", plain[:frame + 9] + b"\2" + plain[frame + 10:]
    yield "adobe-segment-twice", inserted(plain, adobe + adobe)
    # An MPO: two pictures, one behind the other.
    buffer = io.BytesIO()
    WIDE.save(buffer, "MPO", save_all=True, append_images=[WIDE.rotate(180)])
    yield "of-two-pictures", buffer.getvalue()


# WebP


def riff(*chunks, trailing=b"", size=None):
    body = b"WEBP" + b"".join(name + struct.pack("<L", len(data)) + data + b"\0" * (len(data) % 2) for name, data in chunks)
    return b"RIFF" + struct.pack("<L", len(body) if size is None else size) + body + trailing


def extended(flags):
    return b"VP8X", struct.pack("<L", flags) + (WIDTH - 1).to_bytes(3, "little") + (HEIGHT - 1).to_bytes(3, "little")


def chunks_of(webp):
    at, found = 12, []
    while at + 8 <= len(webp):
        length = struct.unpack("<L", webp[at + 4:at + 8])[0]
        found.append((webp[at:at + 4], webp[at + 8:at + 8 + length]))
        at += 8 + length + length % 2
    return found


def turned_webps():
    bits = [c for c in chunks_of(saved(RGB, "WEBP", lossless=True)) if c[0] == b"VP8L"][0]
    for name, exif in (*tiffs(), *prefixes()):
        yield f"exif-{name}", riff(extended(8), bits, (b"EXIF", exif))
    exif, other, xmp = oriented(6), oriented(3), b'<x tiff:Orientation="8"/>'
    yield "exif-before", riff(extended(8), (b"EXIF", exif), bits)
    yield "exif-no-flag", riff(extended(0), bits, (b"EXIF", exif))
    yield "exif-not-extended", riff(bits, (b"EXIF", exif))
    yield "exif-chunk-twice", riff(extended(8), bits, (b"EXIF", exif), (b"EXIF", other))
    yield "exif-behind-unknown", riff(extended(8), (b"ABCD", b"odd"), bits, (b"EXIF", exif))
    yield "exif-beyond-riff", riff(extended(8), bits) + b"EXIF" + struct.pack("<L", len(exif)) + exif
    for name, value in xmps():
        yield f"xmp-{name}", riff(extended(4), bits, (b"XMP ", value))
    yield "xmp-no-flag", riff(extended(0), bits, (b"XMP ", xmp))
    yield "xmp-and-exif", riff(extended(12), bits, (b"EXIF", exif), (b"XMP ", xmp))
    yield "xmp-and-exif-without", riff(extended(12), bits, (b"EXIF", tiff(MAKER)), (b"XMP ", xmp))
    yield "xmp-and-exif-of-1", riff(extended(12), bits, (b"EXIF", oriented(1)), (b"XMP ", xmp))
    yield "xmp-and-empty-exif", riff(extended(12), bits, (b"EXIF", b""), (b"XMP ", xmp))
    yield "xmp-twice", riff(extended(4), bits, (b"XMP ", xmp), (b"XMP ", xmp.replace(b"8", b"3")))
    yield "xmp-twice-first-empty", riff(extended(4), bits, (b"XMP ", b""), (b"XMP ", xmp))


def odd_webps():
    lossy, lossless = saved(RGB, "WEBP", quality=80), saved(RGB, "WEBP", lossless=True)
    bits = [c for c in chunks_of(lossless) if c[0] == b"VP8L"][0]
    yield "lossy", lossy
    yield "trailing", lossy + b"trailing bytes"
    yield "trailing-one", lossless + b"\0"
    yield "size-too-large", lossy[:4] + struct.pack("<L", len(lossy) + 100) + lossy[8:]
    yield "size-too-small", lossy[:4] + struct.pack("<L", len(lossy) - 20) + lossy[8:]
    yield "size-0", lossy[:4] + b"\0\0\0\0" + lossy[8:]
    yield "cut", lossy[:-10]
    yield "cut-by-one", lossless[:-1]
    yield "unknown-chunk", riff(extended(0), (b"ABCD", b"odd"), bits)
    yield "flags-of-nothing", riff(extended(0x3C), bits)
    yield "another-picture", riff(extended(0), bits, bits)
    yield "canvas-too-large", riff((b"VP8X", b"\0" * 4 + b"\x20\0\0\x20\0\0"), bits)
    other = Image.fromarray(pixels()[::-1].copy())
    for name, options in (("lossless", {"lossless": True}), ("lossy", {"quality": 80})):
        yield f"animation-{name}", saved(RGB, "WEBP", save_all=True, append_images=[other], duration=100, **options)
    transparent = RGB.convert("RGBA")
    transparent.putalpha(Image.fromarray((pixels()[:, :, 2] > 60).astype(np.uint8) * 200))
    yield "animation-transparent", saved(
        transparent, "WEBP", save_all=True, append_images=[other.convert("RGBA")], duration=100, lossless=True, exact=True)
    animated = chunks_of(saved(RGB, "WEBP", save_all=True, append_images=[other], duration=100, lossless=True))
    yield "animation-exif", riff(extended(2 | 8), *[c for c in animated if c[0] != b"VP8X"], (b"EXIF", oriented(6)))
    yield "animation-of-one", riff(extended(2), *[c for c in animated if c[0] != b"VP8X"][:2])
    part = RGB.crop((2, 2, 10, 8))
    small = [c for c in chunks_of(saved(part, "WEBP", lossless=True)) if c[0] == b"VP8L"][0]
    frame = lambda x, y, w, h, picture: (b"ANMF", b"".join(
        n.to_bytes(3, "little") for n in (x // 2, y // 2, w - 1, h - 1, 100)) + b"\0" + picture[0] + struct.pack(
            "<L", len(picture[1])) + picture[1] + b"\0" * (len(picture[1]) % 2))
    control = (b"ANIM", b"\x10\x20\x30\xff\0\0")
    yield "animation-of-a-part", riff(extended(2), control, frame(2, 2, 8, 6, small), frame(0, 0, WIDTH, HEIGHT, bits))
    yield "animation-beyond", riff(extended(2), control, frame(8, 2, 8, 6, small))
    yield "animation-of-another-size", riff(extended(2), control, frame(2, 2, 8, 5, small))
    yield "animation-of-nothing", riff(extended(2), control)


def others():
    for kind, options in (("GIF", {}), ("BMP", {}), ("TIFF", {}), ("AVIF", {}), ("JPEG2000", {})):
        yield kind.lower(), saved(RGB, kind, **options)


GROUPS = {
    "png": (turned_pngs, odd_pngs), "jpg": (turned_jpegs, odd_jpegs), "webp": (turned_webps, odd_webps),
    "other": (others,),
}


def pillow_reads(data):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    return image.width, image.height, base64.b64encode(zlib.compress(image.tobytes(), 9)).decode()


def main():
    warnings.simplefilter("ignore")
    files, numbers = [], {}
    for kind, groups in GROUPS.items():
        for name, data in (file for group in groups for file in group()):
            entry = {"name": f"{name}.{kind}", "file": base64.b64encode(data).decode()}
            try:
                entry["picture"] = numbers.setdefault(pillow_reads(data), len(numbers))
            except Exception as error:
                entry["refused"] = str(error).split(" <")[0].split(" (")[0]
            files.append(entry)
    names = [entry["name"] for entry in files]
    assert len(set(names)) == len(names), {name for name in names if names.count(name) > 1}
    pictures = [{"width": width, "height": height, "rgb": rgb} for width, height, rgb in numbers]
    lines = {key: ",\n".join(map(json.dumps, all)) for key, all in (("pictures", pictures), ("files", files))}
    (pathlib.Path(__file__).parent / "odd_pictures.json").write_text(
        f'{{"pictures": [\n{lines["pictures"]}\n],\n"files": [\n{lines["files"]}\n]}}\n')


if __name__ == "__main__":
    main()
