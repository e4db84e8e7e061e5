// Bits behind each other, the lowest of each byte first, as deflate has them (RFC 1951, 3.1.1).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace latentd::image {

// Appends bits to a string that outlives it, and that has no other user meanwhile. Its length is
// right after Flush alone. A copy goes on from the same place; only one of the two may be used
// then. Not thread-safe.
class BitWriter {
 public:
  // Most bits that Put takes at once.
  static constexpr int kMost = 57;

  explicit BitWriter(std::string& to) : to_(&to), at_(to.data() + to.size()) {}

  // Makes room for `bits` that are put from here on; REQUIRED before they are.
  void Reserve(uint64_t bits) {
    const size_t used = at_ - to_->data();
    to_->resize(used + bits / 8 + 2 * sizeof(waiting_));
    at_ = to_->data() + used;
  }

  // The lower `count` of `bits`. REQUIRES: the others are 0; count <= kMost.
  void Put(uint64_t bits, int count) {
    waiting_ |= bits << count_;
    count_ += count;
    std::memcpy(at_, &waiting_, sizeof(waiting_));
    at_ += count_ / 8;
    waiting_ >>= count_ / 8 * 8;
    count_ %= 8;
  }

  // Zeros up to the next byte.
  void Align() { Put(0, (8 - count_) % 8); }

  // REQUIRES: what is put so far ends with a byte. Makes its own room.
  void Append(absl::string_view bytes) {
    Flush();
    to_->append(bytes.data(), bytes.size());
    at_ = to_->data() + to_->size();
  }

  // The string ends with the last byte that is full; what is left over is kept for the next.
  void Flush() { to_->resize(at_ - to_->data()); }

 private:
  static_assert(std::endian::native == std::endian::little);

  std::string* to_;
  char* at_;  // address of the next full byte
  uint64_t waiting_ = 0;
  unsigned count_ = 0;  // bits in waiting_, at most 7 between calls
};

}  // namespace latentd::image
