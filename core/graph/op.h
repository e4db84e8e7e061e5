// The operations of the IR and their attributes. One table (op_table.h) says all that is true of
// each; the reference backend (core/backends/reference) says what it computes.
//
// Conventions: images are [rows, channels, height, width] (Layout::kNchw) or [rows, height, width,
// channels] (kNhwc); token sequences are [rows, tokens, channels]; convolution weights are [out,
// in, kernel_height, kernel_width] in either layout; linear weights are [out, in], as on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/device/dtype.h"
#include "core/device/shape.h"

namespace latentd::graph {

using device::DType;
using device::Shape;

class Graph;

enum class Op : uint8_t {
  // Leaves: no operands, a name.
  kInput,   // given at each run
  kWeight,  // bound when the graph is loaded; the name carries the component: "unet/conv_in.weight"
  kConstant,  // a small literal in the graph itself

  // Matrix products. A last operand in brackets may be absent.
  kConv2d,     // x, weight, [bias]
  kLinear,     // x [.., in], weight [out, in], [bias]
  kMatmul,     // a [.., m, k], b [.., k, n], the same leading dimensions
  kAttention,  // query [n, tq, c], key [n, tk, c], value [n, tk, c]: softmax(scale q kᵀ) v per
               // head; c = heads * head size
  // Low-rank paths beside a product (LoRA), of each row its own: base [n, .., out], x [n, .., in],
  // down [slots, rank, in], up [slots, out, rank], slot i64 [n], scale f32 [n, rank] -> base +
  // (scale x downᵀ) upᵀ by the matrices of the row's slot. A row of a slot that there is not, or
  // whose scales are all 0, is its base, to the bit. Ranks behind a path's own are zeros in both
  // matrices.
  kLowRank,

  // Norms.
  kGroupNorm,  // x image, gamma [c], beta [c]
  kLayerNorm,  // x, gamma, beta, over the last dimension
  kSoftmax,    // over the last dimension
  kRowStd,     // standard deviation (n - 1) over all dimensions but the first, which are kept with
               // size 1
  kIsFinite,   // [n, ..] -> u8 [n]: 1 for a row whose elements all are, else 0
  kRowNorm,    // f32: the largest absolute value, or the Euclidean length, over all dimensions but
               // the first, which are kept with
               // size 1

  // Elementwise, one operand.
  kSilu,
  kGelu,       // erf
  kQuickGelu,  // x sigmoid(1.702 x)
  kRelu,
  kTanh,
  kExp,
  kClamp,  // NaN stays NaN
  kGeglu,  // [.., 2c] -> [.., c]: first half times gelu(second half)
  kCast,
  kToPixels,   // [-1, 1] -> u8: 255 * clamp(x / 2 + 1 / 2, 0, 1), to nearest even; NaN becomes 0
  kIncrement,  // i64 -> i64, plus one

  // Elementwise, two operands, broadcast as in numpy.
  kAdd,
  kSub,
  kMul,
  kDiv,

  // 8-bit products (f8_linear and f8_conv2d are their only readers but for casts, concatenations
  // and bodies).
  kF8Scale,  // f32, no less than 0 -> f32: the least power of two s with x / s at most 448, no less
             // than 2^-100; 1 where x is 0 or not finite
  kQuantize,  // x, scale f32 [], a power of two -> f8_e4m3: x / scale to nearest even, and what is
              // too large as 448 or -448; NaN and infinities become NaN, so that they still show
  kF8Linear,  // x f8_e4m3 [.., in], weight f8_e4m3 [out, in], scale f32 [], [bias [out]]: scale
              // times
              // x weightᵀ, plus bias, summed in f32 and rounded once
  kF8Conv2d,  // x f8_e4m3 image, weight f8_e4m3, scale f32 [], [bias [out]]: scale times the
              // convolution, plus bias, summed in f32 and rounded once

  // Movement.
  kConcat,
  kSlice,
  kReshape,
  kPermute,
  kUpsampleNearest,  // to a given size, by floor(i * in / out)
  // An index outside its table is clamped into it, so that no input can make a run fail.
  kEmbedding,  // table [entries, c], ids i64 [..] -> [.., c]
  kSelect,     // table f32 [n, entries, c], index i64 [n] -> [n, c]: each row's own entry

  // Sinusoidal embedding of t [n] -> [n, dim], as diffusers' get_timestep_embedding with max_period
  // 10000.
  kTimestepEmbedding,

  // One evaluation of a noise scheduler (SchedulerLine).
  kSchedulerStep,

