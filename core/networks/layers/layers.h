// The layers that networks are made of: an op together with its weights, named as torch.nn names
// them (weight, bias). Each takes the scope of its own module and reads the sizes that its input
// already fixes from the input.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/networks/layers/scope.h"

namespace latentd::networks {

enum class Bias : uint8_t { kNone, kAdded };

// Size of one dimension; 1 where the builder has gone on with a placeholder of another rank after a
// mistake.
int64_t Dimension(const GraphBuilder& builder, Value value, int dimension);

// True iff x is an image [n, channels, h, w]; otherwise a failure of the builder, in which `what`
// names the input.
bool RequireImage(GraphBuilder& builder, absl::string_view what, Value x, int64_t channels);

struct ConvolutionOptions {
  int64_t out_channels = 1;
  int64_t kernel = 3;  // with padding (kernel - 1) / 2 on each side
  int64_t stride = 1;
  Bias bias = Bias::kAdded;
};
Value Convolution(const Scope& scope, Value x, const ConvolutionOptions& options);

// Halves the image by a 3 x 3 convolution of stride 2: `padding` 1 pads all sides, 0 only the right
// and the bottom by 1.
Value Downsample(const Scope& scope, Value x, int64_t padding);

// Nearest upsampling to a size, then a 3 x 3 convolution.
Value Upsample(const Scope& scope, Value x, int64_t height, int64_t width);

Value Linear(const Scope& scope, Value x, int64_t out_features, Bias bias = Bias::kAdded);
Value GroupNorm(const Scope& scope, Value x, int64_t groups, double epsilon);
Value LayerNorm(const Scope& scope, Value x, double epsilon);

enum class Activation : uint8_t { kSilu, kGelu, kQuickGelu, kRelu };

// REQUIRES: one of "silu", "swish", "gelu", "quick_gelu", "relu".
Activation ParseActivation(absl::string_view name);
Value Activate(GraphBuilder& builder, Value x, Activation activation);

// Two linear layers with an activation between: linear_1, linear_2. Embeds time steps and added
// conditions.
Value TimestepMlp(const Scope& scope, Value x, int64_t features, Activation activation);

// The hidden layer of a transformer's feed-forward part, of four times the features of `x`, gated
// by gelu: net.0.proj.
Value FeedForwardHidden(const Scope& scope, Value x);
// The same projected back to the features of `x`: net.0.proj, net.2.
Value FeedForward(const Scope& scope, Value x);

// [n, c, h, w] -> [n, h * w, c], and back.
Value ImageToTokens(GraphBuilder& builder, Value image);
Value TokensToImage(GraphBuilder& builder, Value tokens, int64_t height, int64_t width);

// 1 / sqrt(size of a head). REQUIRES: heads divides features.
float AttentionScale(int64_t features, int64_t heads);

struct AttentionOptions {
  int64_t heads = 1;
  int64_t features = 1;     // width of query, key and value; a multiple of heads
  Bias bias = Bias::kNone;  // bias of the query, key and value projections
  bool upcast = false;      // attention itself in f32, whatever the layer is computed in
};

// Keys and values that are made elsewhere, [n, tokens, features] each.
struct KeysAndValues {
  Value keys = kNone, values = kNone;
};

// softmax(q kᵀ / sqrt(head size)) v of queries made from `x` and keys and values made from
// `states`, projected back to the features of `x`: to_q, to_k, to_v, to_out.0. What the same
// queries read of `beside` is added before that, in order: another softmax for each.
Value AttentionLayer(const Scope& scope, Value x, Value states, const AttentionOptions& options,
                     absl::Span<const KeysAndValues> beside = {});

// Every pixel of an image attends to every other, with one head of all channels, after a group
// norm; added to the image. Autoencoders have it.
Value PixelAttention(const Scope& scope, Value image, int64_t groups, double epsilon);

}  // namespace latentd::networks
