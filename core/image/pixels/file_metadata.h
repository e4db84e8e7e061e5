// The parts of an image's file that may say how it is turned.
#pragma once

#include <optional>
#include <string>

namespace latentd::image {

struct Metadata {
  // A TIFF, behind "Exif\0\0" or not; an empty one is there, and says nothing.
  std::optional<std::string> exif;
  std::string xmp;  // XML; empty: there is none
};

}  // namespace latentd::image
