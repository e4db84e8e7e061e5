// Finds parameters of a request without effect on its pictures, and why: for warnings. One that
// cannot be right at all is refused by validation.h instead.
//
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::pipeline {

// Parts of a request that one of the models that draw a picture reads.
struct ModelReads {
  bool clip_skip = false;         // the refiner does not
  bool second_prompts = false;    // it has two text encoders
  bool eta = false;               // its noise scheduler does: DDIM
  bool sizes = true;              // and crops
  bool aesthetic_scores = false;  // instead of target sizes
  bool negative_prompt = true;    // with guidance; else the network itself is told how much
  bool zeros_for_negative =
      false;  // an absent negative_prompt is zeros, whatever the second one is
  // Some of its steps are in guidance_interval.
  bool guided_steps = true;
  bool deep_features = true;  // its UNet has some, which steps can read
  bool cached_steps = false;  // some of its evaluations do
  bool previews = true;       // there is a way to draw them
};

// Facts that decide it.
struct Uses {
  const PictureSpec& asked;
  const PictureSpec& resolved;
  absl::Span<const ModelReads> models;
  bool guidance = false;        // guidance_scale is above 1, and some model has a negative prompt
  bool negative_sizes = false;  // both are given: text-to-image looks at neither alone

  bool AnyModel(bool ModelReads::*reads) const {
    return absl::c_any_of(models, [&](const ModelReads& model) { return model.*reads; });
  }
  bool EveryModel(bool ModelReads::*reads) const {
    return absl::c_all_of(models, [&](const ModelReads& model) { return model.*reads; });
  }
};

// A sentence for each parameter of `asked` that has no effect: "eta has no effect: ...". `resolved`
// is what Pipeline::Resolve made of it. A parameter that has the value of its default is not
// worth a sentence, so that what an answer says was used can be sent again without any.
std::vector<std::string> FindUnusedParameters(const PictureSpec& asked, const PictureSpec& resolved,
                                              absl::Span<const ModelReads> models);

}  // namespace latentd::pipeline
