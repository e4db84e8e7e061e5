#include "core/pipeline/units.h"

#include "core/base/out_of_memory.h"
#include "core/base/status_macros.h"
#include "core/pipeline/unit_kinds.h"

namespace latentd::pipeline {
namespace {

absl::Status EnqueueNext(Picture& picture, device::Stream& stream, PendingUnit& unit) {
  switch (picture.next) {
    case UnitKind::kText:
      return EnqueueText(picture, stream, unit);
    case UnitKind::kEncode:
      return EnqueueEncode(picture, stream, unit);
    case UnitKind::kStep:
      return EnqueueStep(picture, stream, unit);
    case UnitKind::kDecode:
      return EnqueueDecode(picture, stream, unit);
    case UnitKind::kWait:
    case UnitKind::kDone:
      break;
  }
  return absl::FailedPreconditionError("the picture has no unit to run");
}

}  // namespace

absl::StatusOr<PendingUnit> EnqueueUnit(Picture& picture, device::Stream& stream) {
  PendingUnit unit;
  unit.kind = picture.next;
  unit.ends_stage = true;
  const int steps_before = picture.steps_done;
  const absl::Status status = CatchOutOfMemory([&] {
    RETURN_IF_ERROR(EnqueueNext(picture, stream, unit));
    unit.ends_stage = unit.ends_stage && picture.next != unit.kind;
    ASSIGN_OR_RETURN(unit.done, stream.Record());
    return absl::OkStatus();
  });
  if (!status.ok()) {
    // What is on the stream uses what the unit holds.
    stream.Synchronize().IgnoreError();
    return status;
  }
  unit.steps_done = picture.steps_done;
  unit.steps = unit.steps_done - steps_before;
  return unit;
}

absl::Status CompleteUnit(Picture& picture, PendingUnit& unit) {
  for (const auto& event : unit.work.events) RETURN_IF_ERROR(event->Wait());
  RETURN_IF_ERROR(unit.done->Wait());
  if (unit.kind == UnitKind::kDecode) return CompleteDecode(picture, unit);
  for (const FiniteFlag& flag : unit.work.flags) RETURN_IF_ERROR(flag.Check());
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
