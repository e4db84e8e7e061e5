// Lines and matrices of whole words are read by clusters of blocks: each block reads a part of the
// depth of all the cluster's lines and of the matrix, so that everything is read once a cluster,
// and they add up their sums in each other's memory. Results that a cluster's blocks can hold are
// made in the same launch: what a block adds them to is under way from the beginning, and so is its
// part of the second matrix. Wider ones have a launch of their own.
//
// Such a launch takes as long as its loads wait, a few times one behind the other: all of a phase
// are issued before the first is used.
#include <cooperative_groups.h>

#include <cstddef>

#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/products/low_rank.cuh"
#include "core/backends/cuda/kernels/values/activation.cuh"

namespace latentd::backends::cuda::kernels {
namespace {

using namespace low_rank;  // NOLINT: parts of this file

constexpr int kCluster = 4;                     // blocks, each with two parts of the depth
constexpr int kWarps = 2 * kCluster;            // a block's: two for the same lines
constexpr int kBlockLines = kCluster * kLines;  // all blocks' of a cluster
constexpr int kUnrolled = 3;                    // pieces of a part's depth that are loaded at once
constexpr int kMostGroups = 10;                 // kColumns results each, of a block
constexpr int kWarpGroups = kMostGroups / 2;
constexpr int kPitch = kColumns + 8;          // keeps the lines of a store in different banks
constexpr int kWords = kColumns / kWordSize;  // a line of ranks has so many

// A block's memory. `parts` are those of a cluster's sums that it adds up: of the lines whose
// number is the block's.
template <typename T>
struct Shared {
  float parts[kParts][kLines][kPitch];
  T hidden[kBlockLines][kPitch];
  uint4 up[kMostGroups * kColumns][kWords];
  uint4 base[2 * kWarpGroups][32 * kWarps];  // each thread's own
};

__device__ inline void CopyWord(const void* from, void* to) {
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
}

__device__ inline uint4 WordAt(const void* from) { return *static_cast<const uint4*>(from); }

// A thread's work, the same for both products: its two lines, and the results of its block.
struct Work {
  __device__ explicit Work(const LowRankArgs& args)
      : place(PlaceOfThread()), row(blockIdx.z), block(blockIdx.x % kCluster) {
    tile = place.warp % kCluster;
    half = place.warp / kCluster;
    first_line = int64_t{blockIdx.x} / kCluster * kBlockLines;
    line = first_line + tile * kLines + place.group;
    const int all = static_cast<int>(args.out) / kColumns;
    const int most = (all + kCluster - 1) / kCluster;
    first_group = block * most;
    groups = min(most, all - first_group);
  }

  // A line behind the last is read as the last, and not written.
  __device__ int64_t LineToRead(const LowRankArgs& args, int i) const {
    return min(line + 8 * i, args.lines - 1);
  }
  __device__ int64_t column(int group) const {
    return (first_group + group) * kColumns + kWordSize * place.part;
  }

  Place place;
  int64_t row;
  int block, tile, half, first_group, groups;
  int64_t first_line, line;
};

// sums += one part of the depth. `lines` and `ranks` are at the thread's word of the first piece.
template <typename T>
__device__ inline void SumPart(const T* const (&lines)[2], const T* const (&ranks)[kTiles],
                               int first, int size, float (&sums)[kTiles][4]) {
  constexpr int kStep = kParts * kDepth;
  for (int at = first; at < size; at += kStep * kUnrolled) {
    uint4 x[kUnrolled][2], down[kUnrolled][kTiles];
#pragma unroll
    for (int u = 0; u < kUnrolled; ++u) {
      if (at + u * kStep >= size) break;
#pragma unroll
      for (int i = 0; i < 2; ++i) x[u][i] = WordAt(lines[i] + at + u * kStep);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) down[u][n] = WordAt(ranks[n] + at + u * kStep);
    }
#pragma unroll
    for (int u = 0; u < kUnrolled; ++u) {
      if (at + u * kStep >= size) break;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) MultiplyWords<T>(x[u][0], x[u][1], down[u][n], sums[n]);
    }
  }
}

