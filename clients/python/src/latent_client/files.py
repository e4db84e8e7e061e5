"""Pictures and latents on their way to the server and back. Pillow and numpy are imported when they are first needed."""

import io
import json
import os
import struct
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, List, Sequence, Tuple, Union, cast

if TYPE_CHECKING:
    import PIL.Image

FileInput = Union[bytes, str, "os.PathLike[str]", BinaryIO, Any]

LATENTS = "latents"  # the tensor's name in a safetensors file
_DIRECT_MODES = ("RGB", "L")


def _import_numpy() -> Any:
    """ImportError where it is missing: it is no dependency, since most callers do without."""
    try:
        import numpy
    except ImportError:
        raise ImportError("arrays and latents need numpy: pip install numpy") from None
    return numpy


def read_file_input(value: FileInput) -> bytes:
    """The bytes of a field that is a file: of bytes, a path, an open file, a PIL image, or an array (see `_encode_array`).

    ValueError for a URL, which is not fetched; OSError where a file cannot be read; TypeError for anything else.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (str, os.PathLike)):
        return _read_path(value)
    if hasattr(value, "getbands") and hasattr(value, "save"):
        return encode_picture(cast(Any, value))
    if hasattr(value, "read"):
        return _read_open_file(value)
    if hasattr(value, "shape"):
        return _encode_array(value)
    raise TypeError(f"must be bytes, a path, an open file, a PIL image or an array, not {type(value).__name__}")


def _read_path(path: "Union[str, os.PathLike[str]]") -> bytes:
    name = os.fspath(path)
    if name.lower().startswith(("http://", "https://")):
        raise ValueError("is a URL, and nothing is fetched: download it, and give its bytes or its path")
    with open(name, "rb") as file:
        return file.read()


def _read_open_file(file: Any) -> bytes:
    data = file.read()
    if not isinstance(data, bytes):
        raise TypeError("is a file that was opened as text: open it with mode 'rb'")
    return data


def encode_picture(picture: "PIL.Image.Image") -> bytes:
    """A PNG of the pixels as they are in memory, and of nothing else: no EXIF that would turn them a second time."""
    plain = picture.copy() if picture.mode in _DIRECT_MODES else picture.convert("RGB")
    plain.info.clear()
    output = io.BytesIO()
    plain.save(output, "PNG", compress_level=1)
    return output.getvalue()


def _encode_array(array: Any) -> bytes:
    """A PNG of height x width (x 3) numbers from 0 to 255 (uint8) or 0 to 1 (else); a safetensors file of 4 or 5 dimensions
    of other than uint8: latents of n x (frames x) channels x height x width."""
    numpy = _import_numpy()

    numbers = numpy.asarray(array.detach().cpu().float() if hasattr(array, "detach") else array)
    if numbers.ndim in (4, 5) and numbers.dtype != numpy.uint8:
        return encode_latents(numbers)
    if numbers.ndim not in (2, 3):
        raise ValueError(f"has {numbers.ndim} dimensions: a picture has height x width x 3, latents n x 4 x height x width, "
                         "those of videos n x frames x 4 x height x width")
    import PIL.Image

    if numbers.dtype != numpy.uint8:
        numbers = (numbers * 255).round().clip(0, 255).astype(numpy.uint8)
    return encode_picture(PIL.Image.fromarray(numbers))


def encode_latents(numbers: Any) -> bytes:
    """A safetensors file with the tensor "latents" in float32."""
    numpy = _import_numpy()

    data: bytes = numpy.ascontiguousarray(numbers, dtype="<f4").tobytes()
    header = json.dumps({LATENTS: {"dtype": "F32", "shape": list(numbers.shape), "data_offsets": [0, len(data)]}}).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data


def decode_latents(data: bytes) -> Any:
    """The numpy array of such a file, as the server sends it."""
    numpy = _import_numpy()

    length, = struct.unpack_from("<Q", data)
    entry: Dict[str, Any] = json.loads(data[8:8 + length])[LATENTS]
    begin, end = entry["data_offsets"]
    return numpy.frombuffer(data[8 + length + begin:8 + length + end], dtype="<f4").reshape(entry["shape"]).copy()


def decode_picture(data: bytes, mime_type: str, size: Tuple[int, int]) -> "PIL.Image.Image":
    """The PIL image of a picture as the server sends it, in whatever format; `size` is (width, height).

    ValueError where the data are latents.
    """
    import PIL.Image

    if mime_type != "application/octet-stream":
        picture = PIL.Image.open(io.BytesIO(data))
        picture.load()
        return picture
    width, height = size
    if len(data) != width * height * 3:
        raise ValueError('these are latents and no picture: take output_type="latent" or "bytes"')
    return PIL.Image.frombytes("RGB", (width, height), data)


def decode_frames(data: bytes) -> "List[PIL.Image.Image]":
    """The frames of an animation as PIL images."""
    import PIL.Image
    import PIL.ImageSequence

    with PIL.Image.open(io.BytesIO(data)) as animation:
        return [frame.convert("RGB") for frame in PIL.ImageSequence.Iterator(animation)]


def stack_latents(files: "Sequence[bytes]") -> Any:
    """A numpy array of n x channels x height / 8 x width / 8 numbers, as diffusers' output_type="latent"."""
    return _import_numpy().concatenate([decode_latents(data) for data in files])


def stack_videos(videos: "Sequence[Sequence[PIL.Image.Image]]") -> Any:
    """A numpy array of n x frames x height x width x 3 numbers from 0 to 1, as diffusers' output_type="np"."""
    return _import_numpy().stack([stack_pictures(frames) for frames in videos])


def stack_pictures(pictures: "Sequence[PIL.Image.Image]") -> Any:
    """A numpy array of n x height x width x 3 numbers from 0 to 1, as diffusers' output_type="np"."""
    numpy = _import_numpy()

    return numpy.stack([numpy.asarray(picture.convert("RGB"), dtype=numpy.float32) / 255.0 for picture in pictures])
