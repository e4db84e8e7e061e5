#include "core/networks/layers/layers.h"

#include <cmath>

namespace latentd::networks {
namespace {

// The hidden size of the feed-forward layer, in multiples of the features.
constexpr int64_t kFeedForwardFactor = 4;

Value BiasOf(const Scope& scope, int64_t size, Bias bias) {
  return bias == Bias::kAdded ? scope.Weight("bias", {size}) : kNone;
}

Value PaddedConvolution(const Scope& scope, Value x, const ConvolutionOptions& options,
                        graph::Padding padding) {
  const int64_t in_channels = Dimension(scope.builder(), x, 1);
  const Value weight =
      scope.Weight("weight", {options.out_channels, in_channels, options.kernel, options.kernel});
  return scope.builder().Conv2d(x, weight, BiasOf(scope, options.out_channels, options.bias),
                                {.stride = options.stride, .padding = padding});
}

}  // namespace

int64_t Dimension(const GraphBuilder& builder, Value value, int dimension) {
  if (value.id < 0) return 1;
  const Shape& shape = builder.shape(value);
  const int index = dimension < 0 ? dimension + shape.rank() : dimension;
  return index >= 0 && index < shape.rank() ? shape[index] : 1;
}

bool RequireImage(GraphBuilder& builder, absl::string_view what, Value x, int64_t channels) {
  if (x.id >= 0 && builder.shape(x).rank() == 4 && builder.shape(x)[1] == channels) return true;
  builder.Fail(absl::InvalidArgumentError(
      absl::StrCat("the input ", what, " must be [rows, ", channels, ", height, width], but is ",
                   x.id < 0 ? "absent" : builder.shape(x).ToString())));
  return false;
}

Value Convolution(const Scope& scope, Value x, const ConvolutionOptions& options) {
  const int64_t side = (options.kernel - 1) / 2;
  return PaddedConvolution(scope, x, options,
                           {.top = side, .left = side, .bottom = side, .right = side});
}

Value Downsample(const Scope& scope, Value x, int64_t padding) {
  const Scope conv = scope.Child("conv");
  const ConvolutionOptions options = {.out_channels = Dimension(scope.builder(), x, 1),
                                      .stride = 2};
  if (padding == 1) return Convolution(conv, x, options);
  return PaddedConvolution(conv, x, options, {.bottom = 1, .right = 1});
}

Value Upsample(const Scope& scope, Value x, int64_t height, int64_t width) {
  const Value larger = scope.builder().UpsampleNearest(x, height, width);
  return Convolution(scope.Child("conv"), larger,
                     {.out_channels = Dimension(scope.builder(), x, 1)});
}

Value Linear(const Scope& scope, Value x, int64_t out_features, Bias bias) {
  const Value weight = scope.Weight("weight", {out_features, Dimension(scope.builder(), x, -1)});
  return scope.builder().Linear(x, weight, BiasOf(scope, out_features, bias));
}

Value GroupNorm(const Scope& scope, Value x, int64_t groups, double epsilon) {
  const int64_t channels = Dimension(scope.builder(), x, 1);
  return scope.builder().GroupNorm(x, scope.Weight("weight", {channels}),
                                   scope.Weight("bias", {channels}),
                                   {.groups = groups, .epsilon = static_cast<float>(epsilon)});
}

Value LayerNorm(const Scope& scope, Value x, double epsilon) {
  const int64_t features = Dimension(scope.builder(), x, -1);
  return scope.builder().LayerNorm(x, scope.Weight("weight", {features}),
                                   scope.Weight("bias", {features}), static_cast<float>(epsilon));
}

Activation ParseActivation(absl::string_view name) {
  if (name == "gelu") return Activation::kGelu;
  if (name == "quick_gelu") return Activation::kQuickGelu;
  if (name == "relu") return Activation::kRelu;
  return Activation::kSilu;  // "silu" and its other name "swish"
}

Value Activate(GraphBuilder& builder, Value x, Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return builder.Silu(x);
    case Activation::kGelu:
      return builder.Gelu(x);
    case Activation::kQuickGelu:
      return builder.QuickGelu(x);
    case Activation::kRelu:
      return builder.Relu(x);
  }
  return x;
}

Value TimestepMlp(const Scope& scope, Value x, int64_t features, Activation activation) {
  const Value hidden = Linear(scope.Child("linear_1"), x, features);
  return Linear(scope.Child("linear_2"), Activate(scope.builder(), hidden, activation), features);
}

Value FeedForwardHidden(const Scope& scope, Value x) {
  const int64_t features = Dimension(scope.builder(), x, -1);
  return scope.builder().Geglu(
      Linear(scope.Child("net.0.proj"), x, 2 * kFeedForwardFactor * features));
}

Value FeedForward(const Scope& scope, Value x) {
  return Linear(scope.Child("net.2"), FeedForwardHidden(scope, x),
                Dimension(scope.builder(), x, -1));
}

Value ImageToTokens(GraphBuilder& builder, Value image) {
  const int64_t rows = Dimension(builder, image, 0), channels = Dimension(builder, image, 1);
  const int64_t pixels = Dimension(builder, image, 2) * Dimension(builder, image, 3);
  return builder.Reshape(builder.Permute(image, {0, 2, 3, 1}), {rows, pixels, channels});
}

Value TokensToImage(GraphBuilder& builder, Value tokens, int64_t height, int64_t width) {
  const int64_t rows = Dimension(builder, tokens, 0), channels = Dimension(builder, tokens, 2);
  return builder.Permute(builder.Reshape(tokens, {rows, height, width, channels}), {0, 3, 1, 2});
}

float AttentionScale(int64_t features, int64_t heads) {
  const int64_t head_size = features / heads;
  return static_cast<float>(1 / std::sqrt(static_cast<double>(head_size)));
}

Value AttentionLayer(const Scope& scope, Value x, Value states, const AttentionOptions& options,
                     absl::Span<const KeysAndValues> beside) {
  GraphBuilder& b = scope.builder();
  const auto project = [&](const char* name, Value from) {
    const Value made = Linear(scope.Child(name), from, options.features, options.bias);
    return options.upcast ? b.Cast(made, graph::DType::kF32) : made;
  };
  const Value query = project("to_q", x);
  const Value key = project("to_k", states);
  const Value value = project("to_v", states);
  const graph::AttentionAttributes attention = {
      .heads = options.heads, .scale = AttentionScale(options.features, options.heads)};
  Value mixed = b.Attention(query, key, value, attention);
  const auto as_queries = [&](Value made) {
    return options.upcast ? b.Cast(made, graph::DType::kF32) : made;
  };
  for (const KeysAndValues& one : beside) {
    mixed =
        b.Add(mixed, b.Attention(query, as_queries(one.keys), as_queries(one.values), attention));
  }
  return Linear(scope.Child("to_out.0"), mixed, Dimension(b, x, -1));
}

Value PixelAttention(const Scope& scope, Value image, int64_t groups, double epsilon) {
  GraphBuilder& b = scope.builder();
  const Value tokens =
      ImageToTokens(b, GroupNorm(scope.Child("group_norm"), image, groups, epsilon));
  const Value mixed = AttentionLayer(scope, tokens, tokens,
                                     {.features = Dimension(b, image, 1), .bias = Bias::kAdded});
  return b.Add(TokensToImage(b, mixed, Dimension(b, image, 2), Dimension(b, image, 3)), image);
}

}  // namespace latentd::networks
