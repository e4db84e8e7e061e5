// The graphs of an IP-Adapter (core/networks/ip_adapter.h) over a model, and the port by which the
// model's steps read what they give.
//
// The image encoder, once a request, and once more for a negative row that reads states of patches;
// not for what the request brings embeddings of:
//   pixels f32 [1, 3, s, s]   normed as CLIP's are -> image f32 [1, features], or [1, patches,
//                             features]
// The prompt, once for each row:
//   image                     that, or zeros
//   scales f32 [1, n]         a factor for each of the UNet's n attentions to text
//   -> image_prompt [1, m]    keys and scaled values of each of them, one behind the other
// Several images of one adapter are rows of `image`, and their tokens are read together.
// Image prompts are of the dtype that the networks compute in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/dtype.h"
#include "core/graph/graph.h"
#include "core/graph/graph_builder.h"
#include "core/networks/config/clip_vision_config.h"
#include "core/networks/config/unet_2d_condition_config.h"
#include "core/networks/ip_adapter.h"
#include "core/pipeline/graphs/graph_name.h"
#include "core/pipeline/graphs/row_port.h"

namespace latentd::pipeline {

inline constexpr char kImagePromptPort[] = "image_prompt";

// "image_prompt" of the first adapter of a step, then "image_prompt_2" and so on.
std::string ImagePromptPortName(size_t index);

// The ports of a UNet's steps that read images of so many tokens, one for each adapter.
std::vector<RowPort> ImagePromptPorts(const networks::Unet2dConditionConfig& unet,
                                      const ImageTokens& tokens, device::DType dtype);

// Keys and values of rows of such ports, [rows, m] each, in f32: of each attention those of all
// adapters. Empty: there are none.
std::vector<std::vector<networks::KeysAndValues>> UnpackImagePrompts(
    graph::GraphBuilder& builder, const networks::Unet2dConditionConfig& unet,
    const ImageTokens& tokens, const std::vector<graph::Value>& packed);

// The shape of so many images as an encoder gives them.
device::Shape EncodedImageShape(const networks::ClipVisionConfig& encoder,
                                const networks::IpAdapterConfig& adapter, int64_t images);

absl::StatusOr<graph::Graph> MakeImageEncoderGraph(const networks::ClipVisionConfig& encoder,
                                                   const networks::IpAdapterConfig& adapter);

absl::StatusOr<graph::Graph> MakeImagePromptGraph(const networks::ClipVisionConfig& encoder,
                                                  const networks::IpAdapterConfig& adapter,
                                                  const networks::Unet2dConditionConfig& unet,
                                                  device::DType dtype, int64_t images);

}  // namespace latentd::pipeline
