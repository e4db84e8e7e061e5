#include "core/networks/layers/transformer_spatio_temporal.h"

#include <numeric>
#include <vector>

#include "core/networks/layers/spatio_temporal_resnet.h"

namespace latentd::networks {
namespace {

// Fixed in diffusers.
constexpr double kClipImageNormEpsilon = 1e-6;
constexpr double kClipTokenNormEpsilon = 1e-5;

using Options = TransformerSpatioTemporalOptions;

// Result of attention of the one token, added to all of its clip: tokens [n * frames, tokens, c].
Value AddToken(const Scope& attention, Value x, Value token, int64_t frames) {
  GraphBuilder& b = attention.builder();
  const Shape shape = {Dimension(b, x, 0), Dimension(b, x, 1), Dimension(b, x, 2)};
  const Value value = Linear(attention.Child("to_v"), token, shape[2], Bias::kNone);
  const Value read = Linear(attention.Child("to_out.0"), value, shape[2]);
  const Value of_clips = b.Reshape(x, {shape[0] / frames, frames * shape[1], shape[2]});
  return b.Reshape(b.Add(of_clips, read), shape);
}

// BasicTransformerBlock.
Value FrameBlock(const Scope& scope, Value x, Value token, const Options& options) {
  GraphBuilder& b = scope.builder();
  Value normed = LayerNorm(scope.Child("norm1"), x, kClipTokenNormEpsilon);
  x = b.Add(x, AttentionLayer(scope.Child("attn1"), normed, normed,
                              {.heads = options.heads, .features = Dimension(b, x, -1)}));
  x = AddToken(scope.Child("attn2"), x, token, options.frames);
  normed = LayerNorm(scope.Child("norm3"), x, kClipTokenNormEpsilon);
  return b.Add(x, FeedForward(scope.Child("ff"), normed));
}

Value AttendOverFrames(const Scope& scope, Value x, const Options& options) {
  GraphBuilder& b = scope.builder();
  const int64_t features = Dimension(b, x, -1);
  const auto project = [&](const char* name) {
    const Value made = Linear(scope.Child(name), x, features, Bias::kNone);
    return TokensToTracks(b, made, options.frames);
  };
  const Value query = project("to_q"), key = project("to_k"), value = project("to_v");
  const Value mixed =
      b.Attention(query, key, value,
                  {.heads = options.heads, .scale = AttentionScale(features, options.heads)});
  return Linear(scope.Child("to_out.0"), TracksToTokens(b, mixed, Dimension(b, x, 1)), features);
}

// TemporalBasicTransformerBlock of `moved`, blended with x: (1 - share) * x + share * (m + ff),
// where m is all before the last feed-forward part, whose last weights the share goes into.
Value BlendedClipBlock(const Scope& scope, Value x, Value moved, Value token, Value share,
                       const Options& options) {
  GraphBuilder& b = scope.builder();
  const auto norm = [&](const char* name, Value m) {
    return LayerNorm(scope.Child(name), m, kClipTokenNormEpsilon);
  };
  Value m = b.Add(moved, FeedForward(scope.Child("ff_in"), norm("norm_in", moved)));
  m = b.Add(m, AttendOverFrames(scope.Child("attn1"), norm("norm1", m), options));
  m = AddToken(scope.Child("attn2"), m, token, options.frames);
  const int64_t features = Dimension(b, m, -1);
  const Value hidden = FeedForwardHidden(scope.Child("ff"), norm("norm3", m));
  const Scope last = scope.Child("ff.net.2");
  const Value weight = last.Weight("weight", {features, Dimension(b, hidden, -1)});
  const Value made =
      b.Linear(hidden, b.Mul(weight, share), b.Mul(last.Weight("bias", {features}), share));
  const Value rest = b.Sub(b.Scalar(1), share);
  return b.Add(b.Add(b.Mul(x, rest), b.Mul(m, share)), made);
}

// The embeddings of the frames' numbers, [1, frames, 1, c].
Value FramePositions(const Scope& scope, int64_t frames, int64_t channels) {
  GraphBuilder& b = scope.builder();
  std::vector<float> numbers(static_cast<size_t>(frames));
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  const Value sinusoids = b.TimestepEmbedding(b.Constant(std::move(numbers), {frames}),
                                              {.dim = channels, .flip_sin_to_cos = true});
  const Scope embed = scope.Child("time_pos_embed");
  const Value hidden = b.Silu(Linear(embed.Child("linear_1"), sinusoids, 4 * channels));
  return b.Reshape(Linear(embed.Child("linear_2"), hidden, channels), {1, frames, 1, channels});
}

Value AddPositions(GraphBuilder& b, Value x, Value positions) {
  const Shape shape = {Dimension(b, x, 0), Dimension(b, x, 1), Dimension(b, x, 2)};
  const int64_t frames = Dimension(b, positions, 1);
  const Value by_frame = b.Reshape(x, {shape[0] / frames, frames, shape[1], shape[2]});
  return b.Reshape(b.Add(by_frame, positions), shape);
}

}  // namespace

Value TransformerSpatioTemporal(const Scope& scope, Value x, Value token, const Options& options) {
  GraphBuilder& b = scope.builder();
  const int64_t channels = Dimension(b, x, 1);
  const Value normed = GroupNorm(scope.Child("norm"), x, kClipGroups, kClipImageNormEpsilon);
  Value hidden = Linear(scope.Child("proj_in"), ImageToTokens(b, normed), channels);
  const Value positions = FramePositions(scope, options.frames, channels);
  const Value share = ShareOverFrames(scope.Child("time_mixer"), Mixing::kPlain);
  for (int64_t i = 0; i < options.layers; ++i) {
    hidden = FrameBlock(scope.Child("transformer_blocks", i), hidden, token, options);
    hidden = BlendedClipBlock(scope.Child("temporal_transformer_blocks", i), hidden,
                              AddPositions(b, hidden, positions), token, share, options);
  }
  hidden = Linear(scope.Child("proj_out"), hidden, channels);
  return b.Add(x, TokensToImage(b, hidden, Dimension(b, x, 2), Dimension(b, x, 3)));
}

}  // namespace latentd::networks
