// Pixels as encoders of videos read them: 4:2:0, BT.601, limited range (luma 16 to 235), chroma in
// the middle of its four pixels, of which it is the mean; at an odd width or height the last column
// or row has its own.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstddef>
#include <string>

#include "core/image/pixels/pixels.h"

namespace latentd::image {

// Bytes of a frame: a plane of luma, then one of blue and one of red, of half its sides.
size_t YuvBytes(int width, int height);

// Throws std::bad_alloc. REQUIRES: CheckImage(frame).
void AppendYuv(const Image& frame, std::string& to);

}  // namespace latentd::image
