// Control networks of requests: looked up when a request is resolved, with the evaluations in which
// each takes part.
//
// Thread-safe: free functions without state.
#pragma once

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

// Gives each of the spec's controls what it has by default, and the file that the request means,
// and adds sentences to `warnings`. `catalogue` may be null: there are none. INVALID_ARGUMENT with
// a field for each that there is not, that is no ControlNet, is for another model, has a mode that
// the net does not have, or no image that can be read; FAILED_PRECONDITION as Catalogue::Find's.
absl::Status ResolveControls(adapters::Catalogue* catalogue, const LoadedModel& model,
                             const Inputs& inputs, PictureSpec& spec,
                             std::vector<std::string>& warnings);

// Names the spec's adapters, of which `loras` names the LoRAs (0: none), its controls and
// IP-Adapters together; 0: there are none.
uint64_t AdaptersIdOf(uint64_t loras, const PictureSpec& spec);

// Plans the spec's controls for a schedule of so many evaluations, of which the first stage runs
// those of `stage`.
std::vector<PlannedControl> PlanControls(const PictureSpec& spec, size_t evaluations,
                                         const PlannedStage& stage);

// The nets of the folder that the model can draw with, as controls without anything else.
std::vector<Control> ControlsFor(const adapters::Catalogue& catalogue, const LoadedModel& model);

// Graphs of one net over the model beside steps of the shape's size and chunks, for images of those
// numbers of rows.
std::vector<PlannedGraph> GraphsOfControl(ModelId model, uint64_t control, const StepShape& shape,
                                          const std::vector<int>& rows);
// Adds the graphs of the plan's controls, for steps of those numbers of rows.
void AddControlGraphs(const StepShape& shape, const std::vector<int>& rows, Plan& plan);

// Bytes that they hold beside weights, executables and arena: hints, what they read of prompts, and
// residuals of one image's rows, those of evaluations without guidance beside the guided ones'.
int64_t ControlBytes(const Plan& plan);

}  // namespace latentd::pipeline
