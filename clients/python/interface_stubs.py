"""Files of a wheel that are made of the protos: the descriptors without comments, and the stubs for type checkers."""

import pathlib
import re
from typing import Dict, List, NamedTuple, Tuple, Union

from google.protobuf import descriptor_pb2

EXTENDED = "google/protobuf/descriptor.proto"
# Modules of messages, by the protos that they are of.
MODULES = {"latent/v1/image_generation.proto": "messages", "latent/v1/video_generation.proto": "video_messages"}
TENSOR = "Tensor"  # an array, or lists of numbers
ADAPTER = "Adapter"  # a text, or as much of a tuple as is said
IP_ADAPTER = "IpAdapter"  # likewise a tuple, with an image or several
CONTROL = "Control"  # likewise: its scale, the part of the schedule and its mode may be left out
MESSAGE_FIELD, FIELD = 4, 2  # numbers of FileDescriptorProto.message_type and DescriptorProto.field, as paths have them

Field = descriptor_pb2.FieldDescriptorProto
File = descriptor_pb2.FileDescriptorProto
Types = Dict[str, Union[descriptor_pb2.DescriptorProto, descriptor_pb2.EnumDescriptorProto]]  # by their full names


class Keywords(NamedTuple):
    """A class of keywords: the fields of a request but for that which a call has as its first argument, and keywords of the call."""

    file: str
    request: str
    first: str
    name: str
    output_types: str


KEYWORDS = (
    Keywords("latent/v1/image_generation.proto", "GenerateRequest", "prompt", "GenerateParameters", '"pil", "np", "bytes", "latent"'),
    Keywords("latent/v1/video_generation.proto", "GenerateVideoRequest", "image", "GenerateVideoParameters", '"pil", "np", "bytes"'))
SCALARS = {
    Field.TYPE_DOUBLE: "float", Field.TYPE_FLOAT: "float", Field.TYPE_BOOL: "bool", Field.TYPE_STRING: "str",
    Field.TYPE_BYTES: "FileInput",
}
HEADER = '''"""Keywords of requests: the fields of latent.v1.GenerateRequest and GenerateVideoRequest. Made of the protos by the build."""

import os
from typing import Any, BinaryIO, Callable, Dict, Literal, Mapping, Protocol, Sequence, Tuple, TypedDict, Union

import PIL.Image


class Array(Protocol):
    @property
    def shape(self) -> Any: ...


FileInput = Union[bytes, str, os.PathLike[str], BinaryIO, PIL.Image.Image, Array]
'''
CALL = '''

class {name}(TypedDict, total=False):
    generator: Any
    output_type: Union[Literal[{output_types}], None]
    callback_on_step_end: Union[Callable[[Any, int, None, Dict[str, Any]], Any], None]
    callback_on_step_end_tensor_inputs: Any
    progress_bar: Union[bool, None]
    return_dict: bool
    timeout: Union[float, None]
'''


def write(descriptors: pathlib.Path, folder: pathlib.Path) -> List[pathlib.Path]:
    """Writes _interface.bin, _parameters.pyi and the stubs of the messages into `folder`, of protoc's files there and `descriptors`."""
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes())
    parameters = parameters_stub({file.name: file for file in files.file})
    _strip(files)
    written = {"_interface.bin": files.SerializeToString(), "_parameters.pyi": parameters.encode()}
    for proto, module in MODULES.items():
        written[f"{module}.pyi"] = _strict((folder / proto.replace(".proto", "_pb2.pyi")).read_text()).encode()
    for name, data in written.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in written]


def _strip(files: descriptor_pb2.FileDescriptorSet) -> None:
    """Leaves out comments, and the command line's options of fields with the file that they extend: that is descriptor.proto of the
    compiler that is here, which an older protobuf need not understand."""
    kept = [file for file in files.file if file.name != EXTENDED]
    for file in kept:
        file.ClearField("source_code_info")
        file.ClearField("extension")
        dependencies = [name for name in file.dependency if name != EXTENDED]
        file.ClearField("dependency")
        file.dependency.extend(dependencies)
        for message in file.message_type:
            for field in message.field:
                field.options.DiscardUnknownFields()
                if not field.options.ListFields():
                    field.ClearField("options")
    files.ClearField("file")
    files.file.extend(kept)


def parameters_stub(files: Dict[str, File]) -> str:
    """The source of the classes of KEYWORDS, each a TypedDict."""
    types: Types = {}
    for proto in MODULES:
        _add_types(types, f".{files[proto].package}", files[proto])
    return HEADER + "".join(_keywords_stub(files[keywords.file], types, keywords) for keywords in KEYWORDS)