  // A body of primitive nodes that a backend may run as one kernel (FusedAttributes).
  kFused,  // stays the last
};
inline constexpr size_t kOps = static_cast<size_t>(Op::kFused) + 1;

// scheduler_step takes the state [rows, 4, n], the guided output and the noise [rows, n] and for
// each row the line of its schedule's table [rows, 27], all f32, and gives the next state: for each
// element of a latent S' = M [S, output, noise], summed in that order, each product fused with its
// addition. Where a line draws no noise, noise counts as 0 and is not read. All of an element's
// state is read before any of it is written, so that the result may lie in the state's memory.
struct SchedulerLine {
  // Columns of a line: (timestep, input scale, whether noise is drawn as 0 or 1, M row-major).
  static constexpr int64_t kDrawsNoise = 2, kMatrix = 3;
  static constexpr int64_t kStates = 4, kCombined = kStates + 2;
  static constexpr int64_t kElements = kMatrix + kStates * kCombined;
};

enum class Layout : uint8_t { kNchw, kNhwc };

struct Padding {
  int64_t top = 0, left = 0, bottom = 0, right = 0;
  bool operator==(const Padding&) const = default;
};

struct Conv2dAttributes {
  int64_t stride = 1;
  Padding padding;
  Layout layout = Layout::kNchw;
  bool operator==(const Conv2dAttributes&) const = default;
};

struct AttentionAttributes {
  int64_t heads = 1;
  float scale = 1;
  bool causal = false;  // query i sees keys 0..i
  bool operator==(const AttentionAttributes&) const = default;
};

struct GroupNormAttributes {
  int64_t groups = 32;
  float epsilon = 1e-5f;
  Layout layout = Layout::kNchw;
  bool operator==(const GroupNormAttributes&) const = default;
};

struct LayerNormAttributes {
  float epsilon = 1e-5f;
  bool operator==(const LayerNormAttributes&) const = default;
};

struct RowNormAttributes {
  bool euclidean = false;
  bool operator==(const RowNormAttributes&) const = default;
};

struct ClampAttributes {
  float min = 0, max = 1;
  bool operator==(const ClampAttributes&) const = default;
};

struct CastAttributes {
  DType to = DType::kF32;
  bool operator==(const CastAttributes&) const = default;
};

struct F8LinearAttributes {
  DType to = DType::kBF16;  // dtype of the result and of the bias
  bool operator==(const F8LinearAttributes&) const = default;
};

struct F8Conv2dAttributes {
  int64_t stride = 1;
  Padding padding;
  Layout layout = Layout::kNchw;
  DType to = DType::kBF16;  // dtype of the result and of the bias
  bool operator==(const F8Conv2dAttributes&) const = default;
};

struct ConcatAttributes {
  int64_t axis = 0;
  bool operator==(const ConcatAttributes&) const = default;
};

struct SliceAttributes {
  int64_t axis = 0, begin = 0, end = 0;
  bool operator==(const SliceAttributes&) const = default;
};

struct ReshapeAttributes {
  Shape shape;
  bool operator==(const ReshapeAttributes&) const = default;
};

struct PermuteAttributes {
  std::vector<int64_t> order;  // result dimension i is operand dimension order[i]
  bool operator==(const PermuteAttributes&) const = default;
};

struct UpsampleAttributes {
  int64_t height = 0, width = 0;
  Layout layout = Layout::kNchw;
  bool operator==(const UpsampleAttributes&) const = default;
};

struct TimestepEmbeddingAttributes {
  int64_t dim = 0;
  bool flip_sin_to_cos = true;
  float downscale_freq_shift = 0;
  bool operator==(const TimestepEmbeddingAttributes&) const = default;
};

struct ConstantAttributes {
  std::vector<float> values;  // as many as the shape has elements
  bool operator==(const ConstantAttributes&) const = default;
};

// The body's inputs are named "0", "1", ... in the order of the fused node's operands and are of
// the step rate; it has one output, "result", and no weight or fused node. Bodies are equal if
// their texts are.
struct FusedAttributes {
  std::string kind;  // the pass's word for the pattern: "conv2d_epilogue", "group_norm_silu", ...
  std::shared_ptr<const Graph> body;
  bool operator==(const FusedAttributes&) const;
};

using Attributes =
    std::variant<std::monostate, Conv2dAttributes, AttentionAttributes, GroupNormAttributes,
                 LayerNormAttributes, RowNormAttributes, ClampAttributes, CastAttributes,
                 F8LinearAttributes, F8Conv2dAttributes, ConcatAttributes, SliceAttributes,
                 ReshapeAttributes, PermuteAttributes, UpsampleAttributes,
                 TimestepEmbeddingAttributes, ConstantAttributes, FusedAttributes>;

}  // namespace latentd::graph
