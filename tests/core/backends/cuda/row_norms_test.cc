#include "core/backends/cuda/kernels/norms/row_norms.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda::kernels {
namespace {

using RowNormsTest = GpuTest;

struct RowsCase {
  int64_t rows, size;
  int64_t offset = 0;
};

// Rows for a warp, for a block, for several blocks, and odd ones.
const RowsCase kCases[] = {{1, 1},        {3, 2},      {5, 77},       {9, 256},     {9, 640},
                           {9, 640, 1},   {5, 768},    {1000, 1280},  {5, 1280, 1}, {3, 2048},
                           {3, 2049},     {2, 16384},  {2, 16384, 1}, {9, 16385},   {2, 65536},
                           {2, 65536, 1}, {1, 100003}, {2, 262144},   {1, 262145}};

double MeanOf(const double* x, int64_t size) {
  return std::accumulate(x, x + size, 0.0) / static_cast<double>(size);
}

double SquaresOf(const double* x, int64_t size) {
  const double mean = MeanOf(x, size);
  return std::accumulate(x, x + size, 0.0,
                         [=](double sum, double v) { return sum + (v - mean) * (v - mean); });
}

Values LayerNormOf(const Values& x, const Values& gamma, const Values& beta, int64_t size) {
  Values result(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double* row = &x[i / size * size];
    if (i % size == 0) {
      const double mean = MeanOf(row, size), variance = SquaresOf(row, size) / double(size);
      for (int64_t k = 0; k < size; ++k) {
        result[i + k] = (row[k] - mean) / std::sqrt(variance + 1e-5f) * gamma[k] + beta[k];
      }
    }
  }
  return result;
}

double UlpsOf(Element element, double f32) { return element == Element::kF32 ? f32 : 0.51; }

TEST_F(RowNormsTest, LayerNormIsExactToRounding) {
  for (const auto& [rows, size, offset] : kCases) {
    for (Element element : kFloats) {
      SCOPED_TRACE(::testing::Message() << rows << "x" << size << " " << int(element));
      const Values x = Rounded(element, Normal(rows * size, 1, 2, 1));
      const Values gamma = Rounded(element, Normal(size, 2)),
                   beta = Rounded(element, Normal(size, 3));
      const GpuArray from(element, x, offset), factor(element, gamma), addend(element, beta);
      const GpuArray to = GpuArray::Poisoned(element, rows * size, offset);
      LayerNormArgs args = {element,   from.data(), factor.data(), addend.data(),
                            to.data(), rows,        size};
      ASSERT_EQ(LayerNorm(args, nullptr), cudaSuccess);
      // The last sum may cancel: what it adds up to is rounded before.
      ExpectClose(to.Read(), LayerNormOf(x, gamma, beta, size), element, UlpsOf(element, 2), 2e-6);
      args.result = from.data();
      ASSERT_EQ(LayerNorm(args, nullptr), cudaSuccess);
      EXPECT_EQ(from.Bytes(), to.Bytes());
    }
  }
}

TEST_F(RowNormsTest, LayerNormSeesDeviationsBesideALargeMean) {
  for (int64_t size : {1280, 16384}) {
    const Values x = Rounded(Element::kF32, Normal(4 * size, 1, 1, 10000));
    const Values ones(size, 1), zeros(size, 0);
    const GpuArray from(Element::kF32, x), factor(Element::kF32, ones),
        addend(Element::kF32, zeros);
    const GpuArray to = GpuArray::Poisoned(Element::kF32, 4 * size);
    ASSERT_EQ(
        LayerNorm({Element::kF32, from.data(), factor.data(), addend.data(), to.data(), 4, size},
                  nullptr),
        cudaSuccess);
    ExpectClose(to.Read(), LayerNormOf(x, ones, zeros, size), Element::kF32, 4, 1e-6);
  }
}

// The bytes of each row alone and unaligned are those it has among others.
TEST_F(RowNormsTest, ARowDependsOnNothingBesideIt) {
  for (int64_t size : {640, 16384}) {
    for (Element element : kFloats) {
      const Values x = Normal(5 * size, 1), ones(size, 1);
      const GpuArray all(element, x), gamma(element, ones),
          to = GpuArray::Poisoned(element, 5 * size);
      const GpuArray row(element, Values(x.begin() + 3 * size, x.begin() + 4 * size), 1);
      const GpuArray alone = GpuArray::Poisoned(element, size, 1);
      for (bool softmax : {false, true}) {
        const auto run = [&](const GpuArray& in, const GpuArray& out, int64_t rows) {
          return softmax ? Softmax({element, in.data(), out.data(), rows, size}, nullptr)
                         : LayerNorm({element, in.data(), gamma.data(), gamma.data(), out.data(),
                                      rows, size},
                                     nullptr);
        };
        ASSERT_EQ(run(all, to, 5), cudaSuccess);
        ASSERT_EQ(run(row, alone, 1), cudaSuccess);
        const Values together = to.Read();
        EXPECT_EQ(alone.Read(), Values(together.begin() + 3 * size, together.begin() + 4 * size));
      }
    }
  }
}

TEST_F(RowNormsTest, SoftmaxIsExactToRounding) {
  for (const auto& [rows, size, offset] : kCases) {
    for (Element element : kFloats) {
      SCOPED_TRACE(::testing::Message() << rows << "x" << size << " " << int(element));
      const Values x = Rounded(element, Normal(rows * size, 4, 4, 50));
      Values exact = x;
      for (int64_t row = 0; row < rows; ++row) {
        double* values = &exact[row * size];
        const double largest = *std::max_element(values, values + size);
        std::transform(values, values + size, values,
                       [=](double v) { return std::exp(v - largest); });
        const double sum = std::accumulate(values, values + size, 0.0);
        std::transform(values, values + size, values, [=](double v) { return v / sum; });
      }
      const GpuArray from(element, x, offset);
      const GpuArray to = GpuArray::Poisoned(element, rows * size, offset);
      ASSERT_EQ(Softmax({element, from.data(), to.data(), rows, size}, nullptr), cudaSuccess);
      // The difference to the largest is rounded before its exponential.
      ExpectClose(to.Read(), exact, element, UlpsOf(element, 24));
      ASSERT_EQ(Softmax({element, from.data(), from.data(), rows, size}, nullptr), cudaSuccess);
      EXPECT_EQ(from.Bytes(), to.Bytes());
    }
  }
}

TEST_F(RowNormsTest, SoftmaxTakesInfinities) {
  const Values x = {-INFINITY, 0, 0, NAN, 1, 2, -INFINITY, -INFINITY, -INFINITY};
  const GpuArray from(Element::kF32, x), to = GpuArray::Poisoned(Element::kF32, 9);
  ASSERT_EQ(Softmax({Element::kF32, from.data(), to.data(), 3, 3}, nullptr), cudaSuccess);
  ExpectClose(to.Read(), {0, 0.5, 0.5, NAN, NAN, NAN, NAN, NAN, NAN}, Element::kF32, 0);
}

// RowStd of rows that begin `offset` elements behind an aligned address.
Values RowStdOf(Element element, const Values& x, int64_t rows, int64_t offset) {
  const int64_t size = static_cast<int64_t>(x.size()) / rows;
  const GpuArray from(element, x, offset), to = GpuArray::Poisoned(element, rows);
  const size_t bytes = std::max<size_t>(RowStdWorkspaceBytes(rows, size), 1);
  const GpuArray workspace = GpuArray::Poisoned(Element::kU8, static_cast<int64_t>(bytes));
  EXPECT_EQ(RowStd({element, from.data(), to.data(), rows, size, workspace.data()}, nullptr),
            cudaSuccess);
  return to.Read();
}

Values ExactRowStd(const Values& x, int64_t rows) {
  const int64_t size = static_cast<int64_t>(x.size()) / rows;
  Values exact(rows);
  for (int64_t row = 0; row < rows; ++row) {
    exact[row] = std::sqrt(SquaresOf(&x[row * size], size) / double(size - 1));
  }
  return exact;
}

TEST_F(RowNormsTest, RowStdDividesByOneLess) {
  for (const auto& [rows, size, offset] : kCases) {
    if (size == 1) continue;
    for (Element element : kFloats) {
      SCOPED_TRACE(::testing::Message() << rows << "x" << size << " " << int(element));
      const Values x =
          Rounded(element, Normal(rows * size, 5, 1, element == Element::kF32 ? 1000 : 2));
      ExpectClose(RowStdOf(element, x, rows, offset), ExactRowStd(x, rows), element,
                  UlpsOf(element, 4));
    }
  }
}

TEST_F(RowNormsTest, RowStdSeesDeviationsBesideALargeMean) {
  for (int64_t size : {16384, 65536, 100003, 262144}) {
    const Values x = Rounded(Element::kF32, Normal(2 * size, 5, 1, 10000));
    ExpectClose(RowStdOf(Element::kF32, x, 2, 0), ExactRowStd(x, 2), Element::kF32, 4);
  }
}

TEST_F(RowNormsTest, RowStdOfEqualElementsIsNothing) {
  for (int64_t size : {77, 6161, 14414, 16385, 100003}) {
    for (const double value : {0.0, 0.1, -3.7, 1000.3}) {
      for (const double result : RowStdOf(Element::kF32, Values(2 * size, value), 2, 0)) {
        EXPECT_TRUE(result >= 0 && result <= 1e-6 * std::abs(value)) << size << " of " << value;
      }
    }
  }
}

TEST_F(RowNormsTest, RowStdOfARowDependsOnNothingBesideIt) {
  for (int64_t size : {640, 16384, 65536, 100003}) {
    for (Element element : kFloats) {
      const Values x = Normal(5 * size, 1);
      const Values row(x.begin() + 3 * size, x.begin() + 4 * size);
      const Values together = RowStdOf(element, x, 5, 0);
      EXPECT_EQ(RowStdOf(element, row, 1, 1), Values{together[3]}) << size;
      EXPECT_EQ(RowStdOf(element, x, 5, 0), together) << size;
    }
  }
}

TEST_F(RowNormsTest, RowStdOfALongRowWithWhatIsNotFiniteIsNan) {
  for (const double bad : {NAN, INFINITY, -INFINITY}) {
    for (int64_t at : {0, 40000, 65535}) {
      Values x = Normal(2 * 65536, 1);
      x[at] = bad;
      const Values result = RowStdOf(Element::kF32, x, 2, 0);
      EXPECT_TRUE(std::isnan(result[0]) && std::isfinite(result[1])) << bad << " " << at;
    }
  }
}

TEST_F(RowNormsTest, FiniteIsSaidOfEachRow) {
  for (const auto& [rows, size, offset] : kCases) {
    for (Element element : kFloats) {
      Values x = Normal(rows * size, 6), exact(rows, 1);
      const double bad[] = {NAN, INFINITY, -INFINITY};
      for (int64_t row = 0; row < rows; row += 2) {
        x[row * size + (row == 0 ? size - 1 : row % size)] = bad[row / 2 % 3];
        exact[row] = 0;
      }
      const GpuArray from(element, x, offset), to = GpuArray::Poisoned(Element::kU8, rows);
      ASSERT_EQ(IsFinite({element, from.data(), to.as<uint8_t>(), rows, size}, nullptr),
                cudaSuccess);
      EXPECT_EQ(to.Read(), exact);
    }
  }
}

}  // namespace
}  // namespace latentd::backends::cuda::kernels
