// Numbers in a part of a file, where what lies beyond its end is 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace latentd::image {

enum class ByteOrder : uint8_t { kLittle, kBig };

class Bytes {
 public:
  Bytes(absl::string_view bytes, ByteOrder order) : bytes_(bytes), order_(order) {}

  uint32_t U16(size_t offset) const { return static_cast<uint32_t>(Number(offset, 2)); }
  uint32_t U24(size_t offset) const { return static_cast<uint32_t>(Number(offset, 3)); }
  uint32_t U32(size_t offset) const { return static_cast<uint32_t>(Number(offset, 4)); }
  uint64_t U64(size_t offset) const { return Number(offset, 8); }

 private:
  uint64_t Number(size_t offset, size_t count) const {
    if (offset > bytes_.size() || count > bytes_.size() - offset) return 0;
    uint64_t number = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t at = order_ == ByteOrder::kBig ? i : count - 1 - i;
      number = number << 8 | static_cast<uint8_t>(bytes_[offset + at]);
    }
    return number;
  }

  absl::string_view bytes_;
  ByteOrder order_;
};

// `count` bytes from `offset` on, or as many as there are.
inline absl::string_view Part(absl::string_view bytes, size_t offset, size_t count) {
  return offset < bytes.size() ? bytes.substr(offset, count) : absl::string_view();
}

}  // namespace latentd::image
