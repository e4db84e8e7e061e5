// Abilities of a backend, as plain data that the backend states and passes read, so that no pass
// asks which backend it is.
//
// A kind in `fused` names a pattern that the backend runs as one kernel. The body of such a node is
// one of the chains below, in this order, brackets for what may be absent; every node of a chain
// reads the one before it, and whatever else it reads is an operand of the fused node (each value
// once, in the order in which the body first reads it):
//
//   conv2d_epilogue   conv2d, [add residual], [activation]      at least one of the two
//   linear_epilogue   linear, [add residual], [activation]      at least one of the two
//   f8_linear_epilogue  f8_linear, [add residual], [activation]   at least one of the two
//   f8_conv2d_epilogue  f8_conv2d, [add residual], [activation]   at least one of the two
//   linear_geglu      linear, [low_rank that reads the same x], geglu
//   layer_norm_f8     layer_norm, quantize
//   geglu_f8          geglu, quantize
//   attention_f8      attention, quantize
//   f8_linear_geglu   f8_linear, geglu, quantize
//   group_norm_silu   [add channels], group_norm, silu
//   group_norm_silu_f8  [add channels], group_norm, silu, quantize
//   upsample_conv2d   upsample_nearest, conv2d
//
// A residual has the result's own shape and may be either operand of the add, and may be a value
// that the chain reads elsewhere too (x + linear(x)). The op table says which ops are activations.
// Added channels are [n or 1, c, 1, 1] (NCHW) or [n or 1, 1, 1, c] (NHWC), either operand of the
// add. Convolutions and linears have their bias as in the op table, or none. The upsampling of
// upsample_conv2d doubles both sides, and its convolution is 3x3 with a stride and padding of 1:
// four 2x2 convolutions of the small image are the same for 4/9 of the arithmetic.
#pragma once

#include <string>

#include "absl/container/flat_hash_set.h"
#include "core/graph/op.h"

namespace latentd::graph {

inline constexpr char kConv2dEpilogue[] = "conv2d_epilogue";
inline constexpr char kLinearEpilogue[] = "linear_epilogue";
inline constexpr char kF8LinearEpilogue[] = "f8_linear_epilogue";
inline constexpr char kF8Conv2dEpilogue[] = "f8_conv2d_epilogue";
inline constexpr char kLinearGeglu[] = "linear_geglu";
inline constexpr char kLayerNormF8[] = "layer_norm_f8";
inline constexpr char kGegluF8[] = "geglu_f8";
inline constexpr char kAttentionF8[] = "attention_f8";
inline constexpr char kF8LinearGeglu[] = "f8_linear_geglu";
inline constexpr char kGroupNormSilu[] = "group_norm_silu";
inline constexpr char kGroupNormSiluF8[] = "group_norm_silu_f8";
inline constexpr char kUpsampleConv2d[] = "upsample_conv2d";

struct Target {
  std::string name;                     // "reference", "cpu", "cuda"
  Layout image_layout = Layout::kNchw;  // the fastest layout for its convolutions

  // FusedAttributes::kind values that it runs as one kernel.
  absl::flat_hash_set<std::string> fused;

  // One wide linear and slices of its result are faster than several linears of one operand
  // (queries, keys and values).
  bool merge_linears = false;

  // upsample_conv2d adds a bias by one more walk over the image: better that its reader does.
  bool moves_upsample_bias = false;

  // A row's values are the same bytes, however many rows a graph has.
  bool batch_invariant = false;
};

}  // namespace latentd::graph
