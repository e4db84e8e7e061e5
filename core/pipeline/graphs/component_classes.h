// Checks of model_index.json: the classes of the pipeline and its components. Weights of
// one class often fit another one's network and draw something else, so classes are checked before
// anything is read.
//
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/pipeline/spec/model_table.h"
#include "core/weights/checkpoint.h"

namespace latentd::pipeline {

// OK iff the checkpoint's pipeline can serve as `model`, and each component that is drawn with is
// of a class and library that this pipeline has, as diffusers would load it:
//   base      StableDiffusionXLPipeline, or another pipeline of the same components (of
//             image-to-image, with a ControlNet, ...), without requires_aesthetics_score (what
//             AutoPipelineForText2Image takes)
//   refiner   StableDiffusionXLImg2ImgPipeline, or another that starts from an image
// The noise scheduler may be of any class of diffusers: a request can name another one. Components
// of other names are passed over, as diffusers does.
//
// INVALID_ARGUMENT names the file, the field, what it says and what would be right.
absl::Status CheckClasses(const ModelRow& model, const weights::Checkpoint& checkpoint);

// A sentence for each thing that the checkpoint's model_index.json asks for and pictures are drawn
// without. REQUIRES: CheckClasses has taken it.
std::vector<std::string> FindLeftOut(const weights::Checkpoint& checkpoint);

}  // namespace latentd::pipeline
