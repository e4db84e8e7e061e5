"""A request of keywords: each field of GenerateRequest or GenerateVideoRequest under its own name, as its descriptor has it.

There is no list of fields here. What is particular to diffusers' callers is: which keywords are no fields, and what a generator means.
"""

import difflib
import operator
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type

from google.protobuf.descriptor import FieldDescriptor

from . import files, named, tensors
from ._descriptors import is_repeated
from .messages import EncodeRequest, GenerateRequest  # type: ignore[attr-defined,unused-ignore]
from .video_messages import GenerateVideoRequest  # type: ignore[attr-defined,unused-ignore]

PROMPT = "prompt"
IMAGE = "image"
# Keywords of a call that are about the client, not the picture or the video.
CALL_KEYWORDS = ("callback_on_step_end", "callback_on_step_end_tensor_inputs", "generator", "output_type", "progress_bar",
                 "return_dict", "timeout")
# The same of encode_prompt().
ENCODE_KEYWORDS = ("device", "timeout")
# Order of a tuple's values where diffusers has another than the message.
_TUPLE_ORDER = {"latent.v1.Size": ("height", "width")}
_UNSPECIFIED = "UNSPECIFIED"
_NAMES_SHOWN = 3


def field_names() -> List[str]:
    """The keywords that are fields of a request, in the order of the proto."""
    return [field.name for field in GenerateRequest.DESCRIPTOR.fields]


def video_field_names() -> List[str]:
    """The same of a request for videos."""
    return [field.name for field in GenerateVideoRequest.DESCRIPTOR.fields]


def make_request(parameters: Mapping[str, Any]) -> Any:
    """The GenerateRequest of keywords; what is None is not set.

    TypeError for a keyword that is no field, which names the nearest ones, and for a value of another type; ValueError for one that
    cannot be. Both name the field. The server checks all else.
    """
    return _fill_request(GenerateRequest(), parameters, CALL_KEYWORDS)


def make_video_request(parameters: Mapping[str, Any]) -> Any:
    """The GenerateVideoRequest of keywords; errors as make_request's."""
    return _fill_request(GenerateVideoRequest(), parameters, CALL_KEYWORDS)


def make_encode_request(prompt: Optional[str], parameters: Mapping[str, Any]) -> Any:
    """The EncodeRequest of keywords; errors as make_request's."""
    given = {} if prompt is None else {PROMPT: prompt}
    return _fill_request(EncodeRequest(), {**parameters, **given}, ENCODE_KEYWORDS)


def _fill_request(request: Any, parameters: Mapping[str, Any], others: Sequence[str]) -> Any:
    for name, value in parameters.items():
        if name not in request.DESCRIPTOR.fields_by_name:
            raise TypeError(_unknown(name, [*request.DESCRIPTOR.fields_by_name, *others]))
        if value is None:
            continue
        try:
            _set(request, request.DESCRIPTOR.fields_by_name[name], value, name)
        except _FieldError as error:
            raise error.kind(str(error)) from None
    return request


def _unknown(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=_NAMES_SHOWN)
    near = near or [known for known in names if name in known][:_NAMES_SHOWN]
    hint = f"; did you mean {' or '.join(near)}?" if near else "; latentd has no such parameter"
    return f"unexpected keyword argument {name!r}{hint}"


