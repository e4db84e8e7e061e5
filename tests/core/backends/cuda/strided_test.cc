#include "core/backends/cuda/kernels/movement/strided.h"

#include <algorithm>
#include <cmath>

#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda::kernels {
namespace {

using StridedTest = GpuTest;
using Numbers = std::vector<int64_t>;

// The place of each element of the views, in the order of their dimensions.
std::vector<int64_t> PlacesOf(const Numbers& sizes, const Numbers& strides) {
  std::vector<int64_t> places = {0};
  for (size_t d = 0; d < sizes.size(); ++d) {
    std::vector<int64_t> next;
    for (int64_t place : places) {
      for (int64_t i = 0; i < sizes[d]; ++i) next.push_back(place + i * strides[d]);
    }
    places = next;
  }
  return places;
}

int64_t SpanOf(const Numbers& sizes, const Numbers& strides) {
  return PlacesOf(sizes, strides).back() + 1;
}

struct BinaryCase {
  Numbers sizes, result, a, b;
  int64_t offset = 0;
};

const BinaryCase kBinaryCases[] = {
    {{}, {}, {}, {}},
    {{1}, {1}, {1}, {1}},
    {{1003}, {1}, {1}, {1}},
    {{1024}, {1}, {1}, {1}, 1},
    {{2, 3, 64}, {192, 64, 1}, {192, 64, 1}, {0, 0, 1}},              // + a vector of channels
    {{2, 5, 64}, {320, 64, 1}, {320, 64, 1}, {64, 0, 1}},             // + a vector of each row
    {{2, 5, 64}, {320, 64, 1}, {320, 64, 1}, {1, 0, 0}},              // * a number of each row
    {{2, 5, 64}, {320, 64, 1}, {0, 0, 0}, {320, 64, 1}},              // a number with all
    {{2, 4, 6, 8}, {192, 48, 8, 1}, {192, 1, 32, 4}, {48, 0, 8, 1}},  // permuted
    {{4, 40}, {80, 1}, {96, 1}, {40, 1}},                             // into a slice, from a slice
    {{3, 5}, {1, 3}, {5, 1}, {1, 3}},                                 // a transposed result
    {{2, 1, 3, 2, 1, 2, 2, 2},
     {48, 48, 16, 8, 8, 4, 2, 1},
     {0, 7, 16, 8, 1, 4, 2, 1},
     {24, 0, 0, 12, 0, 6, 0, 3}},  // eight dimensions
};

double Apply(BinaryFunction function, double a, double b) {
  switch (function) {
    case BinaryFunction::kAdd:
      return a + b;
    case BinaryFunction::kSub:
      return a - b;
    case BinaryFunction::kMul:
      return a * b;
    case BinaryFunction::kDiv:
      return a / b;
  }
  return NAN;
}

BinaryArgs ArgsOf(const BinaryCase& test, BinaryFunction function, Element element) {
  BinaryArgs args = {function, element, static_cast<int>(test.sizes.size())};
  std::copy(test.sizes.begin(), test.sizes.end(), args.sizes);
  std::copy(test.result.begin(), test.result.end(), args.result_strides);
  std::copy(test.a.begin(), test.a.end(), args.a_strides);
  std::copy(test.b.begin(), test.b.end(), args.b_strides);
  return args;
}

// Checks all elements of the result's memory, those between a view's too, which stay NaN.
void CheckBinary(const BinaryCase& test, BinaryFunction function, Element element) {
  const Values a = Rounded(element, Normal(SpanOf(test.sizes, test.a), 1));
  const Values b = Rounded(element, Normal(SpanOf(test.sizes, test.b), 2, 1, 3));
  const GpuArray left(element, a, test.offset), right(element, b, test.offset);
  Values exact(SpanOf(test.sizes, test.result), NAN);
  const GpuArray result = GpuArray::Poisoned(element, exact.size(), test.offset);
  const auto places = PlacesOf(test.sizes, test.result), of_a = PlacesOf(test.sizes, test.a),
             of_b = PlacesOf(test.sizes, test.b);
  for (size_t i = 0; i < places.size(); ++i) {
    exact[places[i]] = Apply(function, a[of_a[i]], b[of_b[i]]);
  }
  BinaryArgs args = ArgsOf(test, function, element);
  args.a = left.data();
  args.b = right.data();
  args.result = result.data();
  ASSERT_EQ(Binary(args, nullptr), cudaSuccess);
  // f32 rounds before the other types do, which moves a tie.
  ExpectClose(result.Read(), exact, element, 0.5001);
}

TEST_F(StridedTest, BinaryBroadcastsAndFollowsStrides) {
  for (size_t i = 0; i < std::size(kBinaryCases); ++i) {
    for (Element element : kFloats) {
      for (auto function : {BinaryFunction::kAdd, BinaryFunction::kSub, BinaryFunction::kMul,
                            BinaryFunction::kDiv}) {
        SCOPED_TRACE(::testing::Message() << i << " " << int(element) << " " << int(function));
        CheckBinary(kBinaryCases[i], function, element);
      }
    }
  }
}

TEST_F(StridedTest, BinaryWritesOverAnOperand) {
  const Values a = Normal(1001, 1), b = Normal(1001, 2);
  const GpuArray left(Element::kF32, a), right(Element::kF32, b);
  BinaryArgs args = {BinaryFunction::kSub,
                     Element::kF32,
                     1,
                     {1001},
                     left.data(),
                     {1},
                     right.data(),
                     {1},
                     right.data(),
                     {1}};
  ASSERT_EQ(Binary(args, nullptr), cudaSuccess);
  Values exact = Rounded(Element::kF32, a);
  const Values subtrahend = Rounded(Element::kF32, b);
  for (size_t i = 0; i < exact.size(); ++i) exact[i] -= subtrahend[i];
  ExpectClose(right.Read(), exact, Element::kF32, 0.5);
}

struct CopyCase {
  Numbers sizes, result, x;
  int64_t offset = 0;
};

const CopyCase kCopyCases[] = {
    {{}, {}, {}},
    {{1003}, {1}, {1}},
    {{1024}, {1}, {1}, 1},
    {{2, 16, 64}, {4096, 128, 1}, {1024, 64, 1}},           // a part of a concatenation
    {{2, 16, 6}, {160, 10, 1}, {96, 6, 1}},                 // an odd width
    {{2, 16, 4, 12}, {768, 12, 192, 1}, {768, 48, 12, 1}},  // heads
    {{2, 5, 7, 3}, {105, 21, 3, 1}, {105, 7, 1, 35}},       // NCHW to NHWC
    {{2, 3, 5, 7}, {105, 35, 7, 1}, {105, 1, 21, 3}},       // and back
    {{300, 301}, {301, 1}, {1, 300}},
    {{3, 4}, {4, 1}, {0, 1}},
};

TEST_F(StridedTest, CopiesBetweenViews) {
  for (size_t i = 0; i < std::size(kCopyCases); ++i) {
    for (Element element :
         {Element::kF32, Element::kF16, Element::kBF16, Element::kI64, Element::kU8}) {
      SCOPED_TRACE(::testing::Message() << i << " " << int(element));
      const CopyCase& test = kCopyCases[i];
      Values x(SpanOf(test.sizes, test.x));
      for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<double>(k % 251);
      const GpuArray from(element, Rounded(element, x), test.offset);
      const GpuArray to(element, Values(SpanOf(test.sizes, test.result), 252), test.offset);
      CopyArgs args = {element, static_cast<int>(test.sizes.size())};
      std::copy(test.sizes.begin(), test.sizes.end(), args.sizes);
      std::copy(test.x.begin(), test.x.end(), args.x_strides);
      std::copy(test.result.begin(), test.result.end(), args.result_strides);
      args.x = from.data();
      args.result = to.data();
      ASSERT_EQ(Copy(args, nullptr), cudaSuccess);
      Values exact(SpanOf(test.sizes, test.result), 252);
      const auto places = PlacesOf(test.sizes, test.result), of_x = PlacesOf(test.sizes, test.x);
      for (size_t k = 0; k < places.size(); ++k) exact[places[k]] = x[of_x[k]];
      EXPECT_EQ(to.Read(), exact);
    }
  }
}

}  // namespace
}  // namespace latentd::backends::cuda::kernels
