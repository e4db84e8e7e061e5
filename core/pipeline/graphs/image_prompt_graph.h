// The graphs of an IP-Adapter (core/networks/ip_adapter.h) over a model, and the port by which the
// model's steps read what they give.
//
// The image encoder, once a request, and once more for a negative row that reads states of patches:
//   pixels f32 [1, 3, s, s]   normed as CLIP's are -> image f32 [1, features], or [1, patches,
//                             features]
// The prompt, once for each row:
//   image                     that, or zeros
//   scales f32 [1, n]         a factor for each of the UNet's n attentions to text
//   -> image_prompt [1, m]    keys and scaled values of each of them, one behind the other
// Image prompts are of the dtype that the networks compute in.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/dtype.h"
#include "core/graph/graph.h"
#include "core/graph/graph_builder.h"
#include "core/networks/config/clip_vision_config.h"
#include "core/networks/config/unet_2d_condition_config.h"
#include "core/networks/ip_adapter.h"
#include "core/pipeline/graphs/row_port.h"

namespace latentd::pipeline {

inline constexpr char kImagePromptPort[] = "image_prompt";

// The port of a UNet's steps that read an image of so many tokens.
RowPort ImagePromptPort(const networks::Unet2dConditionConfig& unet, int64_t tokens,
                        device::DType dtype);

// Keys and values of rows of such a port, [rows, m], in f32.
std::vector<networks::KeysAndValues> UnpackImagePrompt(graph::GraphBuilder& builder,
                                                       const networks::Unet2dConditionConfig& unet,
                                                       int64_t tokens, graph::Value packed);

// The shape of an image as an encoder gives it.
device::Shape EncodedImageShape(const networks::ClipVisionConfig& encoder,
                                const networks::IpAdapterConfig& adapter);

absl::StatusOr<graph::Graph> MakeImageEncoderGraph(const networks::ClipVisionConfig& encoder,
                                                   const networks::IpAdapterConfig& adapter);

absl::StatusOr<graph::Graph> MakeImagePromptGraph(const networks::ClipVisionConfig& encoder,
                                                  const networks::IpAdapterConfig& adapter,
                                                  const networks::Unet2dConditionConfig& unet,
                                                  device::DType dtype);

}  // namespace latentd::pipeline