class _FieldError(Exception):
    """A TypeError or ValueError of a field, whose text has the field's path."""

    def __init__(self, kind: Type[Exception], message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _set(message: Any, field: Any, value: Any, path: str) -> None:
    """Sets a field; errors name it by its path, such as output.format."""
    try:
        _set_unnamed(message, field, value, path)
    except (TypeError, ValueError) as error:
        raise _FieldError(TypeError if isinstance(error, TypeError) else ValueError, f"{path}: {error}") from None


def _set_unnamed(message: Any, field: Any, value: Any, path: str) -> None:
    if _is_map(field):
        for key, entry in dict(value).items():
            getattr(message, field.name)[key] = _scalar(field.message_type.fields_by_name["value"], entry)
    elif is_repeated(field):
        if field.message_type and named.is_named(field.message_type.full_name):
            value = named.named_list(field.message_type.full_name, value)
        _set_repeated(getattr(message, field.name), field, value, path)
    elif field.message_type:
        part = getattr(message, field.name)
        part.SetInParent()
        _fill(part, value, path)
    else:
        setattr(message, field.name, _scalar(field, value))


def _is_map(field: Any) -> bool:
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def _set_repeated(entries: Any, field: Any, values: Any, path: str) -> None:
    for index, value in enumerate(_elements(values)):
        if field.message_type:
            _fill(entries.add(), value, f"{path}[{index}]")
        else:
            entries.append(_scalar(field, value))


def _elements(values: Any) -> Iterable[Any]:
    """The values of a list, tuple or array; a mapping or text, which would be taken apart, is one value."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    is_sequence = hasattr(values, "__iter__") or hasattr(values, "__getitem__")  # a message's repeated fields have the latter alone
    if isinstance(values, (str, bytes, Mapping)) or not is_sequence:
        return [values]
    return list(values)


def _fill(message: Any, value: Any, path: str) -> None:
    """Fills a message from a mapping, from its values in their order, or, where it has one field, from the value of that."""
    fields = message.DESCRIPTOR.fields_by_name
    order = _TUPLE_ORDER.get(message.DESCRIPTOR.full_name, tuple(field.name for field in message.DESCRIPTOR.fields))
    for name, part in _parts(order, value, message).items():
        if name not in fields:
            raise _FieldError(TypeError, f"{path}: {_unknown(name, list(fields))}")
        if part is not None:
            _set(message, fields[name], part, f"{path}.{name}")


def _parts(order: Tuple[str, ...], value: Any, message: Any) -> Dict[str, Any]:
    if isinstance(value, type(message)):
        return {field.name: part for field, part in value.ListFields()}
    if isinstance(value, Mapping):
        return named.named_fields(message.DESCRIPTOR.full_name, value)
    if message.DESCRIPTOR.full_name == tensors.TENSOR:
        return tensors.tensor_parts(value)
    if named.is_named(message.DESCRIPTOR.full_name):
        return named.named_parts(message.DESCRIPTOR.full_name, value)
    if isinstance(value, str) and set(order) == {"width", "height"}:
        return dict(zip(("width", "height"), map(int, value.lower().split("x", 1))))
    if len(order) == 1 or isinstance(value, str):
        return {order[0]: value}
    values = list(_elements(value))
    if len(values) != len(order):
        raise ValueError(f"must be ({', '.join(order)}), or a mapping of these")
    return dict(zip(order, values))


def _scalar(field: Any, value: Any) -> Any:
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a number of numpy or torch
        value = value.item()
    return _converter(field)(value)


def _converter(field: Any) -> Callable[[Any], Any]:
    if field.enum_type:
        return lambda value: _enum_number(field.enum_type, value)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return files.read_file_input
    return _CONVERTERS.get(field.cpp_type, lambda value: _integer(field, value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        hint = ": one text for each call" if isinstance(value, (list, tuple)) else ""
        raise TypeError(f"must be str, not {type(value).__name__}{hint}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"must be bool, not {type(value).__name__}")
    return value


def _number(value: Any) -> float:
    if isinstance(value, (bool, str)):
        raise TypeError(f"must be a number, not {type(value).__name__}")
    return float(value)


_BOUNDS = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1), FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1), FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}


def _integer(field: Any, value: Any) -> int:
    is_whole = value.is_integer() if isinstance(value, float) else hasattr(value, "__index__")
    if isinstance(value, bool) or not is_whole:
        raise TypeError(f"must be a whole number, not {value!r}")
    number = int(value) if isinstance(value, float) else operator.index(value)
    least, most = _BOUNDS[field.cpp_type]
    if not least <= number <= most:
        raise ValueError(f"must be from {least} to {most}, not {number}")
    return number


_CONVERTERS: Dict[int, Callable[[Any], Any]] = {
    FieldDescriptor.CPPTYPE_STRING: _text, FieldDescriptor.CPPTYPE_BOOL: _flag, FieldDescriptor.CPPTYPE_DOUBLE: _number,
    FieldDescriptor.CPPTYPE_FLOAT: _number,
}


def enum_prefix(enum: Any) -> str:
    """The part that all names of an enum begin with: "FORMAT_"."""
    first = str(enum.values[0].name)
    return first[: -len(_UNSPECIFIED)] if first.endswith(_UNSPECIFIED) else ""


def _enum_number(enum: Any, value: Any) -> int:
    """The number of a name with or without prefix, in any case."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    name = _text(value).upper().replace("-", "_").replace(" ", "_")
    prefix = enum_prefix(enum)
    for found in (prefix + name, name):
        if found in enum.values_by_name:
            return int(enum.values_by_name[found].number)
    names = [entry.name[len(prefix):].lower() for entry in list(enum.values)[1:]]
    raise ValueError(f"must be one of {', '.join(names)}, not {value!r}")


def to_parameters(request: Any) -> Dict[str, Any]:
    """The fields that are set, as keywords that make the same request; enums by their short names."""
    return {field.name: _plain(field, value) for field, value in request.ListFields()}


def _plain(field: Any, value: Any) -> Any:
    if _is_map(field):
        return dict(value)
    if is_repeated(field):
        return [_plain_single(field, entry) for entry in value]
    return _plain_single(field, value)


def _plain_single(field: Any, value: Any) -> Any:
    if field.message_type:
        return to_parameters(value)
    if field.enum_type:
        found = field.enum_type.values_by_number.get(value)
        return found.name[len(enum_prefix(field.enum_type)):].lower() if found else value
    return value


def seed_parameters(generator: Any, pictures: int) -> Dict[str, Any]:
    """{"seed": n} of a torch.Generator, {"seeds": [...]} of a list of them, for so many pictures.

    ValueError where the server would draw other noise than diffusers: the generator is not on the CPU or has been used, or one is
    to serve several pictures.
    """
    if isinstance(generator, (list, tuple)):
        return {"seeds": [_seed_of(entry) for entry in generator]}
    if pictures > 1:
        raise ValueError("generator: one generator for several pictures gives the second and later ones other noise in diffusers; "
                         "give a list of generators, one a picture, or seed=")
    return {"seed": _seed_of(generator)}


def _seed_of(generator: Any) -> int:
    device = getattr(generator, "device", None)
    if device is not None and getattr(device, "type", str(device)) != "cpu":
        raise ValueError(f"generator: it is on {device}, and the server draws the noise of one on the CPU; give torch.Generator()")
    seed = int(generator.initial_seed())
    if hasattr(generator, "get_state"):
        fresh = type(generator)()
        fresh.manual_seed(seed)
        if bytes(memoryview(_to_buffer(fresh.get_state()))) != bytes(memoryview(_to_buffer(generator.get_state()))):
            raise ValueError("generator: it has been used, and the server draws the noise of a fresh one; call manual_seed() before")
    return seed


def _to_buffer(state: Any) -> Any:
    """A tensor's numbers as bytes."""
    return bytes(state.tolist()) if hasattr(state, "tolist") else state
