// Images of requests that are prompts: their IP-Adapters are looked up when a request is resolved.
//
// Thread-safe: free functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/pipeline/graphs/loaded_model.h"
#include "core/pipeline/plan/plan.h"
#include "core/pipeline/spec/request/inputs.h"
#include "core/pipeline/spec/request/picture_spec.h"

namespace latentd::pipeline {

// Gives each of the spec's IP-Adapters what it has by default, and the file that the request means,
// and adds sentences to `warnings`. `catalogue` may be null: there are none. INVALID_ARGUMENT with
// a field for each that there is not, that is no IP-Adapter, is for another model, has no image
// and no embeddings that can be read, or scales of blocks that the model has not, and one for more
// tokens or pixels than can be read; FAILED_PRECONDITION as Catalogue::Find's.
absl::Status ResolveImagePrompts(adapters::Catalogue* catalogue, const LoadedModel& model,
                                 const Inputs& inputs, PictureSpec& spec,
                                 std::vector<std::string>& warnings);

// Field of a request with that image of that adapter.
std::string ImagePromptField(size_t adapter, size_t image);

// Embeddings that the request brings for that adapter; null: it has images.
const HostTensor* ImageEmbedsOf(const Inputs& inputs, size_t adapter);

// The spec's IP-Adapters, as Plan::image_prompts has them, without those whose scales are all 0:
// the images are those without these. REQUIRES: ResolveImagePrompts is OK of all three.
std::vector<PlannedImagePrompt> PlanImagePrompts(const LoadedModel& model, const PictureSpec& spec,
                                                 const Inputs& inputs);

// The IP-Adapters of the folder that the model can draw with, as prompts without anything else.
std::vector<ImagePrompt> ImagePromptsFor(const adapters::Catalogue& catalogue,
                                         const LoadedModel& model);

// Graphs of one of them over the model, which reads so many images, and with `encodes` their
// encoder.
std::vector<PlannedGraph> GraphsOfIpAdapter(ModelId model, uint64_t net, int images,
                                            bool encodes = true);

// Adds the graphs of the plan's to the plan.
void AddImagePromptGraphs(Plan& plan);

// Bytes of a lane's ports for the plan's image prompts, of one row.
int64_t ImagePromptRowBytes(const Plan& plan);

// Bytes that the plan's image prompts hold beside weights, executables, arena and lane.
int64_t ImagePromptBytes(const Plan& plan);

}  // namespace latentd::pipeline
