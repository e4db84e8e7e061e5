"""The messages and enums of latent.v1's image generation, under their own names: GenerateRequest, Format, ..."""

from ._descriptors import enum_classes, enum_values, message_classes

_FILE = "latent/v1/image_generation.proto"

globals().update(message_classes(_FILE))
globals().update(enum_classes(_FILE))
globals().update(enum_values(_FILE))
