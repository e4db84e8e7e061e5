// The CPU backend's own loops: what oneDNN does not do, or does slower. The same sources are
// compiled once per instruction set, and KernelsOfThisMachine picks one table when first asked.
//
// All functions run on the OpenMP threads of the process (`threads` of them where an argument says
// so), allocate nothing, and take pointers of any alignment. Arguments are not checked: the backend
// builds them from a verified graph. Only plain data crosses this header, since code that the
// compiler could emit out of line in several of those objects (anything inline from std) must not
// be used in them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace latentd::backends::cpu {

// The dtype of elements in memory. All arithmetic is on floats.
enum class Element : uint8_t { kF32, kBF16, kF16 };

enum class UnaryFunction : uint8_t { kSilu, kGelu, kQuickGelu, kRelu, kTanh, kExp };
enum class BinaryFunction : uint8_t { kAdd, kSub, kMul, kDiv };

inline constexpr int kMaxLoops = 8;

// Loops over up to kMaxLoops dimensions, outermost first, with a stride in elements for each of up
// to three operands: the result, then what is read.
struct LoopNest {
  int rank = 0;
  int64_t sizes[kMaxLoops] = {};
  int64_t strides[3][kMaxLoops] = {};
};

struct GroupNormArguments {
  Element element;  // x, y and added are: kF32 or kBF16
  const void* x;
  void* y;
  const float* gamma;   // [channels]
  const float* beta;    // [channels]
  const void* added;    // [rows, channels], added to x before the norm; nullptr: nothing
  int64_t added_pitch;  // elements from a row of `added` to the next
  int64_t rows, channels, pixels, groups;
  float epsilon;
  bool silu;  // applied to the result
  int threads;
  char* workspace;  // GroupNormWorkspace bytes
};

struct AttentionArguments {
  Element element;  // all four are: kF32 or kBF16
  const void* query;
  const void* key;
  const void* value;
  void* result;  // dense [rows, queries, heads * size]
  int64_t rows, queries, keys, heads, size;
  // Strides in elements; within a token the channels are contiguous.
  int64_t query_row, query_token, key_row, key_token, value_row, value_token;
  float scale;
  bool causal;
  int threads;
  char* workspace;  // AttentionWorkspace bytes
};

// graph::Op::kLowRank.
struct LowRankArguments {
  Element element;      // base, x, down, up and y are: kF32 or kBF16
  const void* base;     // [rows, lines, out]
  const void* x;        // [rows, lines, in]
  const void* down;     // [slots, rank, in]
  const void* up;       // [slots, out, rank]
  const int64_t* slot;  // [rows]
  const float* scale;   // [rows, rank]
  void* y;              // dense [rows, lines, out], apart from all that is read
  int64_t rows, lines, in, out, slots, rank;
  // Strides in elements; a line, a slot's matrix and a row's scales are contiguous.
  int64_t base_row, base_line, x_row, x_line, down_slot, up_slot, scale_row;
  int threads;
  char* workspace;  // LowRankWorkspace bytes
};

// A 3x3 convolution, of stride 1, that keeps the size of the image.
struct WinogradArguments {
  const float* x;         // [rows, height, width, channels], of half the sides if `upsampled`
  const float* weight;    // as winograd_pack makes it
  const float* bias;      // [out], or nullptr
  const float* residual;  // as y, added to it; or nullptr
  float* y;               // [rows, height, width, out]
  int64_t rows, height, width;
  int64_t channels, out;  // multiples of kWinogradChannels
  bool upsampled;         // each pixel of x stands for two by two, which the convolution sees
  int threads;
  char* workspace;  // WinogradWorkspace bytes
};
inline constexpr int64_t kWinogradChannels = 16;

struct UpsampleArguments {
  int64_t element_bytes;  // 2 or 4
  const void* x;
  void* y;
  // Images are [outer, height, width, inner]: inner is the channels in NHWC and 1 in NCHW.
  int64_t outer, height, width, to_height, to_width, inner;
};

struct InterleaveArguments {
  // Images [rows, width, pixels of so many bytes], rows of all pictures: of the result's even rows
  // the even and the odd columns, then of its odd rows.
  const char* phases[4];
  char* y;  // [2 * rows, 2 * width] pixels
  int64_t rows, width, pixel_bytes;
};

// graph::Op::kSchedulerStep. `next` is `state` or apart from all that is read.
struct SchedulerStepArguments {
  const float* state;   // [rows, 4, elements]
  const float* output;  // [rows, elements]
  const float* noise;   // [rows, elements]
  const float* line;    // [rows, 27]
  float* next;          // [rows, 4, elements]
  int64_t rows, elements;
};

struct KernelTable {
  const char* name;  // "avx512"

  // Images [rows, pixels, channels] and [rows, channels, pixels].
  void (*group_norm_nhwc)(const GroupNormArguments&);
  void (*group_norm_nchw)(const GroupNormArguments&);
  size_t (*group_norm_workspace)(int64_t rows, int64_t channels, int threads);

  void (*attention)(const AttentionArguments&);
  size_t (*attention_workspace)(const AttentionArguments&);

  // A row's result is the same bytes, whatever rows are beside it and however many zeros its ranks
  // end in.
  void (*low_rank)(const LowRankArguments&);
  size_t (*low_rank_workspace)(const LowRankArguments&);

  void (*winograd)(const WinogradArguments&);
  size_t (*winograd_workspace)(const WinogradArguments&);
  size_t (*winograd_weight_bytes)(int64_t channels, int64_t out);
  void (*winograd_pack)(const float* weight, int64_t channels, int64_t out, float* packed);

  // `element`, of x and y here, of all operands below: kF32 or kBF16.
  void (*layer_norm)(Element element, const void* x, void* y, const float* gamma, const float* beta,
                     int64_t rows, int64_t size, float epsilon);
  void (*softmax)(const float* x, float* y, int64_t rows, int64_t size);
  void (*row_std)(const float* x, float* y, int64_t rows, int64_t size);
  // y [rows]: 1 where all elements of x [rows, size] are finite, else 0.
  void (*is_finite)(Element element, const void* x, uint8_t* y, int64_t rows, int64_t size);
  void (*unary)(UnaryFunction function, Element element, const void* x, void* y, int64_t size);
  void (*clamp)(Element element, const void* x, void* y, int64_t size, float min, float max);
  // x [rows, 2 * size] -> y [rows, size]
  void (*geglu)(Element element, const void* x, void* y, int64_t rows, int64_t size);
  // y may be a or b.
  void (*binary)(BinaryFunction function, Element element, const LoopNest& loops, void* y,
                 const void* a, const void* b);
  // To nearest even; NaN stays NaN, what is too large for f16 becomes infinite.
  void (*convert)(Element from, Element to, const void* x, void* y, int64_t size);
  // graph::Op::kToPixels, to the bit in every instruction set.
  void (*to_pixels)(Element element, const void* x, uint8_t* y, int64_t size);

  // To the bit in every instruction set.
  void (*scheduler_step)(const SchedulerStepArguments&);

  // Elements of 1, 2, 4 or 8 bytes.
  void (*copy)(const LoopNest& loops, int64_t element_bytes, char* to, const char* from);
  void (*upsample_nearest)(const UpsampleArguments&);
  void (*interleave)(const InterleaveArguments&);
};

// The best that the processor and the operating system allow: "avx512", "avx2" or "baseline".
const KernelTable& KernelsOfThisMachine();

// One table by name, nullptr if it is not built in or this machine cannot run it; for tests.
const KernelTable* KernelsByName(const char* name);

}  // namespace latentd::backends::cpu
