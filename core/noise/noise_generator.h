// Random numbers equal to what torch.Generator("cpu").manual_seed(seed) gives in Python.
//
// Not thread-safe: one owner at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device/buffer.h"

namespace latentd::noise {

class NoiseGenerator {
 public:
  explicit NoiseGenerator(uint64_t seed);
  ~NoiseGenerator();
  NoiseGenerator(NoiseGenerator&&) noexcept;
  NoiseGenerator& operator=(NoiseGenerator&&) noexcept;

  // torch.randn(shape, generator=...) in float32: standard normal numbers, in the order torch draws
  // them.
  device::Buffer Normal(const device::Shape& shape);

  // The same numbers, times `deviation`, into memory that is there already. REQUIRES: an f32 buffer
  // that the host can write.
  void Fill(const device::Buffer& buffer, double deviation = 1);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace latentd::noise
