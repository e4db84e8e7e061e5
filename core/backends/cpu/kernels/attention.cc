// softmax(scale q kᵀ) v for each head, without a matrix of all scores: a few queries at a time go
// over the keys block by block, keeping a running maximum, sum and weighted sum of values that is
// rescaled when the maximum grows (Milakov and Gimelshein 2018; Dao et al. 2022).
//
// Keys are first packed into tiles [size][kTile keys], so that a product of a few queries with a
// tile is vectors over keys; values into rows padded to whole vectors.
#include "core/backends/cpu/kernels/instruction_set.h"
#include "core/backends/cpu/kernels/vector_math.h"

namespace latentd::backends::cpu::LATENTD_ISA {
namespace {

// Sums kept in registers: kQueries rows of two vectors.
constexpr int64_t kQueries = kWidth == 16 ? 8 : 4;
constexpr int64_t kTile = 2 * kWidth;
constexpr int64_t kKeyBlock = 512;
// Queries of one task, which reads each block of keys from memory once.
constexpr int64_t kTaskQueries = 64;

constexpr float kLowest = -1e30f;

struct Sizes {
  int64_t padded_size;  // size of a head, in values and results
  int64_t padded_keys;  // whole tiles
  int64_t packed_keys;  // floats of one head of one row
  int64_t packed_values;
  int64_t task;  // floats of one thread
};

Sizes SizesOf(const AttentionArguments& a) {
  Sizes s;
  s.padded_size = RoundUp(a.size, kTile);
  s.padded_keys = RoundUp(a.keys, kTile);
  s.packed_keys = s.padded_keys * a.size;
  s.packed_values = a.keys * s.padded_size;
  s.task = RoundUp(kQueries * (a.size + kKeyBlock) + kTaskQueries * (s.padded_size + 2), 16);
  return s;
}

// A few queries' scores of one tile: scores[i][j] = sum over d of query[i][d] key[d][j].
inline void ScoreTile(const float* __restrict query, const float* __restrict key, int64_t size,
                      float* __restrict scores) {
  Vector sums[kQueries][2] = {};
  for (int64_t d = 0; d < size; ++d) {
    const Vector k0 = Load(key + d * kTile);
    const Vector k1 = Load(key + d * kTile + kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
      const float q = query[i * size + d];
      sums[i][0] += q * k0;
      sums[i][1] += q * k1;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
    Store(scores + i * kKeyBlock, sums[i][0]);
    Store(scores + i * kKeyBlock + kWidth, sums[i][1]);
  }
}

// result[i][..] += sum over j of weights[i][j] value[j][..], for two vectors of each row.
inline void AddValues(const float* __restrict weights, const float* __restrict value, int64_t count,
                      int64_t stride, float* __restrict result) {
  Vector sums[kQueries][2];
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
    sums[i][0] = Load(result + i * stride);
    sums[i][1] = Load(result + i * stride + kWidth);
  }
  for (int64_t j = 0; j < count; ++j) {
    const Vector v0 = Load(value + j * stride);
    const Vector v1 = Load(value + j * stride + kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
      const float w = weights[i * kKeyBlock + j];
      sums[i][0] += w * v0;
      sums[i][1] += w * v1;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
    Store(result + i * stride, sums[i][0]);
    Store(result + i * stride + kWidth, sums[i][1]);
  }
}

// One query's running softmax.
struct Running {
  float top, sum;
};

// Turns the scores of the first `seen` keys of a block into weights, the others up to `count` into
// zeros, and rescales what was summed up before.
inline void Weigh(float* __restrict scores, int64_t seen, int64_t count, Running* running,
                  float* __restrict result, int64_t padded_size) {
  const int64_t whole = RoundUp(seen, kWidth);
  for (int64_t j = seen; j < whole; ++j) scores[j] = kLowest;
  Vector tops = Broadcast(running->top);
  for (int64_t j = 0; j < whole; j += kWidth) tops = Max(tops, Load(scores + j));
  const float top = Largest(tops);
  Vector sums = {};
  for (int64_t j = 0; j < whole; j += kWidth) {
    const Vector weights = Exp(Load(scores + j) - top);
    Store(scores + j, weights);
    sums += weights;
  }
  for (int64_t j = seen; j < count; ++j) scores[j] = 0;
  if (top > running->top) {
    const Vector correction = Exp(Broadcast(running->top - top));
    running->sum *= correction[0];
    for (int64_t d = 0; d < padded_size; d += kWidth)
      Store(result + d, Load(result + d) * correction);
    running->top = top;
  }
  running->sum += Sum(sums);
}

struct Task {
  const AttentionArguments& a;
  Sizes s;
  int64_t row, head, begin, end;  // queries [begin, end)
  const float* keys;              // packed, of this head
  const float* values;
  // Memory of this thread: scaled queries [kQueries][size], scores [kQueries][kKeyBlock], sums
  // [kTaskQueries][padded size], running softmaxes [kTaskQueries].
  float* query;
  float* scores;
  float* result;
  Running* running;
};

template <typename T>
void ScaleQueries(const Task& t, int64_t first) {
  const AttentionArguments& a = t.a;
  for (int64_t i = 0; i < kQueries; ++i) {
    // Rows behind the last query repeat it; nothing reads their results.
    const int64_t token = first + i < t.end ? first + i : t.end - 1;
    const T* from = static_cast<const T*>(a.query) + t.row * a.query_row + token * a.query_token +
                    t.head * a.size;
    for (int64_t d = 0; d < a.size; ++d) t.query[i * a.size + d] = Float(from[d]) * a.scale;
  }
}

// How many of `count` keys from `key` on a query sees.
int64_t Seen(const AttentionArguments& a, int64_t query, int64_t key, int64_t count) {
  if (!a.causal) return count;
  const int64_t seen = query + 1 - key;
  return seen < 0 ? 0 : seen < count ? seen : count;
}

// Queries [first, first + kQueries) with the keys [key, key + count).
template <typename T>
void RunBlock(const Task& t, int64_t first, int64_t key, int64_t count) {
  const AttentionArguments& a = t.a;
  ScaleQueries<T>(t, first);
  for (int64_t j = 0; j < count; j += kTile) {
    ScoreTile(t.query, t.keys + (key + j) * a.size, a.size, t.scores + j);
  }
  float* result = t.result + (first - t.begin) * t.s.padded_size;
  for (int64_t i = 0; i < kQueries; ++i) {
    Weigh(t.scores + i * kKeyBlock, Seen(a, first + i, key, count), count,
          t.running + (first - t.begin) + i, result + i * t.s.padded_size, t.s.padded_size);
  }
  for (int64_t d = 0; d < t.s.padded_size; d += kTile) {
    AddValues(t.scores, t.values + key * t.s.padded_size + d, count, t.s.padded_size, result + d);
  }
}

template <typename T>
void RunTask(const Task& t) {
  const AttentionArguments& a = t.a;
  for (int64_t i = 0; i < kTaskQueries; ++i) t.running[i] = {kLowest, 0};
  for (int64_t i = 0; i < kTaskQueries * t.s.padded_size; ++i) t.result[i] = 0;
  for (int64_t key = 0; key < a.keys; key += kKeyBlock) {
    const int64_t count = key + kKeyBlock < a.keys ? kKeyBlock : a.keys - key;
    for (int64_t first = t.begin; first < t.end; first += kQueries) {
      if (a.causal && key >= first + kQueries) continue;
      RunBlock<T>(t, first, key, count);
    }
  }
  for (int64_t q = t.begin; q < t.end; ++q) {
    const float inverse = 1.0f / t.running[q - t.begin].sum;
    const float* from = t.result + (q - t.begin) * t.s.padded_size;
    T* to = static_cast<T*>(a.result) + ((t.row * a.queries + q) * a.heads + t.head) * a.size;
    for (int64_t d = 0; d < a.size; ++d) Assign(to + d, from[d] * inverse);
  }
}

// Keys of one head of one row into tiles; keys behind the last are zeros.
template <typename T>
void PackKeys(const AttentionArguments& a, const Sizes& s, const T* from, float* to) {
  for (int64_t key = 0; key < s.padded_keys; ++key) {
    float* tile = to + key / kTile * kTile * a.size + key % kTile;
    const T* token = from + key * a.key_token;
    for (int64_t d = 0; d < a.size; ++d) tile[d * kTile] = key < a.keys ? Float(token[d]) : 0;
  }
}

template <typename T>
void PackValues(const AttentionArguments& a, const Sizes& s, const T* from, float* to) {
  for (int64_t key = 0; key < a.keys; ++key) {
    const T* token = from + key * a.value_token;
    for (int64_t d = 0; d < a.size; ++d) to[key * s.padded_size + d] = Float(token[d]);
    for (int64_t d = a.size; d < s.padded_size; ++d) to[key * s.padded_size + d] = 0;
  }
}

// Queries of one task: fewer where there would be too few tasks for the threads.
int64_t QueriesOfATask(const AttentionArguments& a) {
  int64_t queries = kTaskQueries;
  while (queries > kQueries &&
         a.rows * a.heads * ((a.queries + queries - 1) / queries) < int64_t{4} * a.threads) {
    queries /= 2;
  }
  return queries;
}

template <typename T>
void Run(const AttentionArguments& a) {
  const Sizes s = SizesOf(a);
  const int64_t heads = a.rows * a.heads,
                head_floats = RoundUp(s.packed_keys + s.packed_values, 16);
  const int64_t step = QueriesOfATask(a), blocks = (a.queries + step - 1) / step;
  float* packed = reinterpret_cast<float*>(a.workspace);
  float* free_task = packed + heads * head_floats;
#pragma omp parallel num_threads(a.threads)
  {
    float* mine;
#pragma omp critical(latentd_attention_task)
    {
      mine = free_task;
      free_task += s.task;
    }
#pragma omp for schedule(static)
    for (int64_t i = 0; i < heads; ++i) {
      const int64_t row = i / a.heads, head = i % a.heads;
      float* to = packed + i * head_floats;
      const T* key = static_cast<const T*>(a.key) + row * a.key_row + head * a.size;
      const T* value = static_cast<const T*>(a.value) + row * a.value_row + head * a.size;
      PackKeys(a, s, key, to);
      PackValues(a, s, value, to + s.packed_keys);
    }
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < heads * blocks; ++i) {
      const int64_t head = i / blocks, begin = i % blocks * step;
      const float* keys = packed + head * head_floats;
      float* scores = mine + kQueries * a.size;
      float* result = scores + kQueries * kKeyBlock;
      Running* running = reinterpret_cast<Running*>(result + kTaskQueries * s.padded_size);
      RunTask<T>({a, s, head / a.heads, head % a.heads, begin,
                  begin + step < a.queries ? begin + step : a.queries, keys, keys + s.packed_keys,
                  mine, scores, result, running});
    }
  }
}

}  // namespace

size_t AttentionWorkspace(const AttentionArguments& a) {
  const Sizes s = SizesOf(a);
  return sizeof(float) *
         (a.rows * a.heads * RoundUp(s.packed_keys + s.packed_values, 16) + a.threads * s.task);
}

void Attention(const AttentionArguments& a) {
  a.element == Element::kBF16 ? Run<Bf16>(a) : Run<float>(a);
}

}  // namespace latentd::backends::cpu::LATENTD_ISA
