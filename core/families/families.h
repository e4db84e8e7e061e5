// The table of families, and the family of a checkpoint by its model_index.json. Weights of one
// class often fit another one's network and draw something else, so classes are checked before
// anything is read.
//
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/families/family/family.h"
#include "core/pipeline/spec/models/model_table.h"
#include "core/weights/containers/checkpoint.h"

namespace latentd::families {

// The family whose pipelines the checkpoint's is one of: a pipeline of text-to-image, or another
// one of the same components (of image-to-image, with a ControlNet, ...). A refiner is of a family
// that starts from an image, as its pipeline does, a base of one that does not, and a model that
// draws videos of one that does so. Each component that is drawn with must be of a class and
// library that such pipelines have, as diffusers would load it; the noise scheduler may be of any
// class of diffusers, since a request can name another one. Components of other names are passed
// over, as diffusers does.
//
// INVALID_ARGUMENT names the file, the field, what it says and what would be right.
absl::StatusOr<const Family*> FindFamily(const pipeline::ModelRow& model,
                                         const weights::Checkpoint& checkpoint);

// A sentence for each thing that the checkpoint's model_index.json asks for and images are drawn
// without. REQUIRES: it is of the family.
std::vector<std::string> FindLeftOut(const Family& family, const weights::Checkpoint& checkpoint);

// Sizes to have ready for a model of that own size: the family's where it was trained at the first
// of them, else its own and one wider and one higher of about its area, in multiples of 8.
// Videos have as many frames as their own.
std::vector<pipeline::Size> DefaultBuckets(const Family& family, const pipeline::Size& own);

}  // namespace latentd::families
