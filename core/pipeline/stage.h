// One network's part of a picture's way. It holds the executables that it runs, from Start to the
// end of the request, so that no unit of work compiles, loads or waits for either.
#pragma once

#include <cstddef>
#include <vector>

#include "core/pipeline/picture_spec.h"
#include "core/pipeline/sdxl_model.h"
#include "core/pipeline/step_lane.h"
#include "core/schedulers/schedule.h"

namespace latentd::pipeline {

struct Stage {
  const SdxlModel* model = nullptr;
  schedulers::Schedule schedule;
  // Evaluations of the schedule that are guided where the picture is: from this one, and before
  // that.
  size_t guided_begin = 0, guided_end = 0;
  std::vector<ExecutablePointer> text;  // in the order of the model's text encoders
  ExecutablePointer request_part;
  // By rows: those of the request's own number, and of more where they are ready.
  StepLane::Executables steps;

  device::Device& device() const { return request_part->device(); }
  bool IsGuided(size_t evaluation) const {
    return evaluation >= guided_begin && evaluation < guided_end;
  }
};

// Says which evaluations are guided, of all stages of a picture. Steps are counted as users do: of
// all of these stages together, those that are run only.
void SetGuided(const GuidanceInterval& interval, std::vector<Stage>& stages);

}  // namespace latentd::pipeline
