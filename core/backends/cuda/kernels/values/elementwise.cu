#include "core/backends/cuda/kernels/common/divisor.cuh"
#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/common/numbers.cuh"
#include "core/backends/cuda/kernels/values/activation.cuh"
#include "core/backends/cuda/kernels/values/elementwise.h"
#include "core/backends/cuda/kernels/values/f8.cuh"

namespace latentd::backends::cuda::kernels {
namespace {

// Packs that a thread has in flight.
constexpr int kUnrolled = 2;

// The elements of a pack whose larger side is 16 bytes.
template <typename From, typename To>
constexpr int kMapSize = sizeof(From) > sizeof(To) ? kPackSize<From> : kPackSize<To>;

// result[i] = function(x[i])
template <bool kAligned, typename Function, typename From, typename To>
__global__ void Map(Function function, const From* x, To* result, int64_t size) {
  constexpr int kSize = kMapSize<From, To>;
  const int64_t first = (int64_t{blockIdx.x} * kUnrolled * kThreads + threadIdx.x) * kSize;
  Pack<From, kSize> from[kUnrolled];
#pragma unroll
  for (int u = 0; u < kUnrolled; ++u) {
    const int64_t begin = first + int64_t{u} * kThreads * kSize;
    LoadSome<kAligned>(x + begin, size - begin, from[u]);
  }
#pragma unroll
  for (int u = 0; u < kUnrolled; ++u) {
    const int64_t begin = first + int64_t{u} * kThreads * kSize;
    Pack<To, kSize> to;
#pragma unroll
    for (int i = 0; i < kSize; ++i) to.at[i] = function(from[u].at[i]);
    StoreSome<kAligned>(to, size - begin, result + begin);
  }
}

template <typename From, typename To, typename Function>
cudaError_t LaunchMap(const Function& function, const void* x, void* result, int64_t size,
                      cudaStream_t stream) {
  constexpr int kSize = kMapSize<From, To>;
  const bool aligned = Aligned(kSize * sizeof(From), x) && Aligned(kSize * sizeof(To), result);
  const auto kernel = aligned ? Map<true, Function, From, To> : Map<false, Function, From, To>;
  return Launch(kernel, GridOf(CeilDiv(size, kSize * kUnrolled)), stream, function,
                static_cast<const From*>(x), static_cast<To*>(result), size);
}

template <typename T>
struct UnaryOf {
  UnaryFunction function;
  __device__ T operator()(T x) const { return FromFloat<T>(Evaluate<T>(function, ToFloat(x))); }
};

template <typename T>
struct Clamped {
  float min, max;
  __device__ T operator()(T x) const {
    const float value = ToFloat(x);
    return FromFloat<T>(value < min ? min : value > max ? max : value);
  }
};

template <typename To>
struct Converted {
  template <typename From>
  __device__ To operator()(From x) const {
    return FromFloat<To>(ToFloat(x));
  }
};

struct Pixel {
  template <typename T>
  __device__ uint8_t operator()(T x) const {
    const float unit = fmaf(ToFloat(x), 0.5f, 0.5f);
    // fmaxf gives the number where the other is NaN.
    return static_cast<uint8_t>(__float2uint_rn(fminf(fmaxf(unit, 0), 1) * 255));
  }
};

struct Successor {
  __device__ int64_t operator()(int64_t x) const { return x + 1; }
};

template <typename To>
cudaError_t CastTo(const CastArgs& args, cudaStream_t stream) {
  const auto launch = [&]<typename From>() {
    return LaunchMap<From, To>(Converted<To>{}, args.x, args.result, args.size, stream);
  };
  if (args.from == Element::kI64) return launch.template operator()<int64_t>();
  if (args.from == Element::kU8) return launch.template operator()<uint8_t>();
  if (args.from == Element::kF8E4M3) return launch.template operator()<F8E4M3>();
  if (args.from == Element::kF8E5M2) return launch.template operator()<F8E5M2>();
  return ForFloat(args.from, launch);
}

// `packs`: by those in a row of the result.
template <typename T, bool kAligned, typename Number, typename Division>
__global__ void GegluKernel(const T* x, T* result, Number items, int64_t channels, Division packs) {
  constexpr int kSize = kPackSize<T>;
  const Number item = static_cast<Number>(blockIdx.x) * kThreads + threadIdx.x;
  if (item >= items) return;
  Number pack;
  const int64_t row = packs.Divide(item, pack);
  const int64_t channel = static_cast<int64_t>(pack) * kSize, count = channels - channel;
  const T* from = x + row * 2 * channels + channel;
  Pack<T, kSize> value, gate;
  Load<kAligned>(from, count, value);
  Load<kAligned>(from + channels, count, gate);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    value.at[i] = FromFloat<T>(ToFloat(value.at[i]) * Gelu<T>(ToFloat(gate.at[i])));
  }
  Store<kAligned>(value, count, result + row * channels + channel);
}

// The same, but that the result is e4m3.
template <typename T, bool kAligned, typename Number, typename Division>
__global__ void GegluF8Kernel(const T* x, const float* f8_scale, F8E4M3* result, Number items,
                              int64_t channels, Division packs) {
  constexpr int kSize = kPackSize<T>;
  const Number item = static_cast<Number>(blockIdx.x) * kThreads + threadIdx.x;
  if (item >= items) return;
  const float inverse = 1 / *f8_scale;
  Number pack;
  const int64_t row = packs.Divide(item, pack);
  const int64_t channel = static_cast<int64_t>(pack) * kSize, count = channels - channel;
  const T* from = x + row * 2 * channels + channel;
  Pack<T, kSize> value, gate;
  Load<kAligned>(from, count, value);
  Load<kAligned>(from + channels, count, gate);
  float values[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    values[i] = ToFloat(value.at[i]) * Gelu<T>(ToFloat(gate.at[i]));
  }
  Pack<F8E4M3, kSize> codes;
  ToE4M3(values, inverse, codes);
  Store<kAligned>(codes, count, result + row * channels + channel);
}

template <typename T, typename Number, typename Division>
cudaError_t LaunchGeglu(const GegluArgs& args, int64_t packs, cudaStream_t stream) {
  const bool aligned = Aligned(16, args.x, args.result) && args.channels % kPackSize<T> == 0;
  if (args.f8_scale != nullptr) {
    return Launch(aligned ? GegluF8Kernel<T, true, Number, Division>
                          : GegluF8Kernel<T, false, Number, Division>,
                  GridOf(args.rows * packs), stream, static_cast<const T*>(args.x), args.f8_scale,
                  static_cast<F8E4M3*>(args.result), static_cast<Number>(args.rows * packs),
                  args.channels, Division(packs));
  }
  return Launch(
      aligned ? GegluKernel<T, true, Number, Division> : GegluKernel<T, false, Number, Division>,
      GridOf(args.rows * packs), stream, static_cast<const T*>(args.x),
      static_cast<T*>(args.result), static_cast<Number>(args.rows * packs), args.channels,
      Division(packs));
}

}  // namespace

