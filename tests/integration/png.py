"""As much of PNG as the tests look at."""

import struct
import zlib


def read(data):
    """(width, height, rows of RGB bytes, {keyword: text}); raises ValueError for what is no PNG of 8-bit RGB."""
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("no PNG")
    header, pixels, texts = None, b"", {}
    position = 8
    while position < len(data):
        size, kind = struct.unpack(">I4s", data[position:position + 8])
        body = data[position + 8:position + 8 + size]
        if zlib.crc32(kind + body) != struct.unpack(">I", data[position + 8 + size:position + 12 + size])[0]:
            raise ValueError("broken chunk")
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            pixels += body
        elif kind == b"iTXt":
            keyword, rest = body.split(b"\0", 1)
            texts[keyword.decode()] = rest[2:].split(b"\0", 2)[2].decode()
        position += 12 + size
    if header is None or header[2:4] != (8, 2):
        raise ValueError("not 8-bit RGB")
    return header[0], header[1], _unfilter(zlib.decompress(pixels), header[0] * 3), texts


def _unfilter(data, stride):
    rows, previous = [], bytes(stride)
    for start in range(0, len(data), stride + 1):
        row = bytearray(data[start + 1:start + 1 + stride])
        for i in range(stride):
            left = row[i - 3] if i >= 3 else 0
            corner = previous[i - 3] if i >= 3 else 0
            row[i] = (row[i] + _predict(data[start], left, previous[i], corner)) & 0xFF
        previous = bytes(row)
        rows.append(previous)
    return rows


def _predict(kind, left, above, corner):
    if kind == 4:
        estimate = left + above - corner
        return min((left, above, corner), key=lambda value: abs(estimate - value))
    return (0, left, above, (left + above) // 2)[kind]


def write(width, height, row, channels=3):
    """A PNG whose rows are all the same bytes, of RGB, or with four channels of RGBA."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    compressor = zlib.compressobj(9)
    body = b"".join(compressor.compress(b"\0" + row) for _ in range(height)) + compressor.flush()
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, {3: 2, 4: 6}[channels], 0, 0, 0)) +
            chunk(b"IDAT", body) + chunk(b"IEND", b""))
