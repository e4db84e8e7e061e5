// A block has up to five warpgroups, each with a tile of 64 queries of its own, so that the tensor
// cores work for some of them while others compute exponentials. Tiles are dealt out in order of
// rows, heads and queries: those of a block that are of the same head share its keys and values,
// which come 64 at a time into a ring of stages.
#include <cuda.h>
#include <cutlass/arch/barrier.h>

#include <cmath>
#include <type_traits>

#include "core/backends/cuda/kernels/attention/long_attention.h"
#include "core/backends/cuda/kernels/common/launch.cuh"
#include "core/backends/cuda/kernels/hopper/attention_tile.cuh"

namespace latentd::backends::cuda::kernels {
namespace {

using Barrier = cutlass::arch::ClusterBarrier;
using CountingBarrier = cutlass::arch::ClusterTransactionBarrier;  // waits for bytes, too
using hopper::AttentionTile;
using hopper::kTokens;

constexpr int kSize = kAttentionSize;
constexpr int kMostGroups = kMostLongAttentionTiles;  // as many as registers are enough for
constexpr int kStages = 11;                           // as many as shared memory is enough for
constexpr int kThreadsOfGroup = 128;

struct Params {
  CUtensorMap query, key, value;  // [rows, heads, tokens, size]
  void* result;
  const float* f8_scale;  // null: the result is as the operands are
  int queries, heads, size, tiles_of_head, tiles, groups;
  int key_blocks, keys_of_last;  // kTokens each, but the last
  float scale;                   // to the exponent of 2
};

// The place of a warpgroup's tile, and the members that share keys with it: the warpgroups of its
// block whose tiles are of the same head, which have some of the stages for themselves.
struct Place {
  int row, head, first_query;
  int members, rank, first_stage, stages;
};

__device__ Place PlaceOf(const Params& p, int group) {
  const int first_tile = blockIdx.x * p.groups, end_tile = min(first_tile + p.groups, p.tiles);
  const int tile = first_tile + group, head = tile / p.tiles_of_head;  // over all rows
  const int first_head = first_tile / p.tiles_of_head;
  const int heads = (end_tile - 1) / p.tiles_of_head - first_head + 1;
  const int first_member = max(head * p.tiles_of_head, first_tile);
  const int end_member = min((head + 1) * p.tiles_of_head, end_tile);
  Place place;
  place.row = head / p.heads;
  place.head = head % p.heads;
  place.first_query = (tile - head * p.tiles_of_head) * kTokens;
  place.members = end_member - first_member;
  place.rank = tile - first_member;
  place.stages = kStages / heads;  // not fewer than members
  place.first_stage = (head - first_head) * place.stages;
  return place;
}

// When a warpgroup fills a stage the next time, and with what. It is in shared memory, since all
// registers are taken.
struct Turn {
  int after;         // the block that the warpgroup itself has then used
  int block, stage;  // `block` goes where, of the warpgroup's stages,
  int phase;         // this phase of being emptied ends
  Place place;
};

template <typename T>
struct Shared {
  using Tokens = T[kTokens * kSize];
  alignas(1024) Tokens queries[kMostGroups];
  alignas(1024) Tokens keys[kStages];
  alignas(1024) Tokens values[kStages];
  uint64_t queries_in[kMostGroups], filled[kStages], emptied[kStages];
  Turn turns[kMostGroups];
};

template <typename T>
__device__ void Load(const CUtensorMap& from, T* to, uint64_t* in, int token, int head, int row) {
  constexpr auto kHint = static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_NORMAL);
  cute::SM90_TMA_LOAD_4D::copy(&from, in, kHint, to, 0, token, head, row);
}

template <typename T>
__device__ void Fill(const Params& p, Shared<T>& shared, int stage, int block, int head, int row) {
  uint64_t* const filled = &shared.filled[stage];
  CountingBarrier::arrive_and_expect_tx(filled, 2 * sizeof(shared.keys[0]));
  Load(p.key, shared.keys[stage], filled, block * kTokens, head, row);
  Load(p.value, shared.values[stage], filled, block * kTokens, head, row);
}

template <typename T>
__device__ void InitBarriers(Shared<T>& shared, const Place& place, int group) {
  Barrier::init(&shared.queries_in[group], 1);
  if (place.rank != 0) return;
  for (int i = place.first_stage; i < place.first_stage + place.stages; ++i) {
    Barrier::init(&shared.filled[i], 1);
    Barrier::init(&shared.emptied[i], kThreadsOfGroup / 32 * place.members);
  }
}

// The queries, and by one of those that share them as many keys and values as there are stages for.
template <typename T>
__device__ void LoadFirst(const Params& p, Shared<T>& shared, const Place& place, int group) {
  uint64_t* const in = &shared.queries_in[group];
  CountingBarrier::arrive_and_expect_tx(in, sizeof(shared.queries[group]));
  Load(p.query, shared.queries[group], in, place.first_query, place.head, place.row);
  if (place.rank == 0) {
    for (int i = 0; i < min(place.stages, p.key_blocks); ++i) {
      Fill(p, shared, place.first_stage + i, i, place.head, place.row);
    }
  }
  // A stage is filled again a block later than it could be: less waiting for the slowest member.
  const int lag = place.stages > 3 ? 1 : 0;
  shared.turns[group] = {place.rank + lag, place.rank + place.stages, place.rank, 0, place};
}

// By one thread of each warpgroup, which has used block `used`: they take turns.
template <typename T>
__device__ void FillAgain(const Params& p, Shared<T>& shared, volatile Turn& turn, int used) {
  if (turn.after != used) return;
  const int members = turn.place.members, block = turn.block;
  int stage = turn.stage, phase = turn.phase;
  if (block < p.key_blocks) {
    const int at = turn.place.first_stage + stage;
    Barrier::wait(&shared.emptied[at], phase);
    Fill(p, shared, at, block, turn.place.head, turn.place.row);
  }
  stage += members;
  if (stage >= turn.place.stages) {
    stage -= turn.place.stages;
    phase ^= 1;
  }
  turn.after = used + members;
  turn.block = block + members;
  turn.stage = stage;
  turn.phase = phase;
}

// To: T, or F8E4M3.
template <typename T, typename To>
__device__ void Attend(const Params& p, Shared<T>& shared, const Place& place, int group) {
  const int thread = threadIdx.x % kThreadsOfGroup;
  volatile Turn& turn = shared.turns[group];
  AttentionTile<T, kStages> tile(shared.queries[group], shared.keys[0], shared.values[0], p.scale);
  const int first_stage = place.first_stage, last_stage = first_stage + place.stages - 1;
  int stage = first_stage, phase = 0;
  Barrier::wait(&shared.queries_in[group], 0);
  Barrier::wait(&shared.filled[stage], 0);
  tile.Score(stage, [] {});
  CUTE_NO_UNROLL
  for (int block = 0;; ++block) {
    const bool last = block + 1 == p.key_blocks;
    if (last && p.keys_of_last != kTokens) tile.Mask(p.keys_of_last);
    tile.Mix(stage);
    if (last) break;
    if (thread % 32 == 0) Barrier::arrive(&shared.emptied[stage]);
    phase ^= stage == last_stage;
    stage = stage == last_stage ? first_stage : stage + 1;
    Barrier::wait(&shared.filled[stage], phase);
    tile.Score(stage, [&] {
      if (thread == 0) FillAgain(p, shared, turn, block);
      __syncwarp();
    });
  }
  // All of the warpgroup are done with the queries, and see what the first has left in `turn`.
  cutlass::arch::NamedBarrier::sync(kThreadsOfGroup, group);
  const int64_t row = turn.place.row, token = int64_t{p.heads} * p.size;
  const int first_query = turn.place.first_query;
  To* const to = static_cast<To*>(p.result) + (row * p.queries + first_query) * token +
                 turn.place.head * p.size;
  const float factor = std::is_same_v<T, To> ? 1 : 1 / *p.f8_scale;
  tile.Store(shared.queries[group], to, token, p.queries - first_query, p.size, factor);
}

template <typename T, typename To>
__global__ void __launch_bounds__(kMostGroups* kThreadsOfGroup, 1)
    LongAttentionKernel(const __grid_constant__ Params p) {
  extern __shared__ char memory[];
  auto& shared = *reinterpret_cast<Shared<T>*>(memory);
  const int group = __shfl_sync(~0u, threadIdx.x / kThreadsOfGroup, 0);
  const bool has_tile = blockIdx.x * p.groups + group < p.tiles;
  const bool leads = has_tile && threadIdx.x % kThreadsOfGroup == 0;
  const Place place = PlaceOf(p, group);
  if (leads) InitBarriers(shared, place, group);
  cutlass::arch::fence_barrier_init();
  __syncthreads();
  if (!has_tile) return;
  WaitForStream();
  if (leads) LoadFirst(p, shared, place, group);
  __syncwarp();
  Attend<T, To>(p, shared, place, group);
}

// Fails with cudaErrorNotSupported where the driver has no such function, as without a driver.
cudaError_t Describe(const AttentionArgs& args, const AttentionArgs::Operand& operand,
                     int64_t tokens, CUtensorMap& map) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                     &found);
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  if (encode == nullptr) return cudaErrorNotSupported;
  const auto bytes = [](int64_t elements) { return static_cast<cuuint64_t>(elements * 2); };
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(args.size), static_cast<cuuint64_t>(tokens),
                              static_cast<cuuint64_t>(args.heads),
                              static_cast<cuuint64_t>(args.rows)};
  const cuuint64_t strides[] = {bytes(operand.token), bytes(args.size),
                                bytes(args.rows == 1 ? args.size : operand.row)};
  const cuuint32_t box[] = {kSize, kTokens, 1, 1}, steps[] = {1, 1, 1, 1};
  const auto type = args.element == Element::kF16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                  : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const CUresult result = encode(
      &map, type, 4, const_cast<void*>(operand.data), sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);  // beyond a head's size and the last token are zeros
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// So many warpgroups a block that all tiles are done first: more of them hide each other's waiting,
// but fewer may leave less of the last blocks' time unused.
int GroupsFor(int64_t tiles, int multiprocessors) {
  // How long a block takes for 4096 keys, in microseconds on an H100.
  constexpr int kTimes[kMostGroups] = {44, 47, 56, 65, 79};
  int best = 1;
  int64_t least = INT64_MAX;
  for (int groups = 1; groups <= kMostGroups; ++groups) {
    const int64_t time = CeilDiv(CeilDiv(tiles, groups), multiprocessors) * kTimes[groups - 1];
    if (time >= least) continue;
    least = time;
    best = groups;
  }
  return best;
}

