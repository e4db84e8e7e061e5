"""LoRAs of a request, in the ways that people write them: "film:0.8" as `latent generate` has it, {"film": 0.8}, ("film", 0.8)."""

from typing import Any, Dict, Iterable, List, Mapping

ADAPTER = "latent.v1.Adapter"
_FIELDS = ("name", "weight", "text_encoder_weight")


def adapter_list(values: Any) -> Any:
    """A mapping of weights by names as a list of adapters; all else as it is."""
    if not isinstance(values, Mapping) or any(isinstance(weight, str) for weight in values.values()):
        return values
    return [(name, *(weights if isinstance(weights, (list, tuple)) else (weights,))) for name, weights in values.items()]


def adapter_parts(value: Any) -> Dict[str, Any]:
    """An adapter's fields of a text, or of a tuple of their values."""
    parts = _split(value) if isinstance(value, str) else list(value)
    if not 1 <= len(parts) <= len(_FIELDS):
        raise ValueError('must be "NAME[:WEIGHT[:TEXT_ENCODER_WEIGHT]]", a tuple or a mapping of these')
    return dict(zip(_FIELDS, parts))


def _split(text: str) -> List[Any]:
    name, *weights = text.split(":")
    return [name, *_numbers(weights)]


def _numbers(texts: Iterable[str]) -> List[float]:
    try:
        return [float(text) for text in texts]
    except ValueError:
        raise ValueError('must be "NAME[:WEIGHT[:TEXT_ENCODER_WEIGHT]]"') from None
