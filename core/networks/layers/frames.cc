#include "core/networks/layers/frames.h"

#include <vector>

namespace latentd::networks {

Value ImagesToColumns(GraphBuilder& b, Value images, int64_t frames) {
  const int64_t clips = Dimension(b, images, 0) / frames, channels = Dimension(b, images, 1);
  const int64_t pixels = Dimension(b, images, 2) * Dimension(b, images, 3);
  const Value last = b.Permute(images, {0, 2, 3, 1});
  return b.Permute(b.Reshape(last, {clips, frames, pixels, channels}), {0, 3, 1, 2});
}

Value ColumnsToImages(GraphBuilder& b, Value columns, int64_t height, int64_t width) {
  const int64_t images = Dimension(b, columns, 0) * Dimension(b, columns, 2);
  const int64_t channels = Dimension(b, columns, 1);
  const Value last = b.Permute(columns, {0, 2, 3, 1});
  return b.Permute(b.Reshape(last, {images, height, width, channels}), {0, 3, 1, 2});
}

Value TokensToTracks(GraphBuilder& b, Value x, int64_t frames) {
  const int64_t clips = Dimension(b, x, 0) / frames;
  const int64_t tokens = Dimension(b, x, 1), features = Dimension(b, x, 2);
  const Value by_frame = b.Reshape(x, {clips, frames, tokens, features});
  return b.Reshape(b.Permute(by_frame, {0, 2, 1, 3}), {clips * tokens, frames, features});
}

Value TracksToTokens(GraphBuilder& b, Value tracks, int64_t tokens) {
  const int64_t clips = Dimension(b, tracks, 0) / tokens;
  const int64_t frames = Dimension(b, tracks, 1), features = Dimension(b, tracks, 2);
  const Value by_token = b.Reshape(tracks, {clips, tokens, frames, features});
  return b.Reshape(b.Permute(by_token, {0, 2, 1, 3}), {clips * frames, tokens, features});
}

Value RepeatOverFrames(GraphBuilder& b, Value of_clips, int64_t frames) {
  const int64_t clips = Dimension(b, of_clips, 0), features = Dimension(b, of_clips, 1);
  const Value one = b.Reshape(of_clips, {clips, 1, features});
  const std::vector<Value> all(static_cast<size_t>(frames), one);
  return b.Reshape(b.Concat(all, 1), {clips * frames, features});
}

Value ConvolutionOverFrames(const Scope& scope, Value columns, int64_t out_channels, Value factor) {
  GraphBuilder& b = scope.builder();
  const int64_t in_channels = Dimension(b, columns, 1);
  Value weight = scope.Weight("weight", {out_channels, in_channels, 3, 1, 1});
  Value bias = scope.Weight("bias", {out_channels});
  weight = b.Reshape(weight, {out_channels, in_channels, 3, 1});
  if (factor.id != kNone.id) {
    weight = b.Mul(weight, factor);
    bias = b.Mul(bias, factor);
  }
  return b.Conv2d(columns, weight, bias, {.padding = {.top = 1, .bottom = 1}});
}

Value ShareOverFrames(const Scope& time_mixer, Mixing mixing) {
  GraphBuilder& b = time_mixer.builder();
  const Value factor = time_mixer.Weight("mix_factor", {1});
  // 1 - sigmoid(x) is sigmoid(-x), which is 1 / (1 + exp(x)).
  const Value exponent = mixing == Mixing::kPlain ? factor : b.Sub(b.Scalar(0), factor);
  return b.Div(b.Scalar(1), b.Add(b.Scalar(1), b.Exp(exponent)));
}

}  // namespace latentd::networks
