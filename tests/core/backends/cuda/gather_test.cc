#include "core/backends/cuda/kernels/movement/gather.h"

#include "tests/core/backends/cuda/gpu_array.h"

namespace latentd::backends::cuda::kernels {
namespace {

using GatherTest = GpuTest;

Values Counted(int64_t size) {
  Values values(size);
  for (int64_t i = 0; i < size; ++i) values[i] = static_cast<double>(i % 251);
  return values;
}

TEST_F(GatherTest, UpsamplesByTheNearestBelow) {
  const UpsampleArgs cases[] = {
      {.planes = 2,
       .channels = 64,
       .height = 3,
       .width = 5,
       .result_height = 6,
       .result_width = 10},
      {.planes = 6, .channels = 1, .height = 4, .width = 4, .result_height = 7, .result_width = 9},
      {.planes = 1, .channels = 3, .height = 5, .width = 4, .result_height = 3, .result_width = 4},
      {.planes = 1, .channels = 1, .height = 1, .width = 1, .result_height = 1, .result_width = 1},
  };
  for (UpsampleArgs args : cases) {
    for (Element element : kFloats) {
      for (int offset : {0, 1}) {
        const Values x = Counted(args.planes * args.height * args.width * args.channels);
        Values exact;
        for (int64_t p = 0; p < args.planes; ++p) {
          for (int64_t i = 0; i < args.result_height; ++i) {
            for (int64_t j = 0; j < args.result_width; ++j) {
              const int64_t row = i * args.height / args.result_height;
              const int64_t column = j * args.width / args.result_width;
              const auto first =
                  x.begin() + ((p * args.height + row) * args.width + column) * args.channels;
              exact.insert(exact.end(), first, first + args.channels);
            }
          }
        }
        const GpuArray from(element, x, offset);
        const GpuArray to = GpuArray::Poisoned(element, exact.size(), offset);
        args.element = element;
        args.x = from.data();
        args.result = to.data();
        ASSERT_EQ(Upsample(args, nullptr), cudaSuccess);
        EXPECT_EQ(to.Read(), exact);
      }
    }
  }
}

TEST_F(GatherTest, EmbeddingClampsIds) {
  constexpr int64_t kEntries = 5;
  for (int64_t channels : {1, 3, 64, 768}) {
    for (Element element : kFloats) {
      const Values table = Counted(kEntries * channels);
      const GpuArray from(element, table), ids(Element::kI64, {0, 4, 2, -7, 1e12});
      const GpuArray to = GpuArray::Poisoned(element, 5 * channels);
      ASSERT_EQ(
          Embedding({element, from.data(), ids.as<int64_t>(), to.data(), kEntries, channels, 5},
                    nullptr),
          cudaSuccess);
      Values exact;
      for (int64_t id : {0, 4, 2, 0, 4}) {
        exact.insert(exact.end(), table.begin() + id * channels,
                     table.begin() + (id + 1) * channels);
      }
      EXPECT_EQ(to.Read(), exact);
    }
  }
}

TEST_F(GatherTest, SelectTakesEachRowsOwnEntry) {
  constexpr int64_t kRows = 4, kEntries = 3, kChannels = 27;
  const Values table = Counted(kRows * kEntries * kChannels);
  const GpuArray from(Element::kF32, table), index(Element::kI64, {1, 2, -1, 3});
  const GpuArray to = GpuArray::Poisoned(Element::kF32, kRows * kChannels);
  ASSERT_EQ(
      Select({from.as<float>(), index.as<int64_t>(), to.as<float>(), kRows, kEntries, kChannels},
             nullptr),
      cudaSuccess);
  Values exact;
  for (int64_t entry : {1, 3 + 2, 6 + 0, 9 + 2}) {
    exact.insert(exact.end(), table.begin() + entry * kChannels,
                 table.begin() + (entry + 1) * kChannels);
  }
  EXPECT_EQ(to.Read(), exact);
}

}  // namespace
}  // namespace latentd::backends::cuda::kernels