cudaError_t Unary(const UnaryArgs& args, cudaStream_t stream) {
  return ForFloat(args.element, [&]<typename T>() {
    return LaunchMap<T, T>(UnaryOf<T>{args.function}, args.x, args.result, args.size, stream);
  });
}

cudaError_t Clamp(const ClampArgs& args, cudaStream_t stream) {
  return ForFloat(args.element, [&]<typename T>() {
    return LaunchMap<T, T>(Clamped<T>{args.min, args.max}, args.x, args.result, args.size, stream);
  });
}

cudaError_t Cast(const CastArgs& args, cudaStream_t stream) {
  return ForFloat(args.to, [&]<typename To>() { return CastTo<To>(args, stream); });
}

cudaError_t ToPixels(const ToPixelsArgs& args, cudaStream_t stream) {
  return ForFloat(args.element, [&]<typename T>() {
    return LaunchMap<T, uint8_t>(Pixel{}, args.x, args.result, args.size, stream);
  });
}

cudaError_t Increment(const IncrementArgs& args, cudaStream_t stream) {
  return LaunchMap<int64_t, int64_t>(Successor{}, args.x, args.result, args.size, stream);
}

cudaError_t Geglu(const GegluArgs& args, cudaStream_t stream) {
  return ForFloat(args.element, [&]<typename T>() {
    const int64_t packs = CeilDiv(args.channels, kPackSize<T>);
    return args.rows * packs < kDivisible
               ? LaunchGeglu<T, uint32_t, Divisor>(args, packs, stream)
               : LaunchGeglu<T, uint64_t, WideDivisor>(args, packs, stream);
  });
}

}  // namespace latentd::backends::cuda::kernels
