#include <cutlass/float8.h>

#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/hopper/product.cuh"
#include "core/backends/cuda/kernels/products/f8_linear_geglu.h"
#include "core/backends/cuda/kernels/values/activation.cuh"
#include "core/backends/cuda/kernels/values/f8.cuh"

namespace latentd::backends::cuda::kernels {
namespace {

// From a thread's sums to its part of the result; see F8GatedLine for which sums are whose. T: of
// the bias.
template <typename T>
struct F8GegluOfSums {
  using Result = cutlass::float_e4m3_t;
  struct Params {
    const T* bias;
    const float *scale, *result_scale;
    F8E4M3* result;
    int64_t columns;
  };
  static constexpr int kWidth = 64;  // columns of the product that belong together

  // Numbers that are equal for all rows; biases as they are in memory, which takes half of the
  // registers.
  struct Columns {
    int64_t first;  // column of the result
    Pack<T, 8> value_bias, gate_bias;
  };

  // Tiles that can be computed without asking.
  __device__ static bool IsPlain(const Params& params) { return params.bias != nullptr; }

  __device__ explicit F8GegluOfSums(const Params& from)
      : params(from), scale(__ldg(from.scale)), inverse(1 / __ldg(from.result_scale)) {}

  // So many eights of columns of the product from `column` on, as a thread of number `t` modulo 4
  // has them. kPlain: they are there, and IsPlain is true.
  template <bool kPlain>
  __device__ Columns ColumnsAt(int64_t column, int eights, int t) const {
    Columns columns = {.first = column / 2 + eights * t};
    auto *const value = reinterpret_cast<uint2*>(&columns.value_bias), *const gate =
                                                                           reinterpret_cast<uint2*>(
                                                                               &columns.gate_bias);
    if (!kPlain && (params.bias == nullptr || columns.first >= params.columns)) {
      value[0] = value[1] = gate[0] = gate[1] = {};
      return columns;
    }
    // Constant during the launch, so it may be read before what the code stores earlier.
    const T* const values = params.bias + columns.first;
    const T* const gates = values + params.columns;
    if (eights == 8) {
      *reinterpret_cast<uint4*>(value) = __ldg(reinterpret_cast<const uint4*>(values));
      *reinterpret_cast<uint4*>(gate) = __ldg(reinterpret_cast<const uint4*>(gates));
    } else {
      value[0] = __ldg(reinterpret_cast<const uint2*>(values));
      gate[0] = __ldg(reinterpret_cast<const uint2*>(gates));
    }
    return columns;
  }

  // sum(j, i) is of the columns 8j + 2t + i.
  template <bool kPlain, typename SumAt>
  __device__ void Store(const Columns& columns, int eights, int64_t row, const SumAt& sum) const {
    if (!kPlain && columns.first >= params.columns) return;
    F8E4M3* const to = params.result + row * params.columns + columns.first;
    if (eights == 8) {
      StoreOf<4>(columns, to, sum);
    } else {
      StoreOf<2>(columns, to, sum);
    }
  }

  template <int kHalf, typename SumAt>
  __device__ void StoreOf(const Columns& columns, F8E4M3* to, const SumAt& sum) const {
    float results[2 * kHalf];
#pragma unroll
    for (int i = 0; i < 2 * kHalf; ++i) {
      const float value = fmaf(sum(i / 2, i % 2), scale, ToFloat(columns.value_bias.at[i]));
      const float gate = fmaf(sum(kHalf + i / 2, i % 2), scale, ToFloat(columns.gate_bias.at[i]));
      results[i] = value * inverse * GeluForF8(gate);
    }
    Pack<F8E4M3, 2 * kHalf> codes;
    NarrowFinite(results, codes);
    *reinterpret_cast<Pack<F8E4M3, 2 * kHalf>*>(to) = codes;
  }

  const Params& params;
  const float scale, inverse;
};

template <typename T>
cudaError_t LaunchOn(const F8LinearGegluArgs& args, cudaStream_t stream) {
  using Operand = cutlass::float_e4m3_t;
  return hopper::LaunchProduct<Operand, F8GegluOfSums<T>>(
      {args.rows, 2 * args.columns, args.depth}, static_cast<const Operand*>(args.x),
      static_cast<const Operand*>(args.weight),
      {static_cast<const T*>(args.bias), args.scale, args.result_scale,
       static_cast<F8E4M3*>(args.result), args.columns},
      stream);
}

// A block permutes a line.
__global__ void PackF8GatedKernel(const uint4* weight, uint4* permuted, int64_t columns,
                                  int words) {
  const uint4* const from = weight + F8GatedLine(blockIdx.x, columns) * words;
  for (int i = threadIdx.x; i < words; i += blockDim.x) {
    permuted[int64_t{blockIdx.x} * words + i] = from[i];
  }
}

}  // namespace

cudaError_t PackF8Gated(const void* weight, void* permuted, int64_t columns, int64_t depth,
                        cudaStream_t stream) {
  const Grid grid = {dim3(static_cast<unsigned>(2 * columns)), dim3(128)};
  return Launch(PackF8GatedKernel, grid, stream, static_cast<const uint4*>(weight),
                static_cast<uint4*>(permuted), columns, static_cast<int>(depth / 16));
}

cudaError_t F8LinearGeglu(const F8LinearGegluArgs& args, cudaStream_t stream) {
  if (!HasF8LinearGeglu(args) || !Aligned(16, args.x, args.weight, args.bias, args.result)) {
    return cudaErrorInvalidValue;
  }
  return args.element == Element::kBF16 ? LaunchOn<__nv_bfloat16>(args, stream)
                                        : LaunchOn<__half>(args, stream);
}

}  // namespace latentd::backends::cuda::kernels
