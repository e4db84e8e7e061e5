// Low-rank paths of rows: every line of x to a few sums, then those to what is added to a line of
// base. The first are kept in the workspace, in f32; of the second matrix a tile of columns at a
// time is turned, so that a sum of a line is vectors of results.
#include "core/backends/cpu/kernels/instruction_set.h"
#include "core/backends/cpu/kernels/vector.h"

namespace latentd::backends::cpu::LATENTD_ISA {
namespace {

// Sums kept in registers: so many lines by so many ranks, or by two vectors of results.
constexpr int64_t kLines = 4, kRanks = kWidth == 16 ? 4 : 2;
constexpr int64_t kTile = 2 * kWidth;
// Lines of one task.
constexpr int64_t kTaskLines = 32;

struct Sizes {
  int64_t padded_lines;  // whole groups of lines, and of ranks
  int64_t padded_rank;
  int64_t hidden;  // floats of all rows' sums
  int64_t turned;  // floats of a thread's tile
};

Sizes SizesOf(const LowRankArguments& a) {
  Sizes s;
  s.padded_lines = RoundUp(a.lines, kLines);
  s.padded_rank = RoundUp(a.rank, kRanks);
  s.hidden = RoundUp(a.rows * s.padded_lines * s.padded_rank, 16);
  s.turned = RoundUp(a.rank * kTile, 16);
  return s;
}

inline bool HasPath(const LowRankArguments& a, int64_t row) {
  if (a.slot[row] < 0 || a.slot[row] >= a.slots) return false;
  const float* scale = a.scale + row * a.scale_row;
  for (int64_t r = 0; r < a.rank; ++r) {
    if (scale[r] != 0) return true;
  }
  return false;
}

inline int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

// sums[l][r] = sum over i of x[l][i] down[r][i].
template <typename T>
inline void Multiply(const T* const (&x)[kLines], const T* const (&down)[kRanks], int64_t in,
                     float (&sums)[kLines][kRanks]) {
  Vector parts[kLines][kRanks] = {};
  ForEachVector(in, [&](int64_t i, auto part) {
    Vector read[kLines];
#pragma GCC unroll 4
    for (int l = 0; l < kLines; ++l) read[l] = Load(x[l] + i, part);
#pragma GCC unroll 4
    for (int r = 0; r < kRanks; ++r) {
      const Vector weight = Load(down[r] + i, part);
#pragma GCC unroll 4
      for (int l = 0; l < kLines; ++l) parts[l][r] += read[l] * weight;
    }
  });
#pragma GCC unroll 4
  for (int l = 0; l < kLines; ++l) {
#pragma GCC unroll 4
    for (int r = 0; r < kRanks; ++r) sums[l][r] = Sum(parts[l][r]);
  }
}

// The scaled sums of a group of lines, [kLines, padded rank]. Lines and ranks behind the last
// repeat it; nothing reads their results.
template <typename T>
void Shrink(const LowRankArguments& a, const Sizes& s, int64_t row, int64_t first, float* hidden) {
  const T* from = static_cast<const T*>(a.x) + row * a.x_row;
  const T* matrix = static_cast<const T*>(a.down) + a.slot[row] * a.down_slot;
  const float* scale = a.scale + row * a.scale_row;
  const T* x[kLines];
  for (int l = 0; l < kLines; ++l) x[l] = from + Least(first + l, a.lines - 1) * a.x_line;
  for (int64_t rank = 0; rank < a.rank; rank += kRanks) {
    const T* down[kRanks];
    for (int r = 0; r < kRanks; ++r) down[r] = matrix + Least(rank + r, a.rank - 1) * a.in;
    float sums[kLines][kRanks];
    Multiply(x, down, a.in, sums);
    for (int l = 0; l < kLines; ++l) {
      for (int r = 0; r < kRanks; ++r) {
        hidden[l * s.padded_rank + rank + r] = sums[l][r] * scale[Least(rank + r, a.rank - 1)];
      }
    }
  }
}

// Results [first, first + kTile) of a slot's second matrix as [rank, kTile], zeros behind the last.
template <typename T>
void Turn(const LowRankArguments& a, const T* matrix, int64_t first, float* turned) {
  for (int64_t o = 0; o < kTile; ++o) {
    const T* from = matrix + Least(first + o, a.out - 1) * a.rank;
    const bool is_result = first + o < a.out;
    for (int64_t r = 0; r < a.rank; ++r) turned[r * kTile + o] = is_result ? Float(from[r]) : 0;
  }
}

// paths[l] = hidden[l] * turned, for a group of lines.
inline void AddRanks(const float* __restrict hidden, int64_t pitch, const float* __restrict turned,
                     int64_t rank, float (&paths)[kLines][kTile]) {
  Vector sums[kLines][2] = {};
  for (int64_t r = 0; r < rank; ++r) {
    const Vector up0 = Load(turned + r * kTile), up1 = Load(turned + r * kTile + kWidth);
#pragma GCC unroll 4
    for (int l = 0; l < kLines; ++l) {
      const float u = hidden[l * pitch + r];
      sums[l][0] += u * up0;
      sums[l][1] += u * up1;
    }
  }
#pragma GCC unroll 4
  for (int l = 0; l < kLines; ++l) {
    Store(paths[l], sums[l][0]);
    Store(paths[l] + kWidth, sums[l][1]);
  }
}

// y = base + hidden * turned, for a tile of a group of lines.
template <typename T>
void Expand(const LowRankArguments& a, const Sizes& s, int64_t row, int64_t line, int64_t first,
            const float* hidden, const float* turned) {
  float paths[kLines][kTile];
  AddRanks(hidden, s.padded_rank, turned, a.rank, paths);
  for (int64_t l = 0; l < kLines && line + l < a.lines; ++l) {
    const T* base =
        static_cast<const T*>(a.base) + row * a.base_row + (line + l) * a.base_line + first;
    T* y = static_cast<T*>(a.y) + (row * a.lines + line + l) * a.out + first;
    const float* path = paths[l];
    ForEachVector(Least(kTile, a.out - first), [&](int64_t i, auto part) {
      Store(y + i, Load(base + i, part) + Load(path + i, part), part);
    });
  }
}

// A share of the lines of a row that has no path.
template <typename T>
void CopyLines(const LowRankArguments& a, int64_t row, int64_t begin, int64_t end) {
  const T* base = static_cast<const T*>(a.base) + row * a.base_row;
  T* y = static_cast<T*>(a.y) + row * a.lines * a.out;
  for (int64_t line = begin; line < end; ++line) {
    __builtin_memcpy(y + line * a.out, base + line * a.base_line, a.out * sizeof(T));
  }
}

template <typename T>
void ExpandTile(const LowRankArguments& a, const Sizes& s, int64_t row, int64_t first,
                const float* hidden, float* turned) {
  Turn(a, static_cast<const T*>(a.up) + a.slot[row] * a.up_slot, first, turned);
  for (int64_t line = 0; line < a.lines; line += kLines) {
    Expand<T>(a, s, row, line, first, hidden + line * s.padded_rank, turned);
  }
}

template <typename T>
void RunPaths(const LowRankArguments& a) {
  const Sizes s = SizesOf(a);
  const int64_t blocks = (a.lines + kTaskLines - 1) / kTaskLines;
  const int64_t tiles = (a.out + kTile - 1) / kTile;
  float* hidden = reinterpret_cast<float*>(a.workspace);
  float* free_tile = hidden + s.hidden;
  const int64_t row_floats = s.padded_lines * s.padded_rank;
#pragma omp parallel num_threads(a.threads)
  {
    float* mine;
#pragma omp critical(latentd_low_rank_tile)
    {
      mine = free_tile;
      free_tile += s.turned;
    }
#pragma omp for schedule(static)
    for (int64_t i = 0; i < a.rows * blocks; ++i) {
      const int64_t row = i / blocks, begin = i % blocks * kTaskLines;
      if (!HasPath(a, row)) continue;
      for (int64_t line = begin; line < Least(begin + kTaskLines, a.lines); line += kLines) {
        Shrink<T>(a, s, row, line, hidden + row * row_floats + line * s.padded_rank);
      }
    }
#pragma omp for schedule(static)
    for (int64_t i = 0; i < a.rows * tiles; ++i) {
      const int64_t row = i / tiles, tile = i % tiles;
      if (HasPath(a, row)) {
        ExpandTile<T>(a, s, row, tile * kTile, hidden + row * row_floats, mine);
      } else {
        CopyLines<T>(a, row, tile * a.lines / tiles, (tile + 1) * a.lines / tiles);
      }
    }
  }
}

}  // namespace

size_t LowRankWorkspace(const LowRankArguments& a) {
  const Sizes s = SizesOf(a);
  return sizeof(float) * (s.hidden + a.threads * s.turned);
}

void LowRank(const LowRankArguments& a) {
  a.element == Element::kBF16 ? RunPaths<Bf16>(a) : RunPaths<float>(a);
}

}  // namespace latentd::backends::cpu::LATENTD_ISA
