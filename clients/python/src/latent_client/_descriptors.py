"""Message classes, made when the package is imported of the descriptors that the build has put beside it.

They live in a pool of their own: a program may have latent.v1's, google.rpc's or grpc.health's generated code beside them. No
generated code means that one wheel serves every protobuf runtime, from 3.20.3 on.
"""

import pkgutil
from typing import Any, Dict

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper


def _load_pool() -> DescriptorPool:
    data = pkgutil.get_data(__package__, "_interface.bin")
    assert data is not None
    pool = DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _class_maker(pool: DescriptorPool) -> Any:
    make = getattr(message_factory, "GetMessageClass", None)
    return make or getattr(message_factory.MessageFactory(pool), "GetPrototype")  # protobuf before 4.22


_POOL = _load_pool()
_MAKE_CLASS = _class_maker(_POOL)


def message_class(name: str) -> Any:
    """The class of the message of that full name. KeyError where there is none."""
    return _MAKE_CLASS(_POOL.FindMessageTypeByName(name))


def message_classes(file_name: str) -> Dict[str, Any]:
    """The classes of all messages of a proto file, by their names."""
    described = _POOL.FindFileByName(file_name).message_types_by_name
    return {name: _MAKE_CLASS(descriptor) for name, descriptor in described.items()}


def enum_classes(file_name: str) -> Dict[str, Any]:
    """The wrappers of all enums of a proto file, by their names."""
    described = _POOL.FindFileByName(file_name).enum_types_by_name
    return {name: EnumTypeWrapper(descriptor) for name, descriptor in described.items()}


def enum_values(file_name: str) -> Dict[str, int]:
    """The numbers of all values of these enums, by their names."""
    described = _POOL.FindFileByName(file_name).enum_types_by_name
    return {value.name: value.number for enum in described.values() for value in enum.values}


def is_repeated(field: Any) -> bool:
    """True where a field, given by its descriptor, holds many values."""
    found = getattr(field, "is_repeated", None)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED if found is None else found)


def seconds(duration: Any) -> float:
    """The seconds of a google.protobuf.Duration."""
    return float(duration.seconds + duration.nanos / 1e9)
