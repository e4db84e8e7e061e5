// The files of tests/core/image/pictures and pictures that tests make.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/image/pixels/pixels.h"
#include "tests/support/source_directory.h"

namespace latentd::image {

inline std::filesystem::path PicturePath(const std::string& name) {
  return std::filesystem::path(::latentd::testing::SourcePath("tests/core/image/pictures")) / name;
}

inline std::string ReadPicture(const std::string& name) {
  std::ifstream file(PicturePath(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::vector<uint8_t> ReadRgb(const std::string& name) {
  const std::string bytes = ReadPicture(name);
  return {bytes.begin(), bytes.end()};
}

// A smooth picture in which every pixel differs from its neighbours.
inline Image Gradient(int width, int height) {
  Image image{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        image.rgb.push_back(static_cast<uint8_t>(255 * (x + y * (c + 1)) / (width + height * 3)));
      }
    }
  }
  return image;
}

}  // namespace latentd::image
