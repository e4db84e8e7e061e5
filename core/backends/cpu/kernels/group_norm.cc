// y = gamma (x - mean) / sqrt(variance + epsilon) + beta over each group of channels of a row,
// optionally with a value added to each channel before and silu after.
//
// The sums are taken of the distances from the row's first pixel, in float over a few pixels and in
// double over those, and combined by Chan's formula: as exact as two passes, in one. A value that
// is added to a channel moves its mean and nothing else, so it costs nothing.
#include "core/backends/cpu/kernels/instruction_set.h"
#include "core/backends/cpu/kernels/vector_math.h"

namespace latentd::backends::cpu::LATENTD_ISA {
namespace {

// Pixels whose sums are kept in float.
constexpr int64_t kPixels = 128;

// Sums over one channel of one row: of x - pivot and of its square.
struct Sums {
  double first, second;
};

// y = (x - center) scale + shift: the mean goes off first, so that a large one costs no digits.
struct Affine {
  float center, scale, shift;
};

// [threads][rows][channels] Sums, then [rows][channels] each of centers, scales and shifts.
struct Workspace {
  Sums* sums;
  float* centers;
  float* scales;
  float* shifts;
};

Workspace Layout(const GroupNormArguments& a) {
  Sums* sums = reinterpret_cast<Sums*>(a.workspace);
  float* centers = reinterpret_cast<float*>(sums + a.threads * a.rows * a.channels);
  const int64_t size = a.rows * a.channels;
  return {sums, centers, centers + size, centers + 2 * size};
}

// Adds pixels [begin, end) of kVectors whole vectors of channels to `sums`. `x` points to the first
// of those channels in pixel 0, the pivot; pixels are `stride` apart.
template <int kVectors, typename T>
inline void AddVectors(const T* x, int64_t begin, int64_t end, int64_t stride, Sums* sums) {
  Vector pivot[kVectors];
  for (int v = 0; v < kVectors; ++v) pivot[v] = Load(x + v * kWidth);
  for (int64_t from = begin; from < end; from += kPixels) {
    const int64_t to = from + kPixels < end ? from + kPixels : end;
    Vector first[kVectors] = {}, second[kVectors] = {};
    for (int64_t p = from; p < to; ++p) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const Vector d = Load(x + p * stride + v * kWidth) - pivot[v];
        first[v] += d;
        second[v] += d * d;
      }
    }
    for (int c = 0; c < kVectors * kWidth; ++c) {
      sums[c].first += first[c / kWidth][c % kWidth];
      sums[c].second += second[c / kWidth][c % kWidth];
    }
  }
}

// The same for one channel.
template <typename T>
inline void AddChannel(const T* x, int64_t begin, int64_t end, int64_t stride, Sums* sums) {
  for (int64_t p = begin; p < end; ++p) {
    const double d = Float(x[p * stride]) - Float(x[0]);
    sums->first += d;
    sums->second += d * d;
  }
}

template <typename T>
void SumNhwc(const GroupNormArguments& a, int64_t row, int64_t begin, int64_t end, Sums* sums) {
  const T* x = static_cast<const T*>(a.x) + row * a.pixels * a.channels;
  for (int64_t c = 0; c < a.channels; ++c) sums[c] = {0, 0};
  int64_t c = 0;
  for (; c + 4 * kWidth <= a.channels; c += 4 * kWidth) {
    AddVectors<4>(x + c, begin, end, a.channels, sums + c);
  }
  for (; c + kWidth <= a.channels; c += kWidth) {
    AddVectors<1>(x + c, begin, end, a.channels, sums + c);
  }
  for (; c < a.channels; ++c) AddChannel(x + c, begin, end, a.channels, sums + c);
}

// The pixel that distances are taken from.
template <typename T>
float Pivot(const GroupNormArguments& a, int64_t row, int64_t channel, bool nhwc) {
  const T* x = static_cast<const T*>(a.x);
  return Float(nhwc ? x[row * a.pixels * a.channels + channel]
                    : x[(row * a.channels + channel) * a.pixels]);
}

// Sums of one channel over the threads' parts.
Sums Total(const GroupNormArguments& a, const Workspace& w, int parts, int64_t row, int64_t c) {
  Sums total = {0, 0};
  for (int part = 0; part < parts; ++part) {
    const Sums& sums = w.sums[(part * a.rows + row) * a.channels + c];
    total.first += sums.first;
    total.second += sums.second;
  }
  return total;
}

// Scale and shift of the channels of one group from the sums of `parts` threads.
template <typename T>
void Finish(const GroupNormArguments& a, const Workspace& w, int parts, int64_t row, int64_t group,
            bool nhwc) {
  const int64_t size = a.channels / a.groups, first = group * size;
  const double n = static_cast<double>(a.pixels);
  const T* added =
      a.added == nullptr ? nullptr : static_cast<const T*>(a.added) + row * a.added_pitch;
  double mean = 0, squares = 0, mean_squares = 0, reference = 0;
  for (int64_t c = first; c < first + size; ++c) {
    const Sums total = Total(a, w, parts, row, c);
    const double channel_mean =
        Pivot<T>(a, row, c, nhwc) + total.first / n + (added == nullptr ? 0.0 : Float(added[c]));
    if (c == first) reference = channel_mean;
    squares += total.second - total.first * total.first / n;
    mean += channel_mean - reference;
    mean_squares += (channel_mean - reference) * (channel_mean - reference);
  }
  mean /= static_cast<double>(size);
  const double between = mean_squares - static_cast<double>(size) * mean * mean;
  const double variance = (squares + n * between) / (n * static_cast<double>(size));
  mean += reference;
  const double inverse = 1.0 / __builtin_sqrt((variance > 0 ? variance : 0) + a.epsilon);
  for (int64_t c = first; c < first + size; ++c) {
    const int64_t i = row * a.channels + c;
    const double center = mean - (added == nullptr ? 0.0 : Float(added[c]));
    const double scale = a.gamma[c] * inverse;
    w.centers[i] = static_cast<float>(center);
    w.scales[i] = static_cast<float>(scale);
    w.shifts[i] = static_cast<float>(a.beta[c] + (w.centers[i] - center) * scale);
  }
}

