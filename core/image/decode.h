// A file's bytes, from somebody who is not trusted, to pixels.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/image/pixels.h"

namespace latentd::image {

// Reads PNG, JPEG or WebP, told apart by their first bytes; the result is what PIL's
// Image.open(...).convert("RGB") gives: transparency is dropped, palettes and grey become colours,
// 16 bits become 8, EXIF orientation is not applied, of an animation there is the first frame.
//
// INVALID_ARGUMENT, with the reason: not one of these formats, damaged or cut short, or larger than
// kMaxSide or kMaxPixels (judged by the header, before pixels are allocated). Never allocates more
// than a small multiple of the pixels. Thread-safe.
absl::StatusOr<Image> Decode(absl::string_view bytes);

}  // namespace latentd::image
