// The units of work: each takes a picture one further. A unit is enqueued on a stream, and
// completed when its work there is done; the next one of the same picture may be enqueued in
// between.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/pipeline/picture.h"
#include "core/pipeline/run_graph.h"

namespace latentd::pipeline {

// A unit whose work is on a stream: not to be destroyed before `done` is reached.
struct PendingUnit {
  UnitKind kind = UnitKind::kText;
  int steps = 0;            // that it does, as users count them
  int steps_done = 0;       // of the picture's total_steps, by its end
  bool ends_stage = false;  // the last of its kind before another one; of a decode: if it succeeds
  std::shared_ptr<const device::Event> done;

  PendingWork work;
  device::Buffer pixels;  // of a decode, u8 [1, H, W, 3]
};

// Enqueues the unit that picture.next names and says there what is next: kWait where that depends
// on how the unit ends. After an error the picture is of no further use, and nothing of the unit is
// on the stream any more. All units of the pictures of one request are on one stream, unless those
// before are completed. RESOURCE_EXHAUSTED: no memory, of the host's heap too. REQUIRES:
// picture.next is neither kWait nor kDone.
absl::StatusOr<PendingUnit> EnqueueUnit(Picture& picture, device::Stream& stream);

// Waits for the unit and says how it ended. A decode's pixels go to the picture, which is kDone; or
// it is kDecode again, and `unit` ends no stage, where what was decoded is not finite and a decoder
// in float32 is left to try. REQUIRES: units of one picture in the order in which they were
// enqueued.
absl::Status CompleteUnit(Picture& picture, PendingUnit& unit);

}  // namespace latentd::pipeline
