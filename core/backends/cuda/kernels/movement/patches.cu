#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/common/words.cuh"
#include "core/backends/cuda/kernels/movement/patches.h"

namespace latentd::backends::cuda::kernels {
namespace {

// A word of the result for each thread; channels are counted in words.
template <typename Word>
__global__ void PatchesKernel(PatchesArgs a, int64_t items, const Word* x, Word* result) {
  const int64_t item = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (item >= items) return;
  int64_t rest = item;
  const int64_t channel = rest % a.channels;
  rest /= a.channels;
  const int64_t kernel_column = rest % a.kernel_width;
  rest /= a.kernel_width;
  const int64_t kernel_row = rest % a.kernel_height;
  rest = rest / a.kernel_height + a.first;
  const int64_t column = rest % a.result_width * a.stride + kernel_column - a.left;
  rest /= a.result_width;
  const int64_t line = rest % a.result_height * a.stride + kernel_row - a.top;
  const int64_t row = rest / a.result_height;
  const bool inside = line >= 0 && line < a.height && column >= 0 && column < a.width;
  const int64_t from = ((row * a.height + line) * a.width + column) * a.channels + channel;
  result[item] = inside ? x[from] : Word{};
}

}  // namespace

cudaError_t Patches(const PatchesArgs& args, cudaStream_t stream) {
  const int64_t line = args.channels * BytesOf(args.element);
  const int64_t bytes = WordBytes(line, args.x, args.result);
  PatchesArgs words = args;
  words.channels = line / bytes;
  const int64_t items = args.size * args.kernel_height * args.kernel_width * words.channels;
  return ForWord(bytes, [&]<typename Word>() {
    return Launch(PatchesKernel<Word>, GridOf(items), stream, words, items,
                  static_cast<const Word*>(args.x), static_cast<Word*>(args.result));
  });
}

}  // namespace latentd::backends::cuda::kernels
