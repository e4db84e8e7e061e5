#include <cmath>

#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/common/moments.cuh"
#include "core/backends/cuda/kernels/common/numbers.cuh"
#include "core/backends/cuda/kernels/norms/row_norms.h"
#include "core/backends/cuda/kernels/values/activation.cuh"
#include "core/backends/cuda/kernels/values/f8.cuh"

namespace latentd::backends::cuda::kernels {
namespace {

// Threads for a row that no warp holds in its registers.
constexpr int kRowThreads = 512;
// How many elements of a row one block takes the deviation of, and how many a block has of a row
// that is longer. Whole packs, so that parts are as aligned as rows are.
constexpr int64_t kMostOfBlock = 16384, kPart = 4096;

int64_t PartsOf(int64_t size) { return size <= kMostOfBlock ? 1 : CeilDiv(size, kPart); }

// A row as the threads of its team see it: each has every kTeam-th pack.
//
// Held: in registers, kPacks a thread, by a warp. It is read from memory once.
template <typename T, bool kAligned, int kPacks>
class HeldRow {
 public:
  static constexpr int kTeam = kWarp;
  static constexpr bool kWhole = kAligned;  // a row consists of whole packs
  __device__ HeldRow(const T* x, int64_t size) : size_(size) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (Begin(p) < size) Load<kAligned>(x + Begin(p), size - Begin(p), packs_[p]);
    }
  }
  // function(its place in the row, the pack) for each of the thread's.
  template <typename Function>
  __device__ void ForEach(const Function& function) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (Begin(p) < size_) function(Begin(p), packs_[p]);
    }
  }
  template <typename Reduction>
  static __device__ float Reduced(float own, Reduction reduction) {
    return ReducedInWarp(own, reduction);
  }

 private:
  static __device__ int64_t Begin(int p) {
    return (int64_t{p} * kTeam + threadIdx.x % kTeam) * kPackSize<T>;
  }
  int64_t size_;
  Pack<T, kPackSize<T>> packs_[kPacks];
};

// Read: from memory each time, the second time from a cache, by a block.
template <typename T, bool kAligned>
class ReadRow {
 public:
  static constexpr int kTeam = kRowThreads;
  static constexpr bool kWhole = kAligned;
  __device__ ReadRow(const T* x, int64_t size) : x_(x), size_(size) {}
  template <typename Function>
  __device__ void ForEach(const Function& function) {
    const int64_t step = int64_t{kTeam} * kPackSize<T>;
#pragma unroll 2
    for (int64_t begin = threadIdx.x * kPackSize<T>; begin < size_; begin += step) {
      Pack<T, kPackSize<T>> pack;
      Load<kAligned>(x_ + begin, size_ - begin, pack);
      function(begin, pack);
    }
  }
  template <typename Reduction>
  static __device__ float Reduced(float own, Reduction reduction) {
    return ReducedInBlock(own, reduction);
  }

 private:
  const T* x_;
  int64_t size_;
};

// reduction over the row of value(x).
template <typename T, typename Row, typename Reduction, typename Value>
__device__ float Reduce(Row& row, int64_t size, Reduction reduction, const Value& value) {
  float own = Reduction::kNeutral;
  row.ForEach([&](int64_t begin, const Pack<T, kPackSize<T>>& pack) {
#pragma unroll
    for (int i = 0; i < kPackSize<T>; ++i) {
      if (Row::kWhole || begin + i < size) own = reduction(own, value(ToFloat(pack.at[i])));
    }
  });
  return Row::Reduced(own, reduction);
}

// function(mean, what the mean was rounded by, the sum of squared distances from both)
template <typename T, typename Row, typename Function>
__device__ void WithMoments(Row& row, int64_t size, const Function& function) {
  const float share = 1 / static_cast<float>(size);
  // Rounded before it is used, not fused with a difference: `rest` is what that took.
  const float mean = __fmul_rn(Reduce<T>(row, size, Sum{}, [](float x) { return x; }), share);
  float sum = 0;
  const float squares = Reduce<T>(row, size, Sum{}, [&](float x) {
    const float distance = x - mean;
    sum += distance;
    return distance * distance;
  });
  const float rest = Row::Reduced(sum, Sum{}) * share;
  function(mean, rest, squares - static_cast<float>(size) * rest * rest);
}

