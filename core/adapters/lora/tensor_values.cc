#include "core/adapters/lora/tensor_values.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/device/buffer.h"
#include "core/device/dtype.h"
#include "core/weights/containers/recognize/noise_markers.h"

namespace latentd::adapters {
namespace {

using device::DType;
using weights::StoredTensor;

bool AreDoubles(const StoredTensor& tensor) {
  return tensor.unusable_dtype == weights::kDoubles && tensor.data.has_memory();
}

// Whole numbers that a double holds.
template <typename T>
double WholeNumber(const StoredTensor& tensor) {
  T value;
  std::memcpy(&value, tensor.data.data(), sizeof(value));
  return static_cast<double>(value);
}

// The number in each word of that size of 64 bits.
template <typename Word>
constexpr uint64_t InEach(Word number) {
  uint64_t all = 0;
  for (size_t i = 0; i < sizeof(all) / sizeof(Word); ++i) {
    all = (all << (8 * sizeof(Word) - 1) << 1) | number;
  }
  return all;
}

// True if all bits of an exponent are set in none of the words. A file's data need not be aligned.
//
// 64 bits at a time: where an exponent has all bits, adding its lowest one carries into the bit
// above it, which is the sign, and is cleared before.
template <typename Word>
bool HasNoneWithAll(const StoredTensor& tensor, Word exponent) {
  const auto* bytes = static_cast<const char*>(tensor.data.data());
  const size_t count = tensor.data.bytes();
  constexpr size_t kStep = sizeof(uint64_t);
  const uint64_t exponents = InEach(exponent);
  const uint64_t lowest = InEach(static_cast<Word>(exponent & -exponent));
  const uint64_t signs = InEach(static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1)));
  uint64_t found = 0;
  size_t at = 0;
  for (; at + kStep <= count; at += kStep) {
    uint64_t words;
    std::memcpy(&words, bytes + at, kStep);
    found |= ((words & exponents) + lowest) & signs;
  }
  uint64_t rest = 0;  // zeros are finite
  std::memcpy(&rest, bytes + at, count - at);
  found |= ((rest & exponents) + lowest) & signs;
  return found == 0;
}

}  // namespace

bool HasFloats(const StoredTensor& tensor) {
  if (!tensor.unusable_dtype.empty()) return AreDoubles(tensor);
  return tensor.data.dtype() != DType::kI64 && tensor.data.dtype() != DType::kU8;
}

std::optional<double> ReadScalar(const StoredTensor& tensor) {
  if (tensor.data.elements() != 1 || !tensor.data.has_memory()) return std::nullopt;
  if (tensor.unusable_dtype.empty()) {
    if (tensor.data.dtype() == DType::kI64) return WholeNumber<int64_t>(tensor);
    if (tensor.data.dtype() == DType::kU8) return WholeNumber<uint8_t>(tensor);
  }
  const std::optional<std::vector<double>> values = weights::ReadValues(tensor);
  if (!values) return std::nullopt;
  return values->front();
}

bool IsFinite(const StoredTensor& tensor) {
  if (AreDoubles(tensor)) return HasNoneWithAll<uint64_t>(tensor, 0x7ff0000000000000);
  switch (tensor.data.dtype()) {
    case DType::kF32:
      return HasNoneWithAll<uint32_t>(tensor, 0x7f800000);
    case DType::kF16:
      return HasNoneWithAll<uint16_t>(tensor, 0x7c00);
    case DType::kBF16:
      return HasNoneWithAll<uint16_t>(tensor, 0x7f80);
    case DType::kF8E4M3:
      return HasNoneWithAll<uint8_t>(tensor, 0x7f);  // NaN alone: it has no infinities
    case DType::kF8E5M2:
      return HasNoneWithAll<uint8_t>(tensor, 0x7c);
    case DType::kI64:
    case DType::kU8:
      return true;
  }
  return true;
}

StoredTensor InFloats(StoredTensor tensor) {
  if (!AreDoubles(tensor)) return tensor;
  const device::Buffer floats = device::Buffer::Allocate(DType::kF32, tensor.data.shape());
  const auto* from = static_cast<const char*>(tensor.data.data());
  auto* to = static_cast<float*>(floats.data());
  for (int64_t i = 0; i < floats.elements(); ++i) {
    double value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(value)), sizeof(value));
    to[i] = static_cast<float>(value);
  }
  weights::ReleasePages(tensor);
  return {.data = floats,
          .file = std::move(tensor.file),
          .digest = std::make_shared<const weights::ContentDigest>(floats),
          .origin = std::move(tensor.origin)};
}

}  // namespace latentd::adapters
