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

enum class UnaryFunction : uint8_t { kSilu, kGelu, kQuickGelu, kRelu, kTanh };
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
  const float* x;
  float* y;
  const float* gamma;  // [channels]
  const float* beta;   // [channels]
  const float* added;  // [rows, channels], added to x before the norm; nullptr: nothing
  int64_t rows, channels, pixels, groups;
  float epsilon;
  bool silu;  // applied to the result
  int threads;
  char* workspace;  // GroupNormWorkspace bytes
};

struct AttentionArguments {
  const float* query;
  const float* key;
  const float* value;
  float* result;  // dense [rows, queries, heads * size]
  int64_t rows, queries, keys, heads, size;
  // Strides in elements; within a token the channels are contiguous.
  int64_t query_row, query_token, key_row, key_token, value_row, value_token;
  float scale;
  bool causal;
  int threads;
  char* workspace;  // AttentionWorkspace bytes
};

struct UpsampleArguments {
  const float* x;
  float* y;
  // Images are [outer, height, width, inner]: inner is the channels in NHWC and 1 in NCHW.
  int64_t outer, height, width, to_height, to_width, inner;
};

struct InterleaveArguments {
  // Images [rows, width, channels], rows of all pictures: of the result's even rows the even and
  // the odd columns, then of its odd rows.
  const float* phases[4];
  float* y;  // [2 * rows, 2 * width, channels]
  int64_t rows, width, channels;
};

struct KernelTable {
  const char* name;  // "avx512"

  // Images [rows, pixels, channels] and [rows, channels, pixels].
  void (*group_norm_nhwc)(const GroupNormArguments&);
  void (*group_norm_nchw)(const GroupNormArguments&);
  size_t (*group_norm_workspace)(int64_t rows, int64_t channels, int threads);

  void (*attention)(const AttentionArguments&);
  size_t (*attention_workspace)(const AttentionArguments&);

  void (*layer_norm)(const float* x, float* y, const float* gamma, const float* beta, int64_t rows,
                     int64_t size, float epsilon);
  void (*softmax)(const float* x, float* y, int64_t rows, int64_t size);
  void (*row_std)(const float* x, float* y, int64_t rows, int64_t size);
  void (*unary)(UnaryFunction function, const float* x, float* y, int64_t size);
  // x [rows, 2 * size] -> y [rows, size]
  void (*geglu)(const float* x, float* y, int64_t rows, int64_t size);
  // y may be a or b.
  void (*binary)(BinaryFunction function, const LoopNest& loops, float* y, const float* a,
                 const float* b);

  // Elements of 1, 2, 4 or 8 bytes.
  void (*copy)(const LoopNest& loops, int64_t element_bytes, char* to, const char* from);
  void (*upsample_nearest)(const UpsampleArguments&);
  void (*interleave)(const InterleaveArguments&);
};

// Whatever the processor and the operating system allow: "avx512", "avx2" or "baseline".
const KernelTable& KernelsOfThisMachine();

// One table by name, nullptr if it is not built in or this machine cannot run it; for tests.
const KernelTable* KernelsByName(const char* name);

}  // namespace latentd::backends::cpu
