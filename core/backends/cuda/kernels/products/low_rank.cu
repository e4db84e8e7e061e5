// Kernels for every shape and GPU; most of what networks have is for hopper/low_rank.cu on a
// Hopper.
//
// Halves and bfloats are multiplied by tensor cores, 16 lines a warp. Both products have few
// columns or little depth, so that they are bound by what they read: each thread reads 16 bytes of
// a line at once, and the matrices, which all lines read, come from caches. The warps of a block
// share the depth of the first product, since it has too few results for all multiprocessors; they
// are added up in one order.
#include <algorithm>

#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/products/low_rank.cuh"

namespace latentd::backends::cuda::kernels {
namespace {

using namespace low_rank;  // NOLINT: parts of this file

constexpr int kShrinkWarps = kParts;    // each has one of the depth
constexpr int kExpandWarps = 4;         // each for other lines
constexpr int kGroups = 2;              // products of an expanding warp, beside each other
constexpr int64_t kMostBlocks = 65535;  // in the grid's second and third dimension

// Elements from `at` on of a line of so many, and zeros: behind its last, or where there is no
// line.
template <bool kAligned, typename T>
__device__ uint4 WordAt(const T* line, int64_t at, int64_t size) {
  Pack<T, kWordSize> pack = {};
  if (line != nullptr && at < size) LoadSome<kAligned>(line + at, size - at, pack);
  return *reinterpret_cast<const uint4*>(&pack);
}

// sums [16, 8 * kTiles] of a warp += lines times columns, both of `size` elements, from kDepth of
// them: the thread has those from `at` on. Of lane 4 g + t, lines are g and g + 8, and columns are
// number g of each tile; null: there is none.
template <bool kAligned, typename T>
__device__ void MultiplySome(const T* const (&lines)[2], const T* const (&columns)[kTiles],
                             int64_t at, int64_t size, float (&sums)[kTiles][4]) {
  const uint4 upper = WordAt<kAligned>(lines[0], at, size);
  const uint4 lower = WordAt<kAligned>(lines[1], at, size);
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    MultiplyWords<T>(upper, lower, WordAt<kAligned>(columns[n], at, size), sums[n]);
  }
}

// Writes what the warps have of a block's sums, added up in order, scaled and rounded.
template <typename T>
__device__ void WriteHidden(const LowRankArgs& args, int64_t row, int64_t line, int64_t rank,
                            const float (&parts)[kShrinkWarps][kLines][kColumns]) {
  constexpr int kItems = kLines * kColumns / (32 * kShrinkWarps);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int item = static_cast<int>(threadIdx.x) + i * 32 * kShrinkWarps;
    const int own_line = item / kColumns, column = item % kColumns;
    if (line + own_line >= args.lines) continue;
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kShrinkWarps; ++warp) sum += parts[warp][own_line][column];
    const bool is_rank = rank + column < args.rank;
    const float scale = is_rank ? args.scale[row * args.scale_row + rank + column] : 0;
    static_cast<T*>(args.hidden)[(row * args.lines + line + own_line) * HiddenPitch(args.rank) +
                                 rank + column] = FromFloat<T>(is_rank ? sum * scale : 0);
  }
}

// One block for kLines lines and kColumns ranks of a row.
template <bool kAligned, typename T>
__global__ void __launch_bounds__(32 * kShrinkWarps) ShrinkKernel(LowRankArgs args) {
  __shared__ float parts[kShrinkWarps][kLines][kColumns];
  const int64_t row = blockIdx.z;
  if (!HasPath(args, row)) return;
  const Place place = PlaceOfThread();
  const int64_t line = int64_t{blockIdx.x} * kLines, rank = int64_t{blockIdx.y} * kColumns;
  const T* x = static_cast<const T*>(args.x) + row * args.x_row;
  const T* down = static_cast<const T*>(args.down) + args.slot[row] * args.down_slot;
  const T* lines[2];
  const T* ranks[kTiles];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int64_t own = line + place.group + 8 * i;
    lines[i] = own < args.lines ? x + own * args.x_line : nullptr;
  }
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int64_t own = rank + 8 * n + place.group;
    ranks[n] = own < args.rank ? down + own * args.in : nullptr;
  }
  float sums[kTiles][4] = {};
