"""The messages and enums of latent.v1's video generation, under their own names: GenerateVideoRequest, VideoFormat, ...; those that
they share with images are in `messages`."""

from ._descriptors import enum_classes, enum_values, message_classes

_FILE = "latent/v1/video_generation.proto"

globals().update(message_classes(_FILE))
globals().update(enum_classes(_FILE))
globals().update(enum_values(_FILE))
