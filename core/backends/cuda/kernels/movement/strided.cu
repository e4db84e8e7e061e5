#include <algorithm>
#include <type_traits>

#include "core/backends/cuda/kernels/common/index.cuh"
#include "core/backends/cuda/kernels/common/numbers.cuh"
#include "core/backends/cuda/kernels/common/words.cuh"
#include "core/backends/cuda/kernels/movement/strided.h"

namespace latentd::backends::cuda::kernels {
namespace {

using BinaryNest = LoopNest<3>;
using CopyNest = LoopNest<2>;

__device__ inline float Evaluate(BinaryFunction function, float a, float b) {
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
  return a;
}

// A pack of an operand that is dense in the innermost dimension, or one element for all of it.
template <bool kAligned, typename T, int kSize>
__device__ inline void LoadOrSpread(const T* from, int64_t stride, int64_t count,
                                    Pack<T, kSize>& pack) {
  if (stride != 0) return LoadSome<kAligned>(from, count, pack);
  const T value = *from;
#pragma unroll
  for (int i = 0; i < kSize; ++i) pack.at[i] = value;
}

// kSize above 1: the innermost stride of the result is 1 and those of the operands are 1 or 0.
template <typename T, int kSize, typename Index>
__global__ void BinaryKernel(BinaryFunction function, Index index, int64_t items, const T* a,
                             const T* b, T* result) {
  const int64_t item = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (item >= items) return;
  int64_t offsets[3];
  const int64_t count = index.Locate(item, offsets);
  Pack<T, kSize> left, right;
  LoadOrSpread<true>(a + offsets[1], index.inner_strides[1], count, left);
  LoadOrSpread<true>(b + offsets[2], index.inner_strides[2], count, right);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    left.at[i] = FromFloat<T>(Evaluate(function, ToFloat(left.at[i]), ToFloat(right.at[i])));
  }
  StoreSome<true>(left, count, result + offsets[0]);
}

// True if all packs of `pack` elements of that tensor are aligned.
template <int kTensors>
bool HasPacks(const LoopNest<kTensors>& nest, int tensor, const void* data, int pack,
              int64_t element_bytes) {
  const int last = nest.rank - 1;
  if (nest.strides[tensor][last] != 1 || !Aligned(pack * element_bytes, data)) return false;
  for (int i = 0; i < last; ++i) {
    if (nest.strides[tensor][i] % pack != 0) return false;
  }
  return last == 0 || nest.sizes[last] % pack == 0;
}

bool HasPacks(const BinaryNest& nest, const BinaryArgs& args, int pack, int64_t element_bytes) {
  const int last = nest.rank - 1;
  const auto operand = [&](int tensor, const void* data) {
    return nest.strides[tensor][last] == 0 || HasPacks(nest, tensor, data, pack, element_bytes);
  };
  return HasPacks(nest, 0, args.result, pack, element_bytes) && operand(1, args.a) &&
         operand(2, args.b);
}

template <typename T, int kSize>
cudaError_t LaunchBinary(const BinaryArgs& args, const BinaryNest& nest, cudaStream_t stream) {
  return ForIndex(nest, kSize, [&](const auto& index) {
    const int64_t items = PacksOf(nest, kSize);
    return Launch(BinaryKernel<T, kSize, std::decay_t<decltype(index)>>, GridOf(items), stream,
                  args.function, index, items, static_cast<const T*>(args.a),
                  static_cast<const T*>(args.b), static_cast<T*>(args.result));
  });
}

template <typename Word, typename Index>
__global__ void CopyKernel(Index index, int64_t items, const Word* x, Word* result) {
  const int64_t item = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (item >= items) return;
  int64_t offsets[2];
  index.Locate(item, offsets);
  result[offsets[0]] = x[offsets[1]];
}

template <typename Word>
cudaError_t LaunchCopy(const CopyArgs& args, const CopyNest& nest, cudaStream_t stream) {
  return ForIndex(nest, 1, [&](const auto& index) {
    const int64_t items = PacksOf(nest, 1);
    return Launch(CopyKernel<Word, std::decay_t<decltype(index)>>, GridOf(items), stream, index,
                  items, static_cast<const Word*>(args.x), static_cast<Word*>(args.result));
  });
}

// The same copy by words of so many elements.
CopyNest InWords(CopyNest nest, int elements) {
  nest.sizes[nest.rank - 1] /= elements;
  for (auto& strides : nest.strides) {
    for (int i = 0; i < nest.rank - 1; ++i) strides[i] /= elements;
  }
  return nest;
}

// The widest words that the copy can be made in.
int ElementsOfWord(const CopyNest& nest, const CopyArgs& args, int64_t bytes) {
  for (int elements = 16 / bytes; elements > 1; elements /= 2) {
    if (nest.sizes[nest.rank - 1] % elements == 0 &&
        HasPacks(nest, 0, args.result, elements, bytes) &&
        HasPacks(nest, 1, args.x, elements, bytes)) {
      return elements;
    }
  }
  return 1;
}

template <int kTensors>
void SetTensor(LoopNest<kTensors>& nest, int tensor, const int64_t (&strides)[kMaxRank]) {
  std::copy_n(strides, nest.rank, nest.strides[tensor]);
}

}  // namespace

cudaError_t Binary(const BinaryArgs& args, cudaStream_t stream) {
  BinaryNest nest{.rank = args.rank};
  std::copy_n(args.sizes, args.rank, nest.sizes);
  SetTensor(nest, 0, args.result_strides);
  SetTensor(nest, 1, args.a_strides);
  SetTensor(nest, 2, args.b_strides);
  nest = Simplified(nest);
  return ForFloat(args.element, [&]<typename T>() {
    constexpr int kSize = kPackSize<T>;
    return HasPacks(nest, args, kSize, sizeof(T)) ? LaunchBinary<T, kSize>(args, nest, stream)
                                                  : LaunchBinary<T, 1>(args, nest, stream);
  });
}

cudaError_t Copy(const CopyArgs& args, cudaStream_t stream) {
  CopyNest nest{.rank = args.rank};
  std::copy_n(args.sizes, args.rank, nest.sizes);
  SetTensor(nest, 0, args.result_strides);
  SetTensor(nest, 1, args.x_strides);
  nest = Simplified(nest);
  const int64_t bytes = BytesOf(args.element);
  const int elements = ElementsOfWord(nest, args, bytes);
  const CopyNest words = InWords(nest, elements);
  return ForWord(bytes * elements,
                 [&]<typename Word>() { return LaunchCopy<Word>(args, words, stream); });
}

}  // namespace latentd::backends::cuda::kernels