#pragma unroll 2
  for (int64_t at = place.warp * kDepth; at < args.in; at += kShrinkWarps * kDepth) {
    MultiplySome<kAligned>(lines, ranks, at + kWordSize * place.part, args.in, sums);
  }
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      parts[place.warp][place.group + i / 2 * 8][8 * n + 2 * place.part + i % 2] = sums[n][i];
    }
  }
  __syncthreads();
  WriteHidden<T>(args, row, line, rank, parts);
}

// The thread's eight results of each of two lines, from `column` on: the base's, and the sums.
template <bool kAligned, typename T>
__device__ void WriteResults(const LowRankArgs& args, int64_t row, int64_t line, int64_t column,
                             bool has_path, const float (&sums)[kTiles][4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int64_t own = line + 8 * i, count = args.out - column;
    if (own >= args.lines || count <= 0) continue;
    const T* base = static_cast<const T*>(args.base) + row * args.base_row + own * args.base_line;
    T* result = static_cast<T*>(args.result) + (row * args.lines + own) * args.out;
    Pack<T, kWordSize> pack = {};
    LoadSome<kAligned>(base + column, count, pack);
    if (has_path) AddSums(sums, i, pack);
    StoreSome<kAligned>(pack, count, result + column);
  }
}

// One warp for kLines lines and kGroups times kColumns results of a row.
template <bool kAligned, typename T>
__global__ void __launch_bounds__(32 * kExpandWarps) ExpandKernel(LowRankArgs args) {
  const int64_t row = blockIdx.z;
  const Place place = PlaceOfThread();
  const bool has_path = HasPath(args, row);
  const int64_t line = (int64_t{blockIdx.y} * kExpandWarps + place.warp) * kLines + place.group;
  const int64_t pitch = HiddenPitch(args.rank);
  const T* lines[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int64_t own = row * args.lines + line + 8 * i;
    const bool is_line = line + 8 * i < args.lines;
    lines[i] = is_line ? static_cast<const T*>(args.hidden) + own * pitch : nullptr;
  }
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const int64_t first = (int64_t{blockIdx.x} * kGroups + group) * kColumns;
    float sums[kTiles][4] = {};
    if (has_path) {
      const T* up = static_cast<const T*>(args.up) + args.slot[row] * args.up_slot;
      const T* results[kTiles];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int64_t own = first + ResultOf(n, place.group);
        results[n] = own < args.out ? up + own * args.rank : nullptr;
      }
      for (int64_t at = 0; at < args.rank; at += kDepth) {
        MultiplySome<kAligned>(lines, results, at + kWordSize * place.part, args.rank, sums);
      }
    }
    WriteResults<kAligned, T>(args, row, line, first + kWordSize * place.part, has_path, sums);
  }
}

// One warp for a line of floats: its ranks one after the other.
__global__ void __launch_bounds__(kThreads) ShrinkFloatsKernel(LowRankArgs args) {
  const int64_t row = blockIdx.z;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t line = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (!HasPath(args, row) || line >= args.lines) return;
  const float* x = static_cast<const float*>(args.x) + row * args.x_row + line * args.x_line;
  const float* down = static_cast<const float*>(args.down) + args.slot[row] * args.down_slot;
  float* hidden =
      static_cast<float*>(args.hidden) + (row * args.lines + line) * HiddenPitch(args.rank);
  for (int64_t rank = 0; rank < args.rank; ++rank) {
    float sum = 0;
    for (int64_t i = lane; i < args.in; i += 32) sum = fmaf(x[i], down[rank * args.in + i], sum);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    }
    if (lane == 0) hidden[rank] = sum * args.scale[row * args.scale_row + rank];
  }
}

