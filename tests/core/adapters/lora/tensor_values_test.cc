// Values of a file's tensors that are not finite, of each dtype and at each place.
#include "core/adapters/lora/tensor_values.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "core/device/dtype.h"

namespace latentd::adapters {
namespace {

using device::ConstBuffer;
using device::DType;

struct FloatFormat {
  std::string name;
  DType dtype;
  int bytes, exponent_bits, mantissa_bits;
  bool has_infinities = true;
  bool is_double = false;
};

const FloatFormat kFloatFormats[] = {{"f8_e4m3", DType::kF8E4M3, 1, 4, 3, /*has_infinities=*/false},
                                     {"f8_e5m2", DType::kF8E5M2, 1, 5, 2},
                                     {"f16", DType::kF16, 2, 5, 10},
                                     {"bf16", DType::kBF16, 2, 8, 7},
                                     {"f32", DType::kF32, 4, 8, 23},
                                     {"f64", DType::kI64, 8, 11, 52, true, /*is_double=*/true}};

bool IsFiniteOf(const FloatFormat& format, const std::string& bytes) {
  weights::StoredTensor tensor;
  const auto elements = static_cast<int64_t>(bytes.size()) / format.bytes;
  tensor.data = ConstBuffer::Wrap(bytes.data(), format.dtype, {elements}, nullptr);
  if (format.is_double) tensor.unusable_dtype = std::string(weights::kDoubles);
  return IsFinite(tensor);
}

uint64_t Exponent(const FloatFormat& format) {
  return ((uint64_t{1} << format.exponent_bits) - 1) << format.mantissa_bits;
}

bool IsFiniteBits(const FloatFormat& format, uint64_t bits) {
  const uint64_t mantissa = (uint64_t{1} << format.mantissa_bits) - 1;
  if ((bits & Exponent(format)) != Exponent(format)) return true;
  return !format.has_infinities && (bits & mantissa) != mantissa;
}

// One of the elements with these bits, and the others.
std::string With(const FloatFormat& format, int elements, int at, uint64_t bits, uint64_t others) {
  std::string bytes(static_cast<size_t>(elements * format.bytes), '\0');
  for (int i = 0; i < elements; ++i) {
    std::memcpy(bytes.data() + i * format.bytes, i == at ? &bits : &others,
                static_cast<size_t>(format.bytes));
  }
  return bytes;
}

TEST(TensorValuesTest, FindsWhatIsNotFiniteAtEachPlace) {
  for (const FloatFormat& format : kFloatFormats) {
    const uint64_t sign = uint64_t{1} << (8 * format.bytes - 1);
    const uint64_t largest = sign | (Exponent(format) - 1);  // finite, all bits but one
    const uint64_t nan = Exponent(format) | ((uint64_t{1} << format.mantissa_bits) - 1);
    for (int elements = 1; elements < 20; ++elements) {
      EXPECT_TRUE(IsFiniteOf(format, With(format, elements, -1, 0, largest))) << format.name;
      for (int at = 0; at < elements; ++at) {
        for (const uint64_t bits : {nan, nan | sign}) {
          EXPECT_FALSE(IsFiniteOf(format, With(format, elements, at, bits, largest)))
              << format.name << " " << at << " of " << elements;
          EXPECT_FALSE(IsFiniteOf(format, With(format, elements, at, bits, 0))) << format.name;
        }
      }
    }
  }
}

TEST(TensorValuesTest, TellsEachValueOfSmallFloats) {
  for (const FloatFormat& format : kFloatFormats) {
    if (format.bytes > 2) continue;
    for (uint64_t bits = 0; bits < uint64_t{1} << (8 * format.bytes); ++bits) {
      for (const int elements : {1, 9}) {
        ASSERT_EQ(IsFiniteOf(format, With(format, elements, elements / 2, bits, 1)),
                  IsFiniteBits(format, bits))
            << format.name << " " << bits;
      }
    }
  }
}

TEST(TensorValuesTest, TellsExponentsOfLargeFloats) {
  for (const FloatFormat& format : kFloatFormats) {
    if (format.bytes < 4) continue;
    for (uint64_t exponent = 0; exponent < uint64_t{1} << format.exponent_bits; ++exponent) {
      for (const uint64_t mantissa :
           {uint64_t{0}, uint64_t{1}, (uint64_t{1} << format.mantissa_bits) - 1}) {
        const uint64_t bits = exponent << format.mantissa_bits | mantissa;
        ASSERT_EQ(IsFiniteOf(format, With(format, 5, 2, bits, 0)), IsFiniteBits(format, bits))
            << format.name << " " << bits;
      }
    }
  }
}

}  // namespace
}  // namespace latentd::adapters