template <bool kSilu, typename T>
void ApplyNhwc(const GroupNormArguments& a, const Workspace& w, int64_t row, int64_t begin,
               int64_t end) {
  const int64_t channels = a.channels;
  const float* __restrict centers = w.centers + row * channels;
  const float* __restrict scales = w.scales + row * channels;
  const float* __restrict shifts = w.shifts + row * channels;
  const T* __restrict x = static_cast<const T*>(a.x) + (row * a.pixels + begin) * channels;
  T* __restrict y = static_cast<T*>(a.y) + (row * a.pixels + begin) * channels;
  for (int64_t p = begin; p < end; ++p, x += channels, y += channels) {
    ForEachVector(channels, [&](int64_t c, auto part) {
      const Vector d = Load(x + c, part) - Load(centers + c, part);
      const Vector v = d * Load(scales + c, part) + Load(shifts + c, part);
      Store(y + c, kSilu ? Silu(v) : v, part);
    });
  }
}

template <typename T>
void SumNchw(const GroupNormArguments& a, int64_t row, int64_t c, Sums* sums) {
  const T* x = static_cast<const T*>(a.x) + (row * a.channels + c) * a.pixels;
  const float pivot = Float(x[0]);
  *sums = {0, 0};
  for (int64_t from = 0; from < a.pixels; from += 1024) {
    const int64_t to = from + 1024 < a.pixels ? from + 1024 : a.pixels;
    float first = 0, second = 0;
#pragma omp simd reduction(+ : first, second)
    for (int64_t p = from; p < to; ++p) {
      const float d = Float(x[p]) - pivot;
      first += d;
      second += d * d;
    }
    sums->first += first;
    sums->second += second;
  }
}

template <bool kSilu, typename T>
void ApplyNchw(const GroupNormArguments& a, const Workspace& w, int64_t row, int64_t c) {
  const int64_t channel = row * a.channels + c;
  const float center = w.centers[channel], scale = w.scales[channel], shift = w.shifts[channel];
  const T* __restrict x = static_cast<const T*>(a.x) + channel * a.pixels;
  T* __restrict y = static_cast<T*>(a.y) + channel * a.pixels;
  ForEachVector(a.pixels, [&](int64_t p, auto part) {
    const Vector v = (Load(x + p, part) - center) * scale + shift;
    Store(y + p, kSilu ? Silu(v) : v, part);
  });
}

template <typename T>
void NormNhwc(const GroupNormArguments& a) {
  const Workspace w = Layout(a);
  // Each part of the pixels is summed and normed by one thread; there may be fewer threads.
  const int parts = a.threads;
#pragma omp parallel num_threads(a.threads)
  {
#pragma omp for schedule(static)
    for (int part = 0; part < parts; ++part) {
      for (int64_t row = 0; row < a.rows; ++row) {
        SumNhwc<T>(a, row, part * a.pixels / parts, (part + 1) * a.pixels / parts,
                   w.sums + (part * a.rows + row) * a.channels);
      }
    }
#pragma omp for schedule(static)
    for (int64_t i = 0; i < a.rows * a.groups; ++i) {
      Finish<T>(a, w, parts, i / a.groups, i % a.groups, /*nhwc=*/true);
    }
#pragma omp for schedule(static)
    for (int part = 0; part < parts; ++part) {
      for (int64_t row = 0; row < a.rows; ++row) {
        const int64_t begin = part * a.pixels / parts, end = (part + 1) * a.pixels / parts;
        a.silu ? ApplyNhwc<true, T>(a, w, row, begin, end)
               : ApplyNhwc<false, T>(a, w, row, begin, end);
      }
    }
  }
}

template <typename T>
void NormNchw(const GroupNormArguments& a) {
  const Workspace w = Layout(a);
#pragma omp parallel num_threads(a.threads)
  {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < a.rows * a.channels; ++i) {
      SumNchw<T>(a, i / a.channels, i % a.channels, w.sums + i);
    }
#pragma omp for schedule(static)
    for (int64_t i = 0; i < a.rows * a.groups; ++i) {
      Finish<T>(a, w, /*parts=*/1, i / a.groups, i % a.groups, /*nhwc=*/false);
    }
#pragma omp for schedule(static)
    for (int64_t i = 0; i < a.rows * a.channels; ++i) {
      const int64_t row = i / a.channels, c = i % a.channels;
      a.silu ? ApplyNchw<true, T>(a, w, row, c) : ApplyNchw<false, T>(a, w, row, c);
    }
  }
}

}  // namespace

size_t GroupNormWorkspace(int64_t rows, int64_t channels, int threads) {
  return static_cast<size_t>(rows * channels) * (threads * sizeof(Sums) + sizeof(Affine));
}

void GroupNormNhwc(const GroupNormArguments& a) {
  a.element == Element::kBF16 ? NormNhwc<Bf16>(a) : NormNhwc<float>(a);
}

void GroupNormNchw(const GroupNormArguments& a) {
  a.element == Element::kBF16 ? NormNchw<Bf16>(a) : NormNchw<float>(a);
}

}  // namespace latentd::backends::cpu::LATENTD_ISA
