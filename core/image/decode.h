// Decodes a file's bytes, from a client that is not trusted, to pixels.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/image/pixels/passed_over.h"
#include "core/image/pixels/pixels.h"

namespace latentd::image {

// Reads PNG, JPEG or WebP, told apart by their first bytes; the result is what diffusers'
// load_image gives: turned as the EXIF orientation says, transparency is dropped, palettes and grey
// become colours, of 16 bits the upper 8 stay. One difference: 16-bit grey without transparency is
// divided by 257, where Pillow clamps it to 255 and so makes it white.
//
// The first image of an animation is read. A damaged image of which Pillow 13.0.0 makes pixels all
// the same is read as Pillow reads it, and `passed_over` gets a sentence for each thing that was
// not as it should be.
//
// INVALID_ARGUMENT, with the reason: not one of these formats, damaged or cut short, or larger than
// kMaxSide or kMaxPixels (judged by the header, before pixels are allocated). Never allocates more
// than a small multiple of the pixels. Thread-safe.
absl::StatusOr<Image> Decode(absl::string_view bytes, PassedOver& passed_over);
absl::StatusOr<Image> Decode(absl::string_view bytes);

// The size that Decode would give, from the file's header only: cheap, and refuses what Decode
// refuses by the header. Thread-safe.
absl::StatusOr<Dimensions> ReadDimensions(absl::string_view bytes);

}  // namespace latentd::image
