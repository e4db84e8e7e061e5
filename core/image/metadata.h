// The parts of a picture's file that may say how it is turned: EXIF and XMP, in all places where
// Pillow 13.0.0 looks for them, and joined and preferred as it does that.
//
// Thread-safe: free functions without state.
#pragma once

#include "absl/strings/string_view.h"
#include "core/image/pixels/file_metadata.h"

namespace latentd::image {

// Reads the metadata of a PNG (eXIf; texts of the keys "exif", "Raw profile type exif" and
// "XML:com.adobe.xmp", compressed or not), JPEG (APP1) or WebP (EXIF and XMP of an extended file).
// Malformed metadata is left out: it is no reason to refuse an image. Reads inside `bytes` only, in
// time that is linear in their number; what is unpacked is bounded.
Metadata ReadMetadata(absl::string_view bytes);

}  // namespace latentd::image
