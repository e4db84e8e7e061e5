#include "core/weights/containers/recognize/unet_modules.h"

#include "absl/strings/str_cat.h"

namespace latentd::weights {

using device::Shape;

std::string UnetModules::In(absl::string_view path, absl::string_view name) {
  return absl::StrCat(path, ".", name);
}

bool UnetModules::CheckBlockCounts() {
  const size_t blocks = paths_.down.size();
  if (blocks > 0 && blocks <= kMostBlocks && paths_.up.size() == blocks) return true;
  reader_.Refuse(absl::StrCat("it has ", blocks, " blocks on the way down and ", paths_.up.size(),
                              " on the way up"));
  return false;
}

void UnetModules::TakeNorm(absl::string_view from, absl::string_view to, int64_t features) {
  for (const char* part : {"weight", "bias"})
    reader_.Take(In(from, part), In(to, part), {features});
}

void UnetModules::TakeWithBias(absl::string_view from, absl::string_view to, const Shape& weight) {
  reader_.Take(In(from, "weight"), In(to, "weight"), weight);
  reader_.Take(In(from, "bias"), In(to, "bias"), {weight[0]});
}

void UnetModules::TakeConvolutionIn(int64_t channels, int64_t first) {
  TakeWithBias(paths_.spelling.conv_in, "conv_in", {first, channels, 3, 3});
}

void UnetModules::TakeTimeEmbedding(int64_t first) {
  TakeLinear(paths_.spelling.time_linear_1, "time_embedding.linear_1", 4 * first, first);
  TakeLinear(paths_.spelling.time_linear_2, "time_embedding.linear_2", 4 * first, 4 * first);
}

void UnetModules::TakeAddedEmbedding(int64_t features, int64_t first) {
  TakeLinear(paths_.spelling.add_linear_1, "add_embedding.linear_1", 4 * first, features);
  TakeLinear(paths_.spelling.add_linear_2, "add_embedding.linear_2", 4 * first, 4 * first);
}

void UnetModules::TakeConvolutionOut(int64_t channels, int64_t first) {
  TakeNorm(paths_.spelling.conv_norm_out, "conv_norm_out", first);
  TakeWithBias(paths_.spelling.conv_out, "conv_out", {channels, first, 3, 3});
}

void UnetModules::TakeResidual(const std::string& from, const std::string& to, int64_t in,
                               int64_t out, int64_t time_features,
                               const std::vector<int64_t>& kernel) {
  const UnetSpelling& spelling = paths_.spelling;
  const auto shape = [&](int64_t channels) {
    std::vector<int64_t> sizes = {out, channels};
    sizes.insert(sizes.end(), kernel.begin(), kernel.end());
    return Shape(sizes);
  };
  TakeNorm(In(from, spelling.norm1), In(to, "norm1"), in);
  TakeWithBias(In(from, spelling.conv1), In(to, "conv1"), shape(in));
  TakeLinear(In(from, spelling.time_emb_proj), In(to, "time_emb_proj"), out, time_features);
  TakeNorm(In(from, spelling.norm2), In(to, "norm2"), out);
  TakeWithBias(In(from, spelling.conv2), In(to, "conv2"), shape(out));
  if (in == out) return;
  TakeWithBias(In(from, spelling.conv_shortcut), In(to, "conv_shortcut"), {out, in, 1, 1});
}

void UnetModules::TakeAttention(const std::string& from, const std::string& to, int64_t channels,
                                int64_t states) {
  reader_.Take(In(from, "to_q.weight"), In(to, "to_q.weight"), {channels, channels});
  reader_.Take(In(from, "to_k.weight"), In(to, "to_k.weight"), {channels, states});
  reader_.Take(In(from, "to_v.weight"), In(to, "to_v.weight"), {channels, states});
  TakeLinear(In(from, "to_out.0"), In(to, "to_out.0"), channels, channels);
}

void UnetModules::TakeFeedForward(const std::string& from, const std::string& to,
                                  int64_t channels) {
  TakeLinear(In(from, "net.0.proj"), In(to, "net.0.proj"), 8 * channels, channels);
  TakeLinear(In(from, "net.2"), In(to, "net.2"), channels, 4 * channels);
}

void UnetModules::TakeTransformerBlock(const std::string& from, const std::string& to,
                                       int64_t channels, int64_t states) {
  for (const char* norm : {"norm1", "norm2", "norm3"}) {
    TakeNorm(In(from, norm), In(to, norm), channels);
  }
  TakeAttention(In(from, "attn1"), In(to, "attn1"), channels, channels);
  TakeAttention(In(from, "attn2"), In(to, "attn2"), channels, states);
  TakeFeedForward(In(from, "ff"), In(to, "ff"), channels);
}

int64_t UnetModules::DepthOf(absl::string_view attention) const {
  return reader_.CountUnder(In(attention, "transformer_blocks"));
}

void UnetModules::TakeDown(const std::vector<int64_t>& channels, TakeLayer take) {
  int64_t in = channels.front();
  skips_ = {in};
  for (size_t i = 0; i < paths_.down.size(); ++i) {
    const UnetPaths::Block& block = paths_.down[i];
    const std::string to = absl::StrCat("down_blocks.", i);
    const int64_t out = channels[i];
    for (size_t j = 0; j < block.layers.size(); ++j) {
      take(block.layers[j], {i, to, j, std::exchange(in, out), out});
      skips_.push_back(out);
    }
    if (block.sampler.empty()) continue;
    TakeWithBias(block.sampler, to + ".downsamplers.0.conv", {out, out, 3, 3});
    skips_.push_back(out);
  }
}

void UnetModules::TakeUp(const std::vector<int64_t>& channels, TakeLayer take) {
  int64_t x = channels.back();
  for (size_t i = 0; i < paths_.up.size(); ++i) {
    const UnetPaths::Block& block = paths_.up[i];
    const std::string to = absl::StrCat("up_blocks.", i);
    const int64_t out = channels[channels.size() - 1 - i];
    for (size_t j = 0; j < block.layers.size(); ++j) {
      take(block.layers[j], {i, to, j, std::exchange(x, out) + skips_.back(), out});
      skips_.pop_back();
    }
    if (block.sampler.empty()) continue;
    TakeWithBias(block.sampler, to + ".upsamplers.0.conv", {out, out, 3, 3});
  }
}

}  // namespace latentd::weights
