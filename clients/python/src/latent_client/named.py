"""LoRAs, ControlNets and IP-Adapters of a request, in the ways that people write them: {"film": 0.8}, ("film", 0.8), "film:0.8"
as `latent generate` has it; {"canny": image}, ("canny", image, 0.7), {"union@canny": image} of a ControlNet-Union; {"plus": [image, other]} and
{"plus": ([image, other], 0.7)} of an IP-Adapter, whose scale may be diffusers' tree of scales by block, {"up": {"block_0": [0, 1, 0]}}."""

from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from . import messages

_ADAPTER = "latent.v1.Adapter"
_CONTROL = "latent.v1.Control"
_IP_ADAPTER = "latent.v1.IpAdapter"
_BLOCK_SCALE = "latent.v1.BlockScale"
_FIELDS = {_ADAPTER: ("name", "weight", "text_encoder_weight"),
           _CONTROL: ("name", "image", "scale", "start", "end", "control_mode"),
           _IP_ADAPTER: ("name", "image", "scale"),
           _BLOCK_SCALE: ("block", "values")}
_FORMS = {_ADAPTER: '"NAME[:WEIGHT[:TEXT_ENCODER_WEIGHT]]", a tuple',
          _CONTROL: "(NAME, IMAGE[, SCALE[, START, END[, MODE]]]) with NAME or NAME@MODE",
          _IP_ADAPTER: "(NAME, IMAGE[, SCALE]), (NAME, [IMAGE, ...][, SCALE]), {NAME: [IMAGE, ...]}",
          _BLOCK_SCALE: "(BLOCK, VALUES)"}


def is_named(message: str) -> bool:
    """True for messages, by their full names, that this module reads."""
    return message in _FIELDS


def named_list(message: str, values: Any) -> Any:
    """A mapping by names as a list of tuples; all else as it is, so a mapping of one message's fields too."""
    if not isinstance(values, Mapping) or isinstance(values.get(_FIELDS[message][0]), str):
        return values
    if message == _BLOCK_SCALE:
        return _blocks(values)
    parts = (tuple,) if message == _IP_ADAPTER else (list, tuple)  # a list of an IP-Adapter is its images
    return [(name, *(rest if isinstance(rest, parts) else (rest,))) for name, rest in values.items()]


def named_parts(message: str, value: Any) -> Dict[str, Any]:
    """Fields of a text, or of a tuple of their values."""
    fields = _FIELDS[message]
    parts: Sequence[Any] = (_split(value) if isinstance(value, str) and message == _ADAPTER else
                            [value] if isinstance(value, str) else list(value))
    if not 1 <= len(parts) <= len(fields):
        raise ValueError(f"must be {_FORMS[message]} or a mapping of these")
    named = dict(zip(fields, parts))
    images = named.get("image")
    if message == _IP_ADAPTER and isinstance(images, (list, tuple)) and images:
        named["image"], *named["more_images"] = images
    return named_fields(message, named)


def named_fields(message: str, fields: Mapping[str, Any]) -> Dict[str, Any]:
    """Fields of a message by their names; diffusers' tree in the place of an IP-Adapter's scale is that of its scales, and NAME@MODE
    a control's name and mode where it has none beside."""
    named = dict(fields)
    if message == _CONTROL and "@" in str(named.get("name")) and named.get("control_mode") is None:
        named["name"], named["control_mode"] = _split_mode(str(named["name"]))
    if message == _IP_ADAPTER and isinstance(named.get("scale"), Mapping):
        named["scales"] = named.pop("scale")
    return named


def _blocks(tree: Mapping[str, Any]) -> List[Any]:
    """The blocks of diffusers' tree with their values: "up.block_0" of {"up": {"block_0": [0, 1, 0]}}."""
    blocks: List[Any] = []
    for side, below in tree.items():
        blocks += [(f"{side}.{block}", values) for block, values in below.items()] if isinstance(below, Mapping) else [(side, below)]
    return blocks


def _split_mode(text: str) -> Tuple[str, int]:
    """The name and the number of "union@canny" or "union@3"."""
    name, _, mode = text.rpartition("@")
    number = getattr(messages, f"CONTROL_MODE_{mode.upper()}", None)
    if number is None and not mode.isdecimal():
        known = ", ".join(value[len("CONTROL_MODE_"):].lower() for value in messages.ControlMode.keys())
        raise ValueError(f"must be NAME@MODE with MODE a number or one of {known}")
    return name, int(mode if number is None else number)


def _split(text: str) -> List[Any]:
    name, *weights = text.split(":")
    return [name, *_numbers(weights)]


def _numbers(texts: Iterable[str]) -> List[float]:
    try:
        return [float(text) for text in texts]
    except ValueError:
        raise ValueError('must be "NAME[:WEIGHT[:TEXT_ENCODER_WEIGHT]]"') from None
