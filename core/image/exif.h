// The orientation that a camera wrote into a picture's EXIF, or a program into its XMP, and pixels
// turned by it.
//
// By hand, since one number of one directory is all that is wanted of it, in three kinds of files:
// libexif reads JPEG only, and everything in it.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "core/image/pixels/pixels.h"

namespace latentd::image {

// By EXIF's numbers: where the first row and the first column of the stored pixels belong.
enum class Orientation : uint8_t {
  kTopLeft = 1,  // as it should be
  kTopRight,
  kBottomRight,
  kBottomLeft,
  kLeftTop,  // from here on rows are columns
  kRightTop,
  kRightBottom,
  kLeftBottom,
};

// By which ImageOps.exif_transpose of Pillow 13.0.0 turns the picture, wherever it finds it
// (metadata.h): the first value of the EXIF's first directory, of any type of numbers; where EXIF
// has none, that of XMP. kTopLeft where the file says nothing, or nothing that makes sense, which
// is no reason to refuse a picture: also where Pillow fails for it. Reads inside `bytes` only, in
// time that is linear in their number.
Orientation OrientationOf(absl::string_view bytes);

// The size of a picture of that size when it is turned.
Dimensions Turned(Dimensions size, Orientation orientation);

// Turns the pixels as Pillow's ImageOps.exif_transpose does.
Image Turned(Image image, Orientation orientation);

}  // namespace latentd::image
