#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/conformance/op_cases.h"

namespace latentd::testing {
namespace {

using device::DType;
using device::Shape;
using graph::GraphBuilder;
using graph::Layout;
using graph::Op;
using graph::Rate;
using graph::Value;

// Clips of so many frames of so many pixels.
struct ClipSize {
  int64_t clips, frames, height, width;

  std::string Name() const { return absl::StrCat(clips, "x", frames, "x", height, "x", width); }
  int64_t images() const { return clips * frames; }
  int64_t pixels() const { return height * width; }
};

// Channels-last images as columns, [clips, frames, pixels, channels], as the layout pass leaves
// ImagesToColumns (core/networks/layers/frames.h); back from them by a reshape alone.
Value Columns(GraphBuilder& b, const ClipSize& size, int64_t channels) {
  const Value images =
      b.Input("x", DType::kF32, {size.images(), size.height, size.width, channels}, Rate::kStep);
  return b.Reshape(images, {size.clips, size.frames, size.pixels(), channels});
}

OpCase ConvolutionOverClips(const ClipSize& size, int64_t in, int64_t out) {
  const auto build = [=](GraphBuilder& b) {
    const Value over = b.Conv2d(Columns(b, size, in), b.Weight("net/weight", {out, in, 3, 1}),
                                b.Weight("net/bias", {out}),
                                {.padding = {.top = 1, .bottom = 1}, .layout = Layout::kNhwc});
    b.Output("y", b.Reshape(over, {size.images(), size.height, size.width, out}));
  };
  return {absl::StrCat("conv2d_over_frames_", size.Name(), "_", in, "_to_", out), Op::kConv2d,
          build};
}

// The same where images are not channels-last.
OpCase ConvolutionOverPlanes(const ClipSize& size, int64_t in, int64_t out) {
  const auto build = [=](GraphBuilder& b) {
    const Value x =
        b.Input("x", DType::kF32, {size.clips, in, size.frames, size.pixels()}, Rate::kStep);
    b.Output("y", b.Conv2d(x, b.Weight("net/weight", {out, in, 3, 1}), b.Weight("net/bias", {out}),
                           {.padding = {.top = 1, .bottom = 1}}));
  };
  return {absl::StrCat("conv2d_over_planes_", size.Name(), "_", in, "_to_", out), Op::kConv2d,
          build};
}

// Moments are of all frames of a clip.
OpCase GroupNormOverClips(const ClipSize& size, int64_t channels, int64_t groups) {
  const auto build = [=](GraphBuilder& b) {
    const Value normed =
        b.GroupNorm(Columns(b, size, channels), b.Weight("net/gamma", {channels}),
                    b.Weight("net/beta", {channels}), {groups, 1e-5f, Layout::kNhwc});
    b.Output("y", b.Reshape(normed, {size.images(), size.height, size.width, channels}));
  };
  return {absl::StrCat("group_norm_over_frames_", size.Name(), "_", channels), Op::kGroupNorm,
          build};
}

// Attention of each pixel to itself in all frames of its clip: queries, keys and values move to
// tracks, [clips * pixels, frames, channels], and what they mix back (TokensToTracks).
OpCase AttentionOverClips(const ClipSize& size, int64_t heads, int64_t head_size) {
  const int64_t channels = heads * head_size;
  const auto build = [=](GraphBuilder& b) {
    const auto tracks = [&](const char* name) {
      const Value tokens = b.Input(name, DType::kF32,
                                   {size.clips, size.frames, size.pixels(), channels}, Rate::kStep);
      return b.Reshape(b.Permute(tokens, {0, 2, 1, 3}),
                       {size.clips * size.pixels(), size.frames, channels});
    };
    const float scale = 1 / std::sqrt(static_cast<float>(head_size));
    const Value mixed = b.Attention(tracks("q"), tracks("k"), tracks("v"), {heads, scale, false});
    const Value by_pixel = b.Reshape(mixed, {size.clips, size.pixels(), size.frames, channels});
    b.Output("y", b.Permute(by_pixel, {0, 2, 1, 3}));
  };
  return {absl::StrCat("attention_over_frames_", size.Name(), "_", head_size), Op::kAttention,
          build};
}

OpCase AttentionToManyKeys(const std::string& prefix, int64_t keys, int64_t head_size,
                           float scale) {
  return {absl::StrCat("attention_to_", prefix, keys, "_keys_", head_size), Op::kAttention,
          [=](GraphBuilder& b) {
            const auto tokens = [&](const std::string& input, int64_t count) {
              return b.Input(input, DType::kF32, {1, count, head_size}, Rate::kStep);
            };
            const Value q = tokens(prefix + "q", 3), k = tokens(prefix + "k", keys);
            b.Output("y", b.Attention(q, k, tokens("v", keys), {1, scale, false}));
          }};
}

// One to three clips of 1 to 32 frames of 1 to 70 pixels.
std::vector<ClipSize> ClipSizes() {
  return {{1, 1, 3, 3}, {2, 2, 1, 1}, {1, 7, 2, 5}, {2, 14, 5, 7}, {1, 25, 7, 10}, {3, 32, 3, 4}};
}

}  // namespace

std::vector<OpCase> OverFramesCases() {
  std::vector<OpCase> cases;
  for (const ClipSize& size : ClipSizes()) {
    cases.push_back(ConvolutionOverClips(size, 16, 16));
    cases.push_back(GroupNormOverClips(size, 64, 32));
    cases.push_back(AttentionOverClips(size, 2, 64));
  }
  // The decoder's last convolution, and channels that are no multiple of what kernels take.
  cases.push_back(ConvolutionOverClips({1, 5, 4, 6}, 3, 3));
  cases.push_back(ConvolutionOverClips({2, 3, 3, 5}, 37, 19));
  cases.push_back(ConvolutionOverPlanes({2, 5, 3, 5}, 32, 32));
  cases.push_back(ConvolutionOverPlanes({1, 4, 2, 3}, 3, 3));
  cases.push_back(GroupNormOverClips({2, 5, 3, 3}, 32, 32));
  cases.push_back(AttentionOverClips({2, 5, 3, 3}, 4, 8));
  // As many keys as images of Stable Video Diffusion have, of few queries.
  cases.push_back(AttentionToManyKeys("", 9216, 64, 0.3f));
  // Scores of up to 100,000 before they are scaled: beyond what half precision holds.
  cases.push_back(AttentionToManyKeys("large_", 1500, 512, 3e-4f));
  return cases;
}

}  // namespace latentd::testing
