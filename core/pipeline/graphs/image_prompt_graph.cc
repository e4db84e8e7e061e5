#include "core/pipeline/graphs/image_prompt_graph.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/networks/clip_vision.h"
#include "core/networks/cross_attentions.h"
#include "core/pipeline/spec/models/components.h"

namespace latentd::pipeline {
namespace {

using device::DType;
using device::Shape;
using graph::GraphBuilder;
using graph::Rate;
using graph::Value;
using networks::ClipVisionConfig;
using networks::CrossAttention;
using networks::IpAdapterConfig;
using networks::KeysAndValues;

bool ReadsPatches(const IpAdapterConfig& adapter) {
  return adapter.projection == IpAdapterConfig::Projection::kResampler;
}

Value Flat(GraphBuilder& b, Value x) { return b.Reshape(x, {1, b.shape(x).elements()}); }

// Appends the keys and values of one adapter to those of each attention.
void Unpack(GraphBuilder& b, const std::vector<CrossAttention>& attentions, int64_t tokens,
            Value packed, std::vector<std::vector<KeysAndValues>>& all) {
  const int64_t rows = b.shape(packed)[0];
  int64_t at = 0;
  for (size_t i = 0; i < attentions.size(); ++i) {
    const CrossAttention& attention = attentions[i];
    const int64_t elements = tokens * attention.features;
    const auto take = [&] {
      const Value flat = b.Slice(packed, 1, at, at + elements);
      at += elements;
      return b.Reshape(flat, {rows, tokens, attention.features});
    };
    KeysAndValues& one = all[i].emplace_back();
    one.keys = take();
    one.values = take();
  }
}

}  // namespace

std::string ImagePromptPortName(size_t index) {
  return index == 0 ? kImagePromptPort : absl::StrCat(kImagePromptPort, "_", index + 1);
}

std::vector<RowPort> ImagePromptPorts(const networks::Unet2dConditionConfig& unet,
                                      const ImageTokens& tokens, DType dtype) {
  int64_t features = 0;
  for (const CrossAttention& one : networks::CrossAttentionsOf(unet)) features += one.features;
  std::vector<RowPort> ports;
  for (const int count : tokens) {
    ports.push_back(
        {.name = ImagePromptPortName(ports.size()), .dtype = dtype, .row = {2 * count * features}});
  }
  return ports;
}

std::vector<std::vector<KeysAndValues>> UnpackImagePrompts(
    GraphBuilder& b, const networks::Unet2dConditionConfig& unet, const ImageTokens& tokens,
    const std::vector<Value>& packed) {
  if (tokens.empty()) return {};
  const std::vector<CrossAttention> attentions = networks::CrossAttentionsOf(unet);
  std::vector<std::vector<KeysAndValues>> all(attentions.size());
  for (size_t i = 0; i < tokens.size(); ++i) Unpack(b, attentions, tokens[i], packed[i], all);
  return all;
}

Shape EncodedImageShape(const ClipVisionConfig& encoder, const IpAdapterConfig& adapter,
                        int64_t images) {
  if (ReadsPatches(adapter)) return {images, encoder.tokens(), encoder.hidden_size};
  return {images, encoder.projection_dim};
}

absl::StatusOr<graph::Graph> MakeImageEncoderGraph(const ClipVisionConfig& encoder,
                                                   const IpAdapterConfig& adapter) {
  GraphBuilder b;
  const int64_t side = encoder.image_size;
  const Value pixels =
      b.Input("pixels", DType::kF32, {1, encoder.num_channels, side, side}, Rate::kStep);
  // diffusers reads hidden_states[-2]: behind all layers but the last.
  b.Output("image", ReadsPatches(adapter)
                        ? networks::ClipVisionStates(b, encoder, kImageEncoderName, pixels,
                                                     /*left_out=*/1)
                        : networks::ClipVision(b, encoder, kImageEncoderName, pixels));
  return std::move(b).Build();
}

absl::StatusOr<graph::Graph> MakeImagePromptGraph(const ClipVisionConfig& encoder,
                                                  const IpAdapterConfig& adapter,
                                                  const networks::Unet2dConditionConfig& unet,
                                                  DType dtype, int64_t images) {
  GraphBuilder b;
  const auto attentions = static_cast<int64_t>(networks::CrossAttentionsOf(unet).size());
  const Value image =
      b.Input("image", DType::kF32, EncodedImageShape(encoder, adapter, images), Rate::kStep);
  const Value scales = b.Input("scales", DType::kF32, {1, attentions}, Rate::kStep);
  Value tokens = networks::ImageTokens(b, adapter, kIpAdapterName, image);
  if (images > 1) {
    tokens = b.Reshape(tokens, {1, images * adapter.tokens, adapter.text_features});
  }
  std::vector<Value> parts;
  int64_t i = 0;
  for (const KeysAndValues& read : networks::ReadTokens(b, unet, kIpAdapterName, tokens)) {
    const Value scale = b.Reshape(b.Slice(scales, 1, i, i + 1), {1, 1, 1});
    ++i;
    parts.push_back(Flat(b, read.keys));
    parts.push_back(Flat(b, b.Mul(read.values, scale)));
  }
  const Value packed = b.Concat(parts, 1);
  b.Output(kImagePromptPort, dtype == DType::kF32 ? packed : b.Cast(packed, dtype));
  return std::move(b).Build();
}

}  // namespace latentd::pipeline