// Row r of the team's block, which begins where its threads begin.
template <typename Row>
__device__ int64_t RowNumber() {
  return (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / Row::kTeam;
}

template <typename T, bool kAligned, typename Row>
__global__ void LayerNormKernel(const T* x, const T* gamma, const T* beta, T* result, int64_t rows,
                                int64_t size, float epsilon) {
  const int64_t number = RowNumber<Row>();
  if (number >= rows) return;
  Row row(x + number * size, size);
  WithMoments<T>(row, size, [&](float mean, float rest, float squares) {
    const float scale = 1 / sqrtf(squares / static_cast<float>(size) + epsilon);
    row.ForEach([&](int64_t begin, Pack<T, kPackSize<T>>& pack) {
      Pack<T, kPackSize<T>> factor, addend;
      Load<kAligned>(gamma + begin, size - begin, factor);
      Load<kAligned>(beta + begin, size - begin, addend);
      float values[kPackSize<T>];
#pragma unroll
      for (int i = 0; i < kPackSize<T>; ++i) {
        const float normal = (ToFloat(pack.at[i]) - mean - rest) * scale;
        values[i] = fmaf(normal, ToFloat(factor.at[i]), ToFloat(addend.at[i]));
      }
      Narrow(values, pack);
      Store<kAligned>(pack, size - begin, result + number * size + begin);
    });
  });
}

// The same, but that the result is e4m3.
template <typename T, bool kAligned, typename Row>
__global__ void LayerNormF8Kernel(const T* x, const T* gamma, const T* beta, const float* f8_scale,
                                  F8E4M3* result, int64_t rows, int64_t size, float epsilon) {
  const int64_t number = RowNumber<Row>();
  if (number >= rows) return;
  Row row(x + number * size, size);
  const float inverse = 1 / *f8_scale;
  WithMoments<T>(row, size, [&](float mean, float rest, float squares) {
    const float scale = 1 / sqrtf(squares / static_cast<float>(size) + epsilon);
    row.ForEach([&](int64_t begin, Pack<T, kPackSize<T>>& pack) {
      Pack<T, kPackSize<T>> factor, addend;
      Load<kAligned>(gamma + begin, size - begin, factor);
      Load<kAligned>(beta + begin, size - begin, addend);
      float values[kPackSize<T>];
#pragma unroll
      for (int i = 0; i < kPackSize<T>; ++i) {
        const float normal = (ToFloat(pack.at[i]) - mean - rest) * scale;
        values[i] = fmaf(normal, ToFloat(factor.at[i]), ToFloat(addend.at[i]));
      }
      Pack<F8E4M3, kPackSize<T>> codes;
      ToE4M3(values, inverse, codes);
      Store<kAligned>(codes, size - begin, result + number * size + begin);
    });
  });
}

template <typename T, bool kAligned, typename Row>
__global__ void SoftmaxKernel(const T* x, T* result, int64_t rows, int64_t size) {
  const int64_t number = RowNumber<Row>();
  if (number >= rows) return;
  Row row(x + number * size, size);
  const float largest = Reduce<T>(row, size, Maximum{}, [](float value) { return value; });
  const float sum =
      Reduce<T>(row, size, Sum{}, [=](float value) { return Exp<T>(value - largest); });
  const float scale = 1 / sum;
  row.ForEach([&](int64_t begin, Pack<T, kPackSize<T>>& pack) {
#pragma unroll
    for (int i = 0; i < kPackSize<T>; ++i) {
      pack.at[i] = FromFloat<T>(Exp<T>(ToFloat(pack.at[i]) - largest) * scale);
    }
    Store<kAligned>(pack, size - begin, result + number * size + begin);
  });
}

// Squares of equal elements are 0 up to rounding, which can make their sum negative.
template <typename T>
__device__ T StdOf(float squares, int64_t size) {
  return FromFloat<T>(sqrtf((squares < 0 ? 0 : squares) / static_cast<float>(size - 1)));
}

template <typename T, bool kAligned>
__global__ void RowStdKernel(const T* x, T* result, int64_t size) {
  ReadRow<T, kAligned> row(x + blockIdx.x * size, size);
  WithMoments<T>(row, size, [&](float, float, float squares) {
    if (threadIdx.x == 0) result[blockIdx.x] = StdOf<T>(squares, size);
  });
}

// Each block a part of a row: parts[row][part]. Of a mean that is large beside the deviation f32
// has too few digits to say how far parts are apart, so what is written of it is its distance from
// the row's first element.
template <typename T, bool kAligned>
__global__ void RowMoments(const T* x, Moments* parts, int64_t size, int64_t count) {
  const T* const first = x + blockIdx.x / count * size;
  const int64_t begin = blockIdx.x % count * kPart, taken = min(kPart, size - begin);
  ReadRow<T, kAligned> part(first + begin, taken);
  WithMoments<T>(part, taken, [&](float mean, float rest, float squares) {
    if (threadIdx.x != 0) return;
    parts[blockIdx.x] = {static_cast<float>(taken), mean - ToFloat(*first) + rest, squares};
  });
}

// Each warp a row.
template <typename T>
__global__ void RowStdOfParts(const Moments* parts, T* result, int64_t rows, int64_t size,
                              int count) {
  const int64_t row = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (row >= rows) return;
  const Moments all = MergedByWarp(count, [=](int i) { return parts[row * count + i]; });
  if (threadIdx.x % kWarp == 0) result[row] = StdOf<T>(all.squares, size);
}

// Writes 0 where a row has other elements; the results are 1 before.
template <typename T, bool kAligned>
__global__ void IsFiniteKernel(const T* x, uint8_t* result, int64_t size, int64_t blocks_per_row) {
  const int64_t row = blockIdx.x / blocks_per_row, block = blockIdx.x % blocks_per_row;
  const int64_t step = blocks_per_row * kThreads * kPackSize<T>;
  bool finite = true;
  for (int64_t begin = (block * kThreads + threadIdx.x) * kPackSize<T>; begin < size;
       begin += step) {
    Pack<T, kPackSize<T>> pack;
    Load<kAligned>(x + row * size + begin, size - begin, pack);
#pragma unroll
    for (int i = 0; i < kPackSize<T>; ++i) {
      if (begin + i < size) finite = finite && isfinite(ToFloat(pack.at[i]));
    }
  }
  if (!finite) result[row] = 0;
}

template <typename T>
bool RowsAligned(int64_t size, const void* x, const void* result) {
  return size % kPackSize<T> == 0 && Aligned(16, x, result);
}

// Calls launch.operator()<Row>() with the kind of row that holds `size` elements.
template <typename T, bool kAligned, typename Function>
cudaError_t ForRow(int64_t size, const Function& launch) {
  const int64_t packs = CeilDiv(size, kWarp * kPackSize<T>);
  if (packs <= 1) return launch.template operator()<kAligned, HeldRow<T, kAligned, 1>>();
  if (packs <= 3) return launch.template operator()<kAligned, HeldRow<T, kAligned, 3>>();
  if (packs <= 5) return launch.template operator()<kAligned, HeldRow<T, kAligned, 5>>();
  if (packs <= 8) return launch.template operator()<kAligned, HeldRow<T, kAligned, 8>>();
  return launch.template operator()<kAligned, ReadRow<T, kAligned>>();
}

template <typename T, typename Function>
cudaError_t ForRow(bool aligned, int64_t size, const Function& launch) {
  return aligned ? ForRow<T, true>(size, launch) : ForRow<T, false>(size, launch);
}

template <typename Row>
Grid GridOfRows(int64_t rows) {
  const int threads = Row::kTeam == kWarp ? kThreads : Row::kTeam;
  return {dim3(static_cast<unsigned>(CeilDiv(rows * Row::kTeam, threads))), dim3(threads)};
}

}  // namespace

