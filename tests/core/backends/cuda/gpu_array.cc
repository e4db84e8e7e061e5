#include "tests/core/backends/cuda/gpu_array.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

namespace latentd::backends::cuda::kernels {
namespace {

template <typename T>
T FromDouble(double x) {
  return static_cast<T>(x);
}
template <>
__half FromDouble(double x) {
  return __double2half(x);
}
template <>
__nv_bfloat16 FromDouble(double x) {
  return __double2bfloat16(x);
}

double ToDouble(__half x) { return __half2float(x); }
double ToDouble(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T>
double ToDouble(T x) {
  return static_cast<double>(x);
}

template <typename Function>
void ForElement(Element element, const Function& function) {
  switch (element) {
    case Element::kF32:
      return function(float{});
    case Element::kF16:
      return function(__half{});
    case Element::kBF16:
      return function(__nv_bfloat16{});
    case Element::kI64:
      return function(int64_t{});
    case Element::kU8:
    case Element::kF8E4M3:  // codes
    case Element::kF8E5M2:
      return function(uint8_t{});
  }
}

std::vector<char> Encode(Element element, const Values& values) {
  std::vector<char> bytes(values.size() * BytesOf(element));
  ForElement(element, [&](auto type) {
    for (size_t i = 0; i < values.size(); ++i) {
      const auto value = FromDouble<decltype(type)>(values[i]);
      std::memcpy(&bytes[i * sizeof(value)], &value, sizeof(value));
    }
  });
  return bytes;
}

Values Decode(Element element, const std::vector<char>& bytes) {
  Values values(bytes.size() / BytesOf(element));
  ForElement(element, [&](auto value) {
    for (size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&value, &bytes[i * sizeof(value)], sizeof(value));
      values[i] = ToDouble(value);
    }
  });
  return values;
}

// The distance between an element's numbers at x.
double UlpAt(double x, Element element) {
  const int mantissa = element == Element::kF32 ? 23 : element == Element::kF16 ? 10 : 7;
  const int smallest = element == Element::kF16 ? -14 : -126;
  return std::ldexp(1, std::max(x == 0 ? smallest : std::ilogb(x), smallest) - mantissa);
}

// In units of what is allowed.
double Distance(double actual, double exact, double allowed) {
  if (std::isnan(exact)) return std::isnan(actual) ? 0 : HUGE_VAL;
  if (std::isnan(actual)) return HUGE_VAL;
  return actual == exact ? 0 : std::abs(actual - exact) / allowed;
}

}  // namespace

void GpuTest::SetUp() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU";
}

void HopperTest::SetUp() {
  GpuTest::SetUp();
  if (IsSkipped()) return;
  int major = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  if (major != 9) GTEST_SKIP() << "this GPU is no Hopper";
}

Values Normal(int64_t size, uint32_t seed, double deviation, double mean) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(mean, deviation);
  Values values(size);
  for (double& value : values) value = normal(generator);
  return values;
}

Values Rounded(Element element, Values values) { return Decode(element, Encode(element, values)); }

double OfCode(double code) {
  const __half_raw half = __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(code), __NV_E4M3);
  return __half2float(__half(half));
}

GpuArray::GpuArray(Element element, int64_t size, int64_t offset)
    : element_(element), size_(size), offset_(offset) {
  EXPECT_EQ(cudaMalloc(&memory_, (size + offset) * BytesOf(element)), cudaSuccess);
}

GpuArray::GpuArray(Element element, const Values& values, int64_t offset)
    : GpuArray(element, static_cast<int64_t>(values.size()), offset) {
  const std::vector<char> bytes = Encode(element, values);
  EXPECT_EQ(cudaMemcpy(data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), cudaSuccess);
}

GpuArray::GpuArray(GpuArray&& other) noexcept
    : element_(other.element_),
      size_(other.size_),
      offset_(other.offset_),
      memory_(std::exchange(other.memory_, nullptr)) {}

GpuArray GpuArray::Poisoned(Element element, int64_t size, int64_t offset) {
  GpuArray array(element, size, offset);
  EXPECT_EQ(cudaMemset(array.data(), 0xff, size * BytesOf(element)), cudaSuccess);
  return array;
}

std::vector<char> GpuArray::Bytes() const {
  std::vector<char> bytes(size_ * BytesOf(element_));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(bytes.data(), data(), bytes.size(), cudaMemcpyDeviceToHost), cudaSuccess);
  return bytes;
}

Values GpuArray::Read() const { return Decode(element_, Bytes()); }

void ExpectClose(const Values& actual, const Values& exact, Element element, double ulps,
                 double absolute) {
  ASSERT_EQ(actual.size(), exact.size());
  const Values nearest = Rounded(element, exact);
  size_t worst = 0;
  double distance = -1;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double wanted = std::isinf(nearest[i]) ? nearest[i] : exact[i];
    const double own = Distance(actual[i], wanted, ulps * UlpAt(exact[i], element) + absolute);
    if (own > distance) {
      worst = i;
      distance = own;
    }
  }
  EXPECT_LE(distance, 1) << "element " << worst << " of " << exact.size() << " is " << actual[worst]
                         << ", not " << exact[worst];
}

}  // namespace latentd::backends::cuda::kernels
