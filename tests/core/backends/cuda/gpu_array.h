// Values in a GPU's memory, and how far those that a kernel computed are from exact ones.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/backends/cuda/kernels/common/element.h"

namespace latentd::backends::cuda::kernels {

using Values = std::vector<double>;

inline constexpr Element kFloats[] = {Element::kF32, Element::kF16, Element::kBF16};

// Skips every test where there is no GPU.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override;
};

// Skips every test where there is no Hopper.
class HopperTest : public GpuTest {
 protected:
  void SetUp() override;
};

Values Normal(int64_t size, uint32_t seed, double deviation = 1, double mean = 0);
// Each value as the element holds it.
Values Rounded(Element element, Values values);
// The number that a code of e4m3, as GpuArray reads one, stands for.
double OfCode(double code);

// Begins `offset` elements behind an aligned address, and ends where its memory ends.
class GpuArray {
 public:
  GpuArray(Element element, const Values& values, int64_t offset = 0);
  // Every byte is 0xff: NaN for floats.
  static GpuArray Poisoned(Element element, int64_t size, int64_t offset = 0);
  ~GpuArray() { cudaFree(memory_); }
  GpuArray(GpuArray&& other) noexcept;
  GpuArray& operator=(GpuArray&&) = delete;

  void* data() const { return static_cast<char*>(memory_) + offset_ * BytesOf(element_); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data());
  }
  // Waits for the GPU, and fails the test if that has failed.
  Values Read() const;
  std::vector<char> Bytes() const;

 private:
  GpuArray(Element element, int64_t size, int64_t offset);

  Element element_;
  int64_t size_, offset_;
  void* memory_ = nullptr;
};

// Each value within so many units of the last place of the element and so much more; where the
// exact value is NaN, or infinite for the element, so is the actual one.
void ExpectClose(const Values& actual, const Values& exact, Element element, double ulps,
                 double absolute = 0);

}  // namespace latentd::backends::cuda::kernels
