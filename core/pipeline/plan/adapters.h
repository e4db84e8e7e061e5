// Adapters of requests: looked up when a request is resolved.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/pipeline/graphs/loaded_model.h"
#include "core/pipeline/plan/plan.h"
#include "core/pipeline/spec/request/picture_spec.h"
#include "core/pipeline/spec/request/words.h"
#include "core/pipeline/spec/validation.h"

namespace latentd::pipeline {

// Gives each of the spec's adapters what it has by default, and the file that the request means,
// and adds sentences to `warnings`. `catalogue` may be null: there are none. INVALID_ARGUMENT with
// a field for each that there is not, that is no LoRA, or is for another model; FAILED_PRECONDITION
// as Catalogue::Find's.
absl::Status ResolveAdapters(adapters::Catalogue* catalogue, const LoadedModel& model,
                             PictureSpec& spec, std::vector<std::string>& warnings);

// Fills in what the plan's spec leaves out: as the preset says that its adapters bring, else as its
// model does. Of several adapters with presets the first one's counts, and the plan warns of
// others; one that cannot be used brings none, and ResolveAdapters says why. The preset's scheduler
// and its settings become the request's, where that names no other; one without such settings keeps
// its own. Of an effort, settings that this server has no graphs for are left out, and the plan
// warns of it. `catalogue` and `starts`, the model, may be null: there is none. `image_size`: of
// the init image; null: there is none.
void FillDefaults(const Traits& traits, adapters::Catalogue* catalogue, const LoadedModel* starts,
                  const Size* image_size, Plan& plan);

// Ranks of the low-rank paths that rows of the model's steps have for the spec's adapters, once
// they are resolved; 0: none, and the adapters are merged.
int PathRanksFor(const LoadedModel& model, const PictureSpec& spec);

// Words of the model, of which those that are in the spec's prompts are as their files are now.
// Null: there are none. Adds a sentence for each word of the prompts that is text, since its file
// cannot be used any more.
SharedWords WordsFor(adapters::Catalogue* catalogue, const LoadedModel& model,
                     const PictureSpec& spec, std::vector<std::string>& warnings);

}  // namespace latentd::pipeline
