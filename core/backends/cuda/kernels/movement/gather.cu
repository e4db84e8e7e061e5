#include <algorithm>

#include "core/backends/cuda/kernels/common/divisor.cuh"
#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/common/words.cuh"
#include "core/backends/cuda/kernels/movement/gather.h"

namespace latentd::backends::cuda::kernels {
namespace {

// Divisors for an item of the result; sizes with the channels counted in words.
template <typename Division>
struct UpsampleDivisors {
  Division channels, result_width, result_height;
};

template <typename Word, typename Number, typename Division>
__global__ void UpsampleKernel(UpsampleArgs sizes, UpsampleDivisors<Division> by, Number items,
                               const Word* x, Word* result) {
  const Number item = static_cast<Number>(blockIdx.x) * kThreads + threadIdx.x;
  if (item >= items) return;
  Number channel, column, row, rest;
  const Number plane = by.result_height.Divide(
      by.result_width.Divide(by.channels.Divide(item, channel), column), row);
  const Number height = sizes.height, width = sizes.width;
  const Number from_row = by.result_height.Divide(row * height, rest);
  const Number from_column = by.result_width.Divide(column * width, rest);
  const int64_t from = (static_cast<int64_t>(plane) * height + from_row) * width + from_column;
  result[item] = x[from * sizes.channels + channel];
}

// Line i of the result is line ids[i] of the table that begins table_stride words after that of
// line i - 1.
template <typename Word>
__global__ void GatherKernel(const Word* table, int64_t table_stride, int64_t entries,
                             const int64_t* ids, int64_t size, int64_t words, Word* result) {
  const int64_t item = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t line = item / words, word = item % words;
  if (line >= size) return;
  int64_t id = ids[line];
  id = id < 0 ? 0 : id >= entries ? entries - 1 : id;
  result[item] = table[line * table_stride + id * words + word];
}

template <typename Word, typename Number, typename Division>
cudaError_t LaunchUpsample(const UpsampleArgs& words, int64_t items, cudaStream_t stream) {
  const UpsampleDivisors<Division> by = {Division(words.channels), Division(words.result_width),
                                         Division(words.result_height)};
  return Launch(UpsampleKernel<Word, Number, Division>, GridOf(items), stream, words, by,
                static_cast<Number>(items), static_cast<const Word*>(words.x),
                static_cast<Word*>(words.result));
}

}  // namespace

cudaError_t Upsample(const UpsampleArgs& args, cudaStream_t stream) {
  const int64_t line = args.channels * BytesOf(args.element);
  const int64_t bytes = WordBytes(line, args.x, args.result);
  UpsampleArgs words = args;
  words.channels = line / bytes;
  const int64_t items = args.planes * args.result_height * args.result_width * words.channels;
  // The products before the divisions have to fit too.
  const bool narrow = std::max({items, args.result_height * args.height,
                                args.result_width * args.width}) < kDivisible;
  return ForWord(bytes, [&]<typename Word>() {
    return narrow ? LaunchUpsample<Word, uint32_t, Divisor>(words, items, stream)
                  : LaunchUpsample<Word, uint64_t, WideDivisor>(words, items, stream);
  });
}

cudaError_t Embedding(const EmbeddingArgs& args, cudaStream_t stream) {
  const int64_t line = args.channels * BytesOf(args.element);
  const int64_t bytes = WordBytes(line, args.table, args.result);
  return ForWord(bytes, [&]<typename Word>() {
    const int64_t words = line / bytes;
    return Launch(GatherKernel<Word>, GridOf(args.size * words), stream,
                  static_cast<const Word*>(args.table), int64_t{0}, args.entries, args.ids,
                  args.size, words, static_cast<Word*>(args.result));
  });
}

cudaError_t Select(const SelectArgs& args, cudaStream_t stream) {
  return Launch(GatherKernel<float>, GridOf(args.rows * args.channels), stream, args.table,
                args.entries * args.channels, args.entries, args.index, args.rows, args.channels,
                args.result);
}

}  // namespace latentd::backends::cuda::kernels