cudaError_t LayerNorm(const LayerNormArgs& args, cudaStream_t stream) {
  if (args.f8_scale != nullptr) {
    return ForFloat(args.element, [&]<typename T>() {
      const bool aligned = RowsAligned<T>(args.size, args.x, args.gamma) &&
                           Aligned(16, args.gamma, args.beta, args.result);
      return ForRow<T>(aligned, args.size, [&]<bool kAligned, typename Row>() {
        return Launch(LayerNormF8Kernel<T, kAligned, Row>, GridOfRows<Row>(args.rows), stream,
                      static_cast<const T*>(args.x), static_cast<const T*>(args.gamma),
                      static_cast<const T*>(args.beta), args.f8_scale,
                      static_cast<F8E4M3*>(args.result), args.rows, args.size, args.epsilon);
      });
    });
  }
  return ForFloat(args.element, [&]<typename T>() {
    const bool aligned =
        RowsAligned<T>(args.size, args.x, args.result) && Aligned(16, args.gamma, args.beta);
    return ForRow<T>(aligned, args.size, [&]<bool kAligned, typename Row>() {
      return Launch(LayerNormKernel<T, kAligned, Row>, GridOfRows<Row>(args.rows), stream,
                    static_cast<const T*>(args.x), static_cast<const T*>(args.gamma),
                    static_cast<const T*>(args.beta), static_cast<T*>(args.result), args.rows,
                    args.size, args.epsilon);
    });
  });
}

