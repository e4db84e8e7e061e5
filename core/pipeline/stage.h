// One network's part of a picture's way. It holds the executables that it runs, from Start to the
// end of the request, so that no unit of work compiles, loads or waits for either.
#pragma once

#include <vector>

#include "core/pipeline/sdxl_model.h"
#include "core/pipeline/step_lane.h"
#include "core/schedulers/schedule.h"

namespace latentd::pipeline {

struct Stage {
  Model which = Model::kBase;
  const SdxlModel* model = nullptr;
  schedulers::Schedule schedule;
  std::vector<ExecutablePointer> text;  // in the order of the model's text encoders
  ExecutablePointer request_part;
  // By rows: those of the request's own number, and of more where they are ready.
  StepLane::Executables steps;

  device::Device& device() const { return request_part->device(); }
};

}  // namespace latentd::pipeline