// The warp's part of the sums of its lines and of kColumns ranks from `first` on.
template <typename T>
__device__ inline void Shrink(const LowRankArgs& args, const Work& work, int first,
                              float (&sums)[kTiles][4]) {
  const int word = kWordSize * work.place.part;
  const T* x = static_cast<const T*>(args.x) + work.row * args.x_row + word;
  const T* down = static_cast<const T*>(args.down) + args.slot[work.row] * args.down_slot + word;
  const T* lines[2];
  const T* ranks[kTiles];
#pragma unroll
  for (int i = 0; i < 2; ++i) lines[i] = x + work.LineToRead(args, i) * args.x_line;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int64_t own = first + 8 * n + work.place.group;
    ranks[n] = down + min(own, args.rank - 1) * args.in;
  }
  SumPart(lines, ranks, kDepth * (2 * work.block + work.half), static_cast<int>(args.in), sums);
}

// Gives the warp's sums to the block that adds up those of its lines.
template <typename T>
__device__ inline void SendSums(const Work& work, const float (&sums)[kTiles][4], Shared<T>& to) {
  auto& part = to.parts[2 * work.block + work.half];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      *reinterpret_cast<float2*>(&part[work.place.group + 8 * i][8 * n + 2 * work.place.part]) = {
          sums[n][2 * i], sums[n][2 * i + 1]};
    }
  }
}

// Part of a thread in the block's lines for each rank: two ranks of a line.
struct HiddenPair {
  int line, column;
  uint32_t values;
};

// The parts added up in order, scaled and rounded; behind the last rank zeros.
template <typename T>
__device__ inline HiddenPair HiddenOf(const LowRankArgs& args, const Work& work, int first,
                                      const Shared<T>& shared) {
  const int thread = static_cast<int>(threadIdx.x);
  HiddenPair pair{thread / (kColumns / 2), thread % (kColumns / 2) * 2, 0};
  float sums[2] = {};
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const auto* of = reinterpret_cast<const float2*>(&shared.parts[part][pair.line][pair.column]);
    sums[0] += of->x;
    sums[1] += of->y;
  }
  const float* scale = args.scale + work.row * args.scale_row;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int rank = first + pair.column + i;
    sums[i] = rank < args.rank ? sums[i] * scale[rank] : 0;
  }
  pair.values = Pair<T>(sums[0], sums[1]);
  return pair;
}

// Begins to read what the block adds to: each thread what it adds to itself.
template <typename T>
__device__ inline void FetchBase(const LowRankArgs& args, const Work& work, Shared<T>& shared) {
  const T* base = static_cast<const T*>(args.base) + work.row * args.base_row;
#pragma unroll
  for (int i = 0; i < kWarpGroups; ++i) {
    const int group = work.half + 2 * i;
    if (group >= work.groups) break;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      CopyWord(base + work.LineToRead(args, h) * args.base_line + work.column(group),
               &shared.base[2 * i + h][threadIdx.x]);
    }
  }
}

// Begins to read the block's lines of the second matrix; behind the last rank zeros.
template <typename T>
__device__ inline void FetchUp(const LowRankArgs& args, const Work& work, Shared<T>& shared) {
  const T* up = static_cast<const T*>(args.up) + args.slot[work.row] * args.up_slot +
                int64_t{work.first_group} * kColumns * args.rank;
  for (int i = threadIdx.x; i < work.groups * kColumns * kWords; i += 32 * kWarps) {
    const int line = i / kWords, word = i % kWords;
    uint4* const to = &shared.up[line][word];
    if (word * kWordSize < args.rank) {
      CopyWord(up + line * args.rank + word * kWordSize, to);
    } else {
      *to = {};
    }
  }
}

template <typename T>
__device__ inline void Write(const LowRankArgs& args, const Work& work, int half, int64_t column,
                             const Pack<T, kWordSize>& pack) {
  const int64_t line = work.line + 8 * half;
  if (line >= args.lines) return;
  T* const result = static_cast<T*>(args.result) + (work.row * args.lines + line) * args.out;
  *reinterpret_cast<Pack<T, kWordSize>*>(result + column) = pack;
}

