// 3x3 convolutions with a quarter of the multiplications: Winograd's F(4x4, 3x3) (Lavin and Gray
// 2015). Tiles of 6x6 pixels, 4 apart, become 36 numbers a channel, each of the 36 is a matrix
// product over channels, and the products become 4x4 pixels. Some tiles go through all three at a
// time, so that what lies between stays in a core's cache.
//
// The polynomials meet at 0, +-sqrt(1/2), +-sqrt(2) and infinity, which costs a third of the
// precision that the usual 0, +-1, +-2 cost.
#include "core/backends/cpu/kernels/checked_ranges.h"
#include "core/backends/cpu/kernels/instruction_set.h"
#include "core/backends/cpu/kernels/vector.h"

namespace latentd::backends::cpu::LATENTD_ISA {
namespace {

constexpr int kTile = 6, kStep = 4, kPositions = kTile * kTile;
constexpr float kP = 0.70710678f, kQ = 1.41421356f;  // sqrt(1/2), sqrt(2)

// Sums kept in registers: kTiles rows of two vectors.
constexpr int64_t kTiles = kWidth == 16 ? 8 : 4;
constexpr int64_t kColumns = 2 * kWidth;
// Most floats of one task's tiles, for a core's second cache.
constexpr int64_t kTaskFloats = int64_t{1} << 18;

struct Sizes {
  int64_t out;           // channels of the result, in whole columns
  int64_t down, across;  // tiles of an image
  int64_t tiles;         // tiles of all images
  int64_t block;         // tiles of a task
  // Floats from one position to the next: off a power of two, so that the 36 of a tile do not all
  // fall into the same lines of the cache.
  int64_t input_step, product_step;
};

Sizes SizesOf(const WinogradArguments& a) {
  Sizes s;
  s.out = RoundUp(a.out, kColumns);
  s.down = (a.height + kStep - 1) / kStep;
  s.across = (a.width + kStep - 1) / kStep;
  s.tiles = a.rows * s.down * s.across;
  s.block = kTaskFloats / (kPositions * (a.channels + s.out)) / kTiles * kTiles;
  // Several tasks for each thread, which are not all equally fast.
  const int64_t share = RoundUp(s.tiles / (int64_t{4} * a.threads), kTiles);
  s.block = s.block < share ? s.block : share;
  s.block = s.block > kTiles ? s.block : kTiles;
  s.input_step = s.block * a.channels + 16;
  s.product_step = s.block * s.out + 16;
  return s;
}

// B^T of the six values that lie `step` apart.
inline void TransformInput(Vector* x, int step) {
  const Vector x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step],
               x5 = x[5 * step];
  const Vector even1 = x4 - 2.0f * x2, odd1 = kP * x3 - kQ * x1;
  const Vector even2 = x4 - 0.5f * x2, odd2 = kQ * x3 - kP * x1;
  x[0] = x0 - 2.5f * x2 + x4;
  x[step] = even1 + odd1;
  x[2 * step] = even1 - odd1;
  x[3 * step] = even2 + odd2;
  x[4 * step] = even2 - odd2;
  x[5 * step] = x5 - 2.5f * x3 + x1;
}

// A^T of the six values that lie `step` apart, into the first four.
inline void TransformProducts(Vector* m, int step) {
  const Vector sum1 = m[step] + m[2 * step], difference1 = m[step] - m[2 * step];
  const Vector sum2 = m[3 * step] + m[4 * step], difference2 = m[3 * step] - m[4 * step];
  m[0] = m[0] + sum1 + sum2;
  m[step] = kP * difference1 + kQ * difference2;
  m[2 * step] = 0.5f * sum1 + 2.0f * sum2;
  m[3 * step] = 0.5f * kP * difference1 + 2.0f * kQ * difference2 + m[5 * step];
}

// The place of a tile.
struct Place {
  int64_t row, y, x;  // its first pixel in the result
};

Place PlaceOf(const Sizes& s, int64_t tile) {
  const int64_t in_image = tile % (s.down * s.across);
  return {tile / (s.down * s.across), in_image / s.across * kStep, in_image % s.across * kStep};
}

// The pixel of x that the convolution sees at [y, x], which may lie outside of the image.
inline const float* PixelOf(const WinogradArguments& a, int64_t row, int64_t y, int64_t x) {
  if (y < 0 || y >= a.height || x < 0 || x >= a.width) return nullptr;
  const int shift = a.upsampled ? 1 : 0;
  return a.x + ((row * (a.height >> shift) + (y >> shift)) * (a.width >> shift) + (x >> shift)) *
                   a.channels;
}

void ReadTile(const WinogradArguments& a, const Sizes& s, int64_t tile, float* inputs) {
  const Place place = PlaceOf(s, tile);
  const float* pixels[kPositions];
  for (int i = 0; i < kPositions; ++i) {
    pixels[i] = PixelOf(a, place.row, place.y - 1 + i / kTile, place.x - 1 + i % kTile);
  }
  for (int64_t c = 0; c < a.channels; c += kWidth) {
    Vector v[kPositions];
    for (int i = 0; i < kPositions; ++i)
      v[i] = pixels[i] != nullptr ? Load(pixels[i] + c) : Vector{};
#pragma GCC unroll 6
    for (int i = 0; i < kTile; ++i) TransformInput(v + i * kTile, 1);
#pragma GCC unroll 6
    for (int i = 0; i < kTile; ++i) TransformInput(v + i, kTile);
#pragma GCC unroll 36
    for (int i = 0; i < kPositions; ++i) Store(inputs + i * s.input_step + c, v[i]);
  }
}

// result[i][0, kColumns) = sum over c of input[i][c] weight[c][0, kColumns), for kTiles tiles.
LATENTD_CHECKED_BY_RANGES inline void Multiply(const float* __restrict input,
                                               const float* __restrict weight, int64_t channels,
                                               int64_t out, float* __restrict result) {
  CheckRead(input, kTiles * channels);
  CheckRead(weight, channels * kColumns);
  Vector sums[kTiles][2] = {};
  for (int64_t c = 0; c < channels; ++c) {
    // Not by Load: a function that a sanitizer checks is not inlined into one that it does not.
    const Vector w0 = *reinterpret_cast<const Vector*>(weight + c * kColumns);
    const Vector w1 = *reinterpret_cast<const Vector*>(weight + c * kColumns + kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < kTiles; ++i) {
      const float x = input[i * channels + c];
      sums[i][0] += x * w0;
      sums[i][1] += x * w1;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTiles; ++i) {
    Store(result + i * out, sums[i][0]);
    Store(result + i * out + kWidth, sums[i][1]);
  }
}

void WriteTile(const WinogradArguments& a, const Sizes& s, int64_t tile, const float* products) {
  const Place place = PlaceOf(s, tile);
  const int64_t down = a.height - place.y < kStep ? a.height - place.y : kStep;
  const int64_t across = a.width - place.x < kStep ? a.width - place.x : kStep;
  const int64_t first = ((place.row * a.height + place.y) * a.width + place.x) * a.out;
  for (int64_t c = 0; c < a.out; c += kWidth) {
    Vector m[kPositions];
#pragma GCC unroll 36
    for (int i = 0; i < kPositions; ++i) m[i] = Load(products + i * s.product_step + c);
#pragma GCC unroll 6
    for (int i = 0; i < kTile; ++i) TransformProducts(m + i, kTile);
#pragma GCC unroll 4
    for (int i = 0; i < kStep; ++i) TransformProducts(m + i * kTile, 1);
    const Vector bias = a.bias != nullptr ? Load(a.bias + c) : Vector{};
    for (int64_t i = 0; i < down; ++i) {
      for (int64_t j = 0; j < across; ++j) {
        const int64_t at = first + (i * a.width + j) * a.out + c;
        Vector value = m[i * kTile + j] + bias;
        if (a.residual != nullptr) value += Load(a.residual + at);
        Store(a.y + at, value);
      }
    }
  }
}

// Tiles [begin, begin + count).
void RunBlock(const WinogradArguments& a, const Sizes& s, int64_t begin, int64_t count,
              float* inputs, float* products) {
  for (int64_t i = 0; i < count; ++i) ReadTile(a, s, begin + i, inputs + i * a.channels);
  for (int64_t position = 0; position < kPositions; ++position) {
    const float* weight = a.weight + position * a.channels * s.out;
    for (int64_t k = 0; k < s.out; k += kColumns) {
      // Products behind the last tile are of what lay there, and nothing reads them.
      for (int64_t i = 0; i < count; i += kTiles) {
        Multiply(inputs + position * s.input_step + i * a.channels, weight + k * a.channels,
                 a.channels, s.out, products + position * s.product_step + i * s.out + k);
      }
    }
  }
  for (int64_t i = 0; i < count; ++i) WriteTile(a, s, begin + i, products + i * s.out);
}

// G g G^T of kColumns weights g, whose taps are given; its 36 numbers are `step` apart.
void PackColumns(const double (&taps)[9][kColumns], float* packed, int64_t step) {
  constexpr double kG[kTile][3] = {{1, 0, 0},
                                   {-2.0 / 3, -2 * kP / 3, -1.0 / 3},
                                   {-2.0 / 3, 2 * kP / 3, -1.0 / 3},
                                   {1.0 / 6, kQ / 6, 1.0 / 3},
                                   {1.0 / 6, -kQ / 6, 1.0 / 3},
                                   {0, 0, 1}};
  for (int i = 0; i < kTile; ++i) {
    double rows[3][kColumns];
    for (int j = 0; j < 3; ++j) {
      for (int64_t c = 0; c < kColumns; ++c) {
        rows[j][c] = kG[i][0] * taps[j][c] + kG[i][1] * taps[3 + j][c] + kG[i][2] * taps[6 + j][c];
      }
    }
    for (int j = 0; j < kTile; ++j, packed += step) {
      for (int64_t c = 0; c < kColumns; ++c) {
        const double sum = kG[j][0] * rows[0][c] + kG[j][1] * rows[1][c] + kG[j][2] * rows[2][c];
        packed[c] = static_cast<float>(sum);
      }
    }
  }
}

}  // namespace

size_t WinogradWorkspace(const WinogradArguments& a) {
  const Sizes s = SizesOf(a);
  return sizeof(float) * a.threads * kPositions * (s.input_step + s.product_step);
}

size_t WinogradWeightBytes(int64_t channels, int64_t out) {
  return sizeof(float) * kPositions * channels * RoundUp(out, kColumns);
}

void WinogradPack(const float* weight, int64_t channels, int64_t out, float* packed) {
  const int64_t wide = RoundUp(out, kColumns);
  for (int64_t k = 0; k < wide; k += kColumns) {
    for (int64_t c = 0; c < channels; ++c) {
      double taps[9][kColumns] = {};
      for (int64_t column = 0; column < kColumns && k + column < out; ++column) {
        const float* from = weight + ((k + column) * channels + c) * 9;
        for (int i = 0; i < 9; ++i) taps[i][column] = from[i];
      }
      PackColumns(taps, packed + k * channels + c * kColumns, channels * wide);
    }
  }
}

void Winograd(const WinogradArguments& a) {
  const Sizes s = SizesOf(a);
  const int64_t floats = kPositions * (s.input_step + s.product_step);
  float* free_floats = reinterpret_cast<float*>(a.workspace);
#pragma omp parallel num_threads(a.threads)
  {
    float* mine;
#pragma omp critical(latentd_winograd_task)
    {
      mine = free_floats;
      free_floats += floats;
    }
#pragma omp for schedule(dynamic)
    for (int64_t begin = 0; begin < s.tiles; begin += s.block) {
      const int64_t count = begin + s.block < s.tiles ? s.block : s.tiles - begin;
      RunBlock(a, s, begin, count, mine, mine + kPositions * s.input_step);
    }
  }
}

}  // namespace latentd::backends::cpu::LATENTD_ISA
