// The parts that a PNG is written of, and an animation of them.
//
// Thread-safe: free functions without state. They throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "core/image/pixels/pixels.h"
#include "core/image/pixels/run_parts.h"
#include "core/image/png/deflate.h"

namespace latentd::image {

// The first bytes of a file.
inline constexpr absl::string_view kPngSignature = "\x89PNG\r\n\x1A\n";

// Four bytes, the highest first.
std::string PngNumber(uint32_t value);

// A chunk with its length and checksum. REQUIRES: `append` puts `bytes` bytes behind what it is
// given; less than 2^31 of them.
void AppendPngChunk(absl::string_view type, size_t bytes,
                    absl::FunctionRef<void(std::string& png)> append, std::string& png);
void AppendPngChunk(absl::string_view type, absl::string_view content, std::string& png);

// The chunk IHDR: 8 bits a channel, RGB, deflate, filtered, not interlaced.
void AppendPngHeader(int width, int height, std::string& png);

// The text of parameters.h, uncompressed in a chunk iTXt "parameters"; an empty one writes none.
void AppendPngParameters(absl::string_view parameters, std::string& png);

// Filtered and compressed pixels: AppendZlibStream makes the content of the chunks IDAT of them.
using PngPixels = std::vector<std::unique_ptr<DeflatePart>>;

// The same for an image on any machine, whichever threads run the parts. REQUIRES:
// CheckImage(image).
PngPixels CompressPng(const Image& image, const RunParts& run_parts);

}  // namespace latentd::image
