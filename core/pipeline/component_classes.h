// What model_index.json promises: of which classes the pipeline and its components are. Weights of
// one class often fit another one's network and draw something else, so classes are checked before
// anything is read.
//
// Pure functions.
#pragma once

#include "absl/status/status.h"
#include "core/pipeline/picture_spec.h"
#include "core/weights/checkpoint.h"

namespace latentd::pipeline {

// OK iff the checkpoint's pipeline can serve as `which`, and each component that is drawn with is
// of a class and library that this pipeline has, as diffusers would load it:
//   base      StableDiffusionXLPipeline, or the image-to-image or inpainting pipeline of the same
//             components, without requires_aesthetics_score (what AutoPipelineForText2Image takes)
//   refiner   StableDiffusionXLImg2ImgPipeline
// Components of other names are passed over, as diffusers does.
//
// INVALID_ARGUMENT names the file, the field, what it says and what would be right.
absl::Status CheckClasses(Model which, const weights::Checkpoint& checkpoint);

}  // namespace latentd::pipeline