def _add_types(types: Types, scope: str, of: "File | descriptor_pb2.DescriptorProto") -> None:
    messages = of.message_type if isinstance(of, File) else of.nested_type
    for described in (*messages, *of.enum_type):
        types[f"{scope}.{described.name}"] = described
    for message in messages:
        _add_types(types, f"{scope}.{message.name}", message)


def _keywords_stub(file: File, types: Types, keywords: Keywords) -> str:
    comments = _comments(file)
    call = keywords.name.replace("Generate", "").replace("Parameters", "CallParameters")
    lines = [CALL.format(name=call, output_types=keywords.output_types), "", f"class {keywords.name}({call}, total=False):"]
    index = [message.name for message in file.message_type].index(keywords.request)
    for number, field in enumerate(file.message_type[index].field):
        if field.name == keywords.first:
            continue
        lines.append(f"    {field.name}: Union[{_type(types, field)}, None]")
        comment = comments.get((MESSAGE_FIELD, index, FIELD, number), "")
        if comment:
            lines.append(f'    """{comment}"""')
    return "\n".join(lines) + "\n"


def _strict(stub: str) -> str:
    """protoc's stub as strict type checkers want it."""
    stub = re.sub(r"_Mapping\](?!\w)", "_Mapping[str, object]]", stub).replace("__slots__ = []", "__slots__: list[str] = []")
    stub = re.sub(r"(?m)^from latent\.v1 import (\w+)_pb2 as (\w+)$",
                  lambda found: f"from . import {MODULES[f'latent/v1/{found[1]}.proto']} as {found[2]}", stub)
    return re.sub(r"(?m)^(FLAG_FIELD_NUMBER|flag): .*\n", "", stub)  # the command line's, of no use here


def _comments(file: File) -> Dict[Tuple[int, ...], str]:
    """The comment above each element, by its path."""
    return {tuple(location.path): re.sub(r"\s+", " ", location.leading_comments).strip().replace("\\", "\\\\").replace('"', "'")
            for location in file.source_code_info.location}


def _type(types: Types, field: Field) -> str:
    single = _single_type(types, field)
    if field.type_name.rpartition(".")[2] == ADAPTER:
        return f"Union[Sequence[{single}], Mapping[str, Union[float, Tuple[float, float]]], str]"
    return f"Sequence[{single}]" if field.label == Field.LABEL_REPEATED else single


def _single_type(types: Types, field: Field) -> str:
    described = types.get(field.type_name)
    if isinstance(described, descriptor_pb2.EnumDescriptorProto):
        return _enum_type(described)
    if field.type == Field.TYPE_MESSAGE:
        return _message_type(types, described)
    return SCALARS.get(field.type, "int")


def _enum_type(enum: descriptor_pb2.EnumDescriptorProto) -> str:
    prefix = enum.value[0].name[: -len("UNSPECIFIED")]
    names = [value.name[len(prefix):].lower() for value in enum.value[1:]]
    return "Literal[{}]".format(", ".join(f'"{name}"' for name in names))


def _message_type(types: Types, message: "descriptor_pb2.DescriptorProto | None") -> str:
    """A mapping, or the values of its fields in their order; of a message with one field its value."""
    if message is None:
        return "Mapping[str, Any]"
    if message.name == TENSOR:
        return "Union[Mapping[str, Any], Array, Sequence[Any]]"
    if message.name == ADAPTER:
        return "Union[Mapping[str, Any], str, Tuple[str, float], Tuple[str, float, float]]"
    if message.name == IP_ADAPTER:
        images = "Union[FileInput, Sequence[FileInput]]"
        return f"Union[Mapping[str, Any], str, Tuple[str, {images}], Tuple[str, {images}, Union[float, Mapping[str, Any]]]]"
    if message.name == CONTROL:
        tuples = ["str, FileInput" + rest for rest in ("", ", float", ", float, float, float", ", float, float, float, int")]
        return "Union[Mapping[str, Any], str, {}]".format(", ".join(f"Tuple[{kinds}]" for kinds in tuples))
    kinds = [_type(types, field) for field in message.field]
    if len(kinds) == 1:
        return f"Union[Mapping[str, Any], {kinds[0]}]"
    return "Union[Mapping[str, Any], str, Tuple[{}]]".format(", ".join(kinds))
