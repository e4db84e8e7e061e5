// The operations of the IR and their attributes. One table (op_table.h) gives each its name, shape
// and dtype rule; the reference backend (core/backends/reference) says what each computes.
//
// Conventions: images are [rows, channels, height, width] (Layout::kNchw) or [rows, height, width,
// channels] (kNhwc); token sequences are [rows, tokens, channels]; convolution weights are [out,
// in, kernel_height, kernel_width] in either layout; linear weights are [out, in], as on disk.
#pragma once

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

  // Norms.
  kGroupNorm,  // x image, gamma [c], beta [c]
  kLayerNorm,  // x, gamma, beta, over the last dimension
  kSoftmax,    // over the last dimension
  kRowStd,     // standard deviation (n - 1) over all dimensions but the first, which are kept with
               // size 1

  // Elementwise, one operand.
  kSilu,
  kGelu,       // erf
  kQuickGelu,  // x sigmoid(1.702 x)
  kRelu,
  kTanh,
  kGeglu,  // [.., 2c] -> [.., c]: first half times gelu(second half)
  kCast,

  // Elementwise, two operands, broadcast as in numpy.
  kAdd,
  kSub,
  kMul,
  kDiv,

  // Movement.
  kConcat,
  kSlice,
  kReshape,
  kPermute,
  kUpsampleNearest,  // to a given size, by floor(i * in / out)
  kEmbedding,        // table [entries, c], ids i64 [..] -> [.., c]

  // Sinusoidal embedding of t [n] -> [n, dim], as diffusers' get_timestep_embedding with max_period
  // 10000.
  kTimestepEmbedding,

  // A body of primitive nodes that a backend may run as one kernel (FusedAttributes).
  kFused,
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

struct CastAttributes {
  DType to = DType::kF32;
  bool operator==(const CastAttributes&) const = default;
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
                 LayerNormAttributes, CastAttributes, ConcatAttributes, SliceAttributes,
                 ReshapeAttributes, PermuteAttributes, UpsampleAttributes,
                 TimestepEmbeddingAttributes, ConstantAttributes, FusedAttributes>;

}  // namespace latentd::graph
