// One model's part of an image's way, with the executables that it runs: held from Start to the end
// of the request, so that no unit of work compiles, loads or waits for either.
#pragma once

#include <memory>
#include <vector>

#include "core/pipeline/graphs/loaded_model.h"
#include "core/pipeline/lanes/step_lane.h"
#include "core/pipeline/plan/plan.h"

namespace latentd::pipeline {

struct Stage {
  Stage(const PlannedStage& planned, const LoadedModel& model) : planned(planned), model(model) {}

  const schedulers::Schedule& schedule() const { return planned.schedule; }
  ModelGraphs& graphs() const { return adapted != nullptr ? *adapted : model.graphs(); }
  device::Device& device() const {
    return request_part != nullptr ? request_part->device() : text.front()->device();
  }

  const PlannedStage& planned;           // part of the request's plan
  const LoadedModel& model;              // on the device that draws
  std::shared_ptr<ModelGraphs> adapted;  // the model's over the request's adapters; null: its own
  std::vector<ExecutablePointer> text;   // in the order of the model's text encoders
  std::vector<ExecutablePointer> masked_text;  // likewise; empty: no prompt has blends
  ExecutablePointer request_part;              // null: nothing runs but the text encoders
  // By rows: those of the request's own number, and of more where they are ready.
  StepLane::Executables steps;
  // Shallow ones for each of these numbers, which are full then; empty: the plan has none.
  StepLane::Executables shallow_steps;
  // Parts of a step of two rows, which another device may help with; null: they are not ready.
  ExecutablePointer network, advance;
};

}  // namespace latentd::pipeline
