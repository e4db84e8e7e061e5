// Requests that bring embeddings, made by the text encoders of a rig.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/files/tensor_file.h"
#include "core/pipeline/units/embeds_file.h"
#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {

// The tensor of that name, if the file has it.
inline std::optional<HostTensor> TensorOf(const std::vector<NamedTensor>& tensors,
                                          const std::string& name) {
  const NamedTensor* found = FindTensor(tensors, name);
  if (found == nullptr) return std::nullopt;
  const auto type = found->dtype == "F32"   ? HostTensor::Type::kFloat32
                    : found->dtype == "F16" ? HostTensor::Type::kFloat16
                                            : HostTensor::Type::kBFloat16;
  return HostTensor{type, found->shape, found->data};
}

// The file of what the prompts of the spec are encoded to.
inline std::string EmbedsFileOf(const Rig& rig, PictureSpec spec,
                                HostTensor::Type type = HostTensor::Type::kFloat32) {
  spec.output_embeds = type;
  const auto picture = rig.Finish(spec);
  const auto file = EmbedsFile(picture->plan(), picture->embeds);
  EXPECT_OK(file);
  EXPECT_LE(static_cast<int64_t>(file->size()), EmbedsFileBytes(picture->plan()));
  return *file;
}

// The spec with embeddings in place of its prompts, and nothing that is about these.
inline Asked Embedded(const Rig& rig, const PictureSpec& spec,
                      HostTensor::Type type = HostTensor::Type::kFloat32) {
  const auto tensors = ParseTensorFile(EmbedsFileOf(rig, spec, type), "embeddings").value();
  Asked asked = spec;
  asked.prompt.clear();
  asked.prompt_2.reset();
  asked.negative_prompt.reset();
  asked.negative_prompt_2.reset();
  asked.prompt_syntax = prompts::Syntax::kNone;
  asked.long_prompt = prompts::LongPrompt::kTruncate;
  asked.clip_skip.reset();
  asked.inputs.prompt = {TensorOf(tensors, "prompt_embeds"),
                         TensorOf(tensors, "pooled_prompt_embeds")};
  asked.inputs.negative = {TensorOf(tensors, "negative_prompt_embeds"),
                           TensorOf(tensors, "negative_pooled_prompt_embeds")};
  return asked;
}

}  // namespace latentd::pipeline