// One thread for a result.
__global__ void __launch_bounds__(kThreads) ExpandFloatsKernel(LowRankArgs args) {
  const int64_t row = blockIdx.z;
  const int64_t item = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t line = item / args.out, column = item % args.out;
  const bool has_path = HasPath(args, row);
  if (line >= args.lines) return;
  float result =
      static_cast<const float*>(args.base)[row * args.base_row + line * args.base_line + column];
  if (has_path) {
    const float* hidden =
        static_cast<const float*>(args.hidden) + (row * args.lines + line) * HiddenPitch(args.rank);
    const float* up =
        static_cast<const float*>(args.up) + args.slot[row] * args.up_slot + column * args.rank;
    float sum = 0;
    for (int64_t rank = 0; rank < args.rank; ++rank) sum = fmaf(hidden[rank], up[rank], sum);
    result += sum;
  }
  static_cast<float*>(args.result)[row * args.lines * args.out + item] = result;
}

// True if every line begins at a multiple of 16 bytes, and has whole words of them.
bool ShrinksByWords(const LowRankArgs& a) {
  return Aligned(16, a.x, a.down) && a.in % kWordSize == 0 && a.x_row % kWordSize == 0 &&
         a.x_line % kWordSize == 0 && a.down_slot % kWordSize == 0;
}
bool ExpandsByWords(const LowRankArgs& a) {
  return Aligned(16, a.base, a.up, a.result) && a.out % kWordSize == 0 && a.rank % kWordSize == 0 &&
         a.base_row % kWordSize == 0 && a.base_line % kWordSize == 0 && a.up_slot % kWordSize == 0;
}

// True on a GPU that has clusters, for lines and matrices that those multiply.
cudaError_t FindClusters(const LowRankArgs& a, bool& has_clusters) {
  has_clusters = FitsClusters(a) && Aligned(16, a.base, a.x, a.down, a.up, a.result);
  if (!has_clusters) return cudaSuccess;
  DeviceTraits device;
  const cudaError_t error = QueryDevice(device);
  has_clusters = device.compute_capability_major == 9;
  return error;
}

dim3 Blocks(int64_t x, int64_t y, int64_t z) {
  return {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
}

template <typename T>
cudaError_t LaunchHalves(const LowRankArgs& a, cudaStream_t stream) {
  bool has_clusters = false;
  if (auto error = FindClusters(a, has_clusters); error != cudaSuccess) return error;
  if (has_clusters) return LowRankByClusters(a, stream);
  const Grid shrink = {Blocks(CeilDiv(a.lines, kLines), CeilDiv(a.rank, kColumns), a.rows),
                       32 * kShrinkWarps};
  const Grid expand = {
      Blocks(CeilDiv(a.out, kGroups * kColumns), CeilDiv(a.lines, kExpandWarps * kLines), a.rows),
      32 * kExpandWarps};
  const cudaError_t error =
      Launch(ShrinksByWords(a) ? ShrinkKernel<true, T> : ShrinkKernel<false, T>, shrink, stream, a);
  if (error != cudaSuccess) return error;
  return Launch(ExpandsByWords(a) ? ExpandKernel<true, T> : ExpandKernel<false, T>, expand, stream,
                a);
}

cudaError_t LaunchFloats(const LowRankArgs& a, cudaStream_t stream) {
  const Grid shrink = {Blocks(CeilDiv(a.lines, kThreads / 32), 1, a.rows)};
  const Grid expand = {Blocks(CeilDiv(a.lines * a.out, kThreads), 1, a.rows)};
  if (const cudaError_t error = Launch(ShrinkFloatsKernel, shrink, stream, a);
      error != cudaSuccess) {
    return error;
  }
  return Launch(ExpandFloatsKernel, expand, stream, a);
}

}  // namespace

int64_t LowRankHiddenBytes(const LowRankArgs& args) {
  return args.rows * args.lines * HiddenPitch(args.rank) * BytesOf(args.element);
}

cudaError_t LowRank(const LowRankArgs& args, cudaStream_t stream) {
  const int64_t blocks = std::max(
      {args.rows, CeilDiv(args.lines, kExpandWarps * kLines), CeilDiv(args.rank, kColumns)});
  if (blocks > kMostBlocks) return cudaErrorInvalidValue;
  switch (args.element) {
    case Element::kF32:
      return LaunchFloats(args, stream);
    case Element::kF16:
      return LaunchHalves<__half>(args, stream);
    case Element::kBF16:
      return LaunchHalves<__nv_bfloat16>(args, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace latentd::backends::cuda::kernels
