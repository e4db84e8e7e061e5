"""Tensors of a request and of an answer: embeddings, as numpy, torch and lists have them. numpy is imported when first needed."""

from typing import Any, Dict, NamedTuple, Optional

from . import files

TENSOR = "latent.v1.Tensor"  # the message's name

# By the numbers of Tensor.Dtype; unspecified is float32.
_FLOAT32, _FLOAT16, _BFLOAT16 = 1, 2, 3
_ARRAY_TYPES = {0: "<f4", _FLOAT32: "<f4", _FLOAT16: "<f2", _BFLOAT16: "<u2"}
_WIDENED = ("f", "i", "u")  # kinds of numpy's types that become float32


class PromptEmbeds(NamedTuple):
    """Embeddings of a prompt, in the order in which diffusers' encode_prompt of SDXL gives them: numpy arrays of 1 x tokens x width,
    pooled ones of 1 x width. None where the model has none, or takes zeros. `pipe(**embeds._asdict())` draws with them."""

    prompt_embeds: Any
    negative_prompt_embeds: Optional[Any]
    pooled_prompt_embeds: Optional[Any]
    negative_pooled_prompt_embeds: Optional[Any]


def tensor_parts(value: Any) -> Dict[str, Any]:
    """The fields of a Tensor: of an array or tensor as it is in float16, else in float32, which loses nothing of bfloat16; of nested
    lists in float32. TypeError and ValueError for what is no array of numbers."""
    numpy = files._import_numpy()
    array = _to_array(numpy, value)
    is_half = array.dtype == numpy.float16
    if not is_half and array.dtype.kind not in _WIDENED:
        raise TypeError(f"must be an array, a tensor or lists of numbers, not of {array.dtype}")
    data = numpy.ascontiguousarray(array, dtype="<f2" if is_half else "<f4")
    return {"dtype": _FLOAT16 if is_half else _FLOAT32, "shape": list(array.shape), "data": data.tobytes()}


def _to_array(numpy: Any, value: Any) -> Any:
    if isinstance(value, (str, bytes)) or not (hasattr(value, "__array__") or hasattr(value, "__iter__")):
        raise TypeError(f"must be an array, a tensor or lists of numbers, not {type(value).__name__}")
    if hasattr(value, "detach"):  # torch has types that numpy has not
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    try:
        array = numpy.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise ValueError(f"must have rows of one length: {error}") from None
    return array.astype(numpy.float32) if array.dtype.name == "bfloat16" else array


def to_array(tensor: Any) -> Any:
    """The numpy array of a Tensor; of bfloat16, which numpy has not, in float32. ValueError where its bytes are not its shape's."""
    numpy = files._import_numpy()
    numbers = numpy.frombuffer(tensor.data, dtype=_ARRAY_TYPES[tensor.dtype]).reshape(tuple(tensor.shape))
    if tensor.dtype != _BFLOAT16:
        return numbers.copy()
    return (numbers.astype("<u4") << 16).view("<f4")


def to_embeds(response: Any) -> PromptEmbeds:
    """Takes the tensors of an EncodeResponse, one prompt as a batch of one."""
    return PromptEmbeds(*(to_array(getattr(response, name))[None] if response.HasField(name) else None
                          for name in PromptEmbeds._fields))