// The block's results, of what it has in its memory.
template <typename T>
__device__ inline void Expand(const LowRankArgs& args, const Work& work, bool has_path,
                              const Shared<T>& shared) {
  const int line = work.tile * kLines + work.place.group;
  const int word = kWordSize * work.place.part;
  const uint4 upper = WordAt(&shared.hidden[line][word]);
  const uint4 lower = WordAt(&shared.hidden[line + 8][word]);
#pragma unroll
  for (int i = 0; i < kWarpGroups; ++i) {
    const int group = work.half + 2 * i;
    if (group >= work.groups) break;
    float sums[kTiles][4] = {};
#pragma unroll
    for (int n = 0; n < kTiles && has_path; ++n) {
      const int own = group * kColumns + ResultOf(n, work.place.group);
      MultiplyWords<T>(upper, lower, shared.up[own][work.place.part], sums[n]);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      auto pack =
          *reinterpret_cast<const Pack<T, kWordSize>*>(&shared.base[2 * i + h][threadIdx.x]);
      if (has_path) AddSums(sums, h, pack);
      Write(args, work, h, work.column(group), pack);
    }
  }
}

// One cluster for kBlockLines lines of a row. kWhole: and all results, of at most kColumns ranks;
// else what the lines have for kColumns ranks, into memory.
template <bool kWhole, typename T>
__global__ void __launch_bounds__(32 * kWarps) ClusterKernel(LowRankArgs args) {
  extern __shared__ uint4 memory[];
  auto& shared = *reinterpret_cast<Shared<T>*>(memory);
  const auto cluster = cooperative_groups::this_cluster();
  const Work work(args);
  const int first = static_cast<int>(blockIdx.y) * kColumns;
  cluster.barrier_arrive();
  if constexpr (kWhole) FetchBase(args, work, shared);
  const bool has_path = HasPath(args, work.row);
  float sums[kTiles][4] = {};
  if (has_path) {
    if constexpr (kWhole) FetchUp(args, work, shared);
    Shrink<T>(args, work, first, sums);
  }
  cluster.barrier_wait();  // all blocks are there
  if (!has_path && !kWhole) return;
  if (has_path) SendSums(work, sums, *cluster.map_shared_rank(&shared, work.tile));
  cluster.sync();
  const HiddenPair pair = HiddenOf(args, work, first, shared);
  const int line = work.block * kLines + pair.line;
  if constexpr (kWhole) {
#pragma unroll
    for (int block = 0; block < kCluster && has_path; ++block) {
      auto& hidden = cluster.map_shared_rank(&shared, block)->hidden;
      *reinterpret_cast<uint32_t*>(&hidden[line][pair.column]) = pair.values;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    cluster.sync();
    Expand(args, work, has_path, shared);
  } else if (work.first_line + line < args.lines) {
    const int64_t at = work.row * args.lines + work.first_line + line;
    T* const hidden = static_cast<T*>(args.hidden) + at * HiddenPitch(args.rank);
    *reinterpret_cast<uint32_t*>(hidden + first + pair.column) = pair.values;
  }
}

// Columns that a warp of a wide launch makes, kColumns in each of two groups: beside each other,
// or a value's and its gate's.
template <bool kGated>
struct WideColumns {
  __device__ WideColumns(int64_t out, int warp) : out(out) {
    first = static_cast<int>(blockIdx.x * 2 + warp / kCluster) * (kGated ? 1 : kGroups) * kColumns;
  }
  __device__ int64_t operator[](int group) const {
    return first + group * (kGated ? out / 2 : kColumns);
  }
  // False: the column is behind the last.
  __device__ bool Has(int group) const {
    return kGated ? first < out / 2 : first + group * kColumns < out;
  }

  static constexpr int kGroups = 2;
  int64_t out;
  int first;
};

// sums += the warp's lines times kColumns results of the second matrix.
template <typename T>
__device__ inline void MultiplyWide(const LowRankArgs& args, const T* const (&hidden)[2],
                                    const T* up, const Place& place, float (&sums)[kTiles][4]) {
  for (int rank = 0; rank < args.rank; rank += kDepth) {
    const uint4 upper = WordAt(hidden[0] + rank), lower = WordAt(hidden[1] + rank);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const T* const own = up + ResultOf(n, place.group) * args.rank + rank;
      const bool is_rank = rank + kWordSize * place.part < args.rank;
      MultiplyWords<T>(upper, lower, is_rank ? WordAt(own) : uint4{}, sums[n]);
    }
  }
}

// As GEGLU of the two (kernels/elementwise.h), into the values.
template <typename T>
__device__ inline void ApplyGeglu(Pack<T, kWordSize>& value, const Pack<T, kWordSize>& gate) {
#pragma unroll
  for (int i = 0; i < kWordSize; ++i) {
    value.at[i] = FromFloat<T>(ToFloat(value.at[i]) * Gelu<T>(ToFloat(gate.at[i])));
  }
}