cudaError_t Softmax(const RowsArgs& args, cudaStream_t stream) {
  return ForFloat(args.element, [&]<typename T>() {
    const bool aligned = RowsAligned<T>(args.size, args.x, args.result);
    return ForRow<T>(aligned, args.size, [&]<bool kAligned, typename Row>() {
      return Launch(SoftmaxKernel<T, kAligned, Row>, GridOfRows<Row>(args.rows), stream,
                    static_cast<const T*>(args.x), static_cast<T*>(args.result), args.rows,
                    args.size);
    });
  });
}

size_t RowStdWorkspaceBytes(int64_t rows, int64_t size) {
  const int64_t parts = PartsOf(size);
  return parts == 1 ? 0 : static_cast<size_t>(rows * parts) * sizeof(Moments);
}

cudaError_t RowStd(const RowsArgs& args, cudaStream_t stream) {
  const int64_t parts = PartsOf(args.size);
  const Grid grid = {dim3(static_cast<unsigned>(args.rows * parts)), dim3(kRowThreads)};
  return ForFloat(args.element, [&]<typename T>() {
    const bool aligned = RowsAligned<T>(args.size, args.x, nullptr);
    const auto* const x = static_cast<const T*>(args.x);
    auto* const result = static_cast<T*>(args.result);
    if (parts == 1) {
      return Launch(aligned ? RowStdKernel<T, true> : RowStdKernel<T, false>, grid, stream, x,
                    result, args.size);
    }
    auto* const moments = static_cast<Moments*>(args.workspace);
    if (auto error = Launch(aligned ? RowMoments<T, true> : RowMoments<T, false>, grid, stream, x,
                            moments, args.size, parts);
        error != cudaSuccess) {
      return error;
    }
    return Launch(RowStdOfParts<T>, GridOf(args.rows * kWarp), stream,
                  static_cast<const Moments*>(moments), result, args.rows, args.size,
                  static_cast<int>(parts));
  });
}

cudaError_t IsFinite(const RowsArgs& args, cudaStream_t stream) {
  constexpr int64_t kPacksOfThread = 8;
  const cudaError_t set = cudaMemsetAsync(args.result, 1, args.rows, stream);
  if (set != cudaSuccess) return set;
  return ForFloat(args.element, [&]<typename T>() {
    const int64_t blocks = CeilDiv(args.size, kThreads * kPackSize<T> * kPacksOfThread);
    const bool aligned = RowsAligned<T>(args.size, args.x, nullptr);
    return Launch(aligned ? IsFiniteKernel<T, true> : IsFiniteKernel<T, false>,
                  Grid{dim3(static_cast<unsigned>(args.rows * blocks))}, stream,
                  static_cast<const T*>(args.x), static_cast<uint8_t*>(args.result), args.size,
                  blocks);
  });
}

}  // namespace latentd::backends::cuda::kernels