cudaError_t ParamsOf(const AttentionArgs& args, int multiprocessors, Params& p) {
  const struct {
    const AttentionArgs::Operand& operand;
    int64_t tokens;
    CUtensorMap& map;
  } all[] = {{args.query, args.queries, p.query},
             {args.key, args.keys, p.key},
             {args.value, args.keys, p.value}};
  for (const auto& each : all) {
    if (auto error = Describe(args, each.operand, each.tokens, each.map); error != cudaSuccess) {
      return error;
    }
  }
  p.result = args.result;
  p.f8_scale = args.f8_scale;
  p.queries = static_cast<int>(args.queries);
  p.heads = static_cast<int>(args.heads);
  p.size = static_cast<int>(args.size);
  p.tiles_of_head = static_cast<int>(CeilDiv(args.queries, kTokens));
  p.tiles = static_cast<int>(LongAttentionTiles(args));
  p.groups = GroupsFor(p.tiles, multiprocessors);
  p.key_blocks = static_cast<int>(CeilDiv(args.keys, kTokens));
  p.keys_of_last = static_cast<int>(args.keys - (p.key_blocks - 1) * int64_t{kTokens});
  p.scale = args.scale * static_cast<float>(M_LOG2E);
  return cudaSuccess;
}

template <typename T, typename To>
cudaError_t LaunchFor(const Params& params, cudaStream_t stream) {
  const auto kernel = &LongAttentionKernel<T, To>;
  if (auto error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        sizeof(Shared<T>));
      error != cudaSuccess) {
    return error;
  }
  const Grid grid = {.blocks = static_cast<unsigned>(CeilDiv(params.tiles, params.groups)),
                     .threads = static_cast<unsigned>(params.groups * kThreadsOfGroup),
                     .shared_bytes = sizeof(Shared<T>),
                     .early = true};
  return Launch(kernel, grid, stream, params);
}

template <typename T>
cudaError_t LaunchFor(const Params& params, cudaStream_t stream) {
  return params.f8_scale == nullptr ? LaunchFor<T, T>(params, stream)
                                    : LaunchFor<T, F8E4M3>(params, stream);
}

}  // namespace

cudaError_t LongAttention(const AttentionArgs& args, cudaStream_t stream) {
  if (!HasLongAttention(args) ||
      !Aligned(16, args.query.data, args.key.data, args.value.data, args.result)) {
    return cudaErrorInvalidValue;
  }
  DeviceTraits device;
  if (auto error = QueryDevice(device); error != cudaSuccess) return error;
  if (device.compute_capability_major != 9) return cudaErrorNotSupported;
  Params params;
  if (auto error = ParamsOf(args, device.multiprocessors, params); error != cudaSuccess) {
    return error;
  }
  return args.element == Element::kF16 ? LaunchFor<cutlass::half_t>(params, stream)
                                       : LaunchFor<cutlass::bfloat16_t>(params, stream);
}

}  // namespace latentd::backends::cuda::kernels