// One warp for kLines lines and two groups of kColumns results of a row, or GEGLU of the two; two
// warps of a block have the same lines.
template <bool kGated, typename T>
__global__ void __launch_bounds__(32 * kWarps) WideKernel(LowRankArgs args) {
  const Place place = PlaceOfThread();
  const WideColumns<kGated> columns(args.out, place.warp);
  const int64_t row = blockIdx.z, pitch = HiddenPitch(args.rank);
  const int64_t line =
      int64_t{blockIdx.y} * kBlockLines + place.warp % kCluster * kLines + place.group;
  const int word = kWordSize * place.part;
  const T* hidden[2];
  Pack<T, kWordSize> packs[2][2] = {};
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64_t own = min(line + 8 * h, args.lines - 1);
    const T* base = static_cast<const T*>(args.base) + row * args.base_row + own * args.base_line;
    hidden[h] = static_cast<const T*>(args.hidden) + (row * args.lines + own) * pitch + word;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (columns.Has(i)) Load<true>(base + columns[i] + word, kWordSize, packs[i][h]);
    }
  }
  if (HasPath(args, row)) {
    const T* up = static_cast<const T*>(args.up) + args.slot[row] * args.up_slot + word;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (!columns.Has(i)) break;
      float sums[kTiles][4] = {};
      MultiplyWide(args, hidden, up + columns[i] * args.rank, place, sums);
#pragma unroll
      for (int h = 0; h < 2; ++h) AddSums(sums, h, packs[i][h]);
    }
  }
  const int64_t out = kGated ? args.out / 2 : args.out;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (line + 8 * h >= args.lines) continue;
    T* const to = static_cast<T*>(args.result) + (row * args.lines + line + 8 * h) * out + word;
    if constexpr (kGated) ApplyGeglu(packs[0][h], packs[1][h]);
#pragma unroll
    for (int i = 0; i < (kGated ? 1 : 2); ++i) {
      if (columns.Has(i)) Store<true>(packs[i][h], kWordSize, to + columns[i]);
    }
  }
}

dim3 Blocks(int64_t x, int64_t y, int64_t z) {
  return {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
}

template <bool kWhole, typename T>
cudaError_t LaunchClusters(const LowRankArgs& a, cudaStream_t stream) {
  const auto kernel = ClusterKernel<kWhole, T>;
  const size_t bytes = kWhole ? sizeof(Shared<T>) : offsetof(Shared<T>, hidden);
  if (auto error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(bytes));
      error != cudaSuccess) {
    return error;
  }
  const Grid grid = {
      .blocks = Blocks(CeilDiv(a.lines, kBlockLines) * kCluster, CeilDiv(a.rank, kColumns), a.rows),
      .threads = 32 * kWarps,
      .shared_bytes = bytes,
      .cluster = kCluster};
  return Launch(kernel, grid, stream, a);
}

// Both launches of what is too wide for a cluster's memory.
template <bool kGated, typename T>
cudaError_t LaunchWide(const LowRankArgs& a, cudaStream_t stream) {
  if (auto error = LaunchClusters<false, T>(a, stream); error != cudaSuccess) return error;
  const Grid grid = {Blocks(CeilDiv(a.out, 4 * kColumns), CeilDiv(a.lines, kBlockLines), a.rows),
                     32 * kWarps};
  return Launch(WideKernel<kGated, T>, grid, stream, a);
}

template <typename T>
cudaError_t LaunchOn(const LowRankArgs& a, cudaStream_t stream) {
  const bool fits = a.rank <= kColumns && a.out <= kMostGroups * kCluster * kColumns;
  return fits ? LaunchClusters<true, T>(a, stream) : LaunchWide<false, T>(a, stream);
}

}  // namespace

cudaError_t LowRankByClusters(const LowRankArgs& args, cudaStream_t stream) {
  return args.element == Element::kBF16 ? LaunchOn<__nv_bfloat16>(args, stream)
                                        : LaunchOn<__half>(args, stream);
}

cudaError_t LowRankGeglu(const LowRankArgs& args, cudaStream_t stream) {
  return args.element == Element::kBF16 ? LaunchWide<true, __nv_bfloat16>(args, stream)
                                        : LaunchWide<true, __half>(args, stream);
}

}  // namespace latentd::backends::cuda::kernels
