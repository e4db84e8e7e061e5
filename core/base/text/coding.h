// Numbers as bytes of a file: little-endian, whatever the machine, and nothing between them.
//
// Thread-safe: a free function, and a reader for one thread at a time.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace latentd {

// Appends the sizeof(T) bytes of `value`.
template <std::unsigned_integral T>
void PutLittleEndian(std::string& bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
}

// Takes numbers and pieces from the front of bytes that may be anything. The first that is not
// there whole makes ok() false; it and all that follow are 0 or empty.
class LittleEndianReader {
 public:
  explicit LittleEndianReader(absl::string_view bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  T Take() {
    const absl::string_view bytes = TakeBytes(sizeof(T));
    T value = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return value;
  }

  absl::string_view TakeBytes(uint64_t count) {
    if (count > rest_.size()) ok_ = false;
    if (!ok_) return {};
    const absl::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  // A u32 that counts elements of some size, at most as many as there are bytes for: so that a
  // damaged count allocates nothing.
  size_t TakeCount(size_t element_bytes) {
    const auto count = Take<uint32_t>();
    if (count > rest_.size() / element_bytes) ok_ = false;
    return ok_ ? count : 0;
  }

  bool ok() const { return ok_; }

  // The bytes not read yet.
  absl::string_view rest() const { return rest_; }

  // True if all reads succeeded and no byte is left.
  bool done() const { return ok_ && rest_.empty(); }

 private:
  absl::string_view rest_;
  bool ok_ = true;
};

}  // namespace latentd
