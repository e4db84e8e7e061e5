// Division by numbers that are known before the kernel runs.
#pragma once

#include <cstdint>

namespace latentd::backends::cuda::kernels {

// Dividends of Divisor are below this.
inline constexpr int64_t kDivisible = int64_t{1} << 31;

// Divides by a multiplication, to save some dozens of instructions.
class Divisor {
 public:
  Divisor() = default;
  // REQUIRES: 0 < value < kDivisible.
  explicit Divisor(int64_t value) : value_(static_cast<uint32_t>(value)) {
    while ((uint64_t{1} << shift_) < value_) ++shift_;
    const uint64_t excess = (uint64_t{1} << shift_) - value_;
    multiplier_ = static_cast<uint32_t>((excess << 32) / value_ + 1);
  }
  __device__ uint32_t Divide(uint32_t x, uint32_t& rest) const {
    const uint32_t quotient = (__umulhi(x, multiplier_) + x) >> shift_;
    rest = x - quotient * value_;
    return quotient;
  }

 private:
  uint32_t value_ = 1, multiplier_ = 1, shift_ = 0;
};

class WideDivisor {
 public:
  WideDivisor() = default;
  explicit WideDivisor(int64_t value) : value_(value) {}
  __device__ uint64_t Divide(uint64_t x, uint64_t& rest) const {
    const uint64_t quotient = x / value_;
    rest = x - quotient * value_;
    return quotient;
  }

 private:
  uint64_t value_ = 1;
};

}  // namespace latentd::backends::cuda::kernels
