#include "core/pipeline/units/units.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/base/errors/status_macros.h"
#include "core/pipeline/picture/finite.h"
#include "core/pipeline/units/unit_kinds.h"
#include "core/pipeline/units/video_units.h"

namespace latentd::pipeline {
namespace {

// Units that are others of an image than of a video.
struct OwnUnits {
  using Enqueue = absl::Status (*)(Picture& picture, device::Stream& stream, UnitPart& part);

  Enqueue text, encode, decode;
  absl::Status (*complete_decode)(Picture& picture, UnitPart& part);
};
constexpr OwnUnits kImageUnits = {EnqueueText, EnqueueEncode, EnqueueDecode, CompleteDecode};
constexpr OwnUnits kVideoUnits = {EnqueueVideoText, EnqueueVideoEncode, EnqueueVideoDecode,
                                  CompleteVideoDecode};

const OwnUnits& UnitsOf(const Picture& picture) {
  return picture.video != nullptr ? kVideoUnits : kImageUnits;
}

absl::Status EnqueueNext(absl::Span<Picture* const> pictures, Lanes& lanes, device::Stream& stream,
                         const StepHelper* helper, PendingUnit& unit) {
  Picture& picture = *pictures.front();
  switch (unit.kind) {
    case UnitKind::kText:
      return UnitsOf(picture).text(picture, stream, unit.parts.front());
    case UnitKind::kEncode:
      return UnitsOf(picture).encode(picture, stream, unit.parts.front());
    case UnitKind::kStep:
      return EnqueueStep(pictures, lanes, stream, helper, unit);
    case UnitKind::kDecode:
      return UnitsOf(picture).decode(picture, stream, unit.parts.front());
    case UnitKind::kWait:
    case UnitKind::kDone:
    case UnitKind::kPreview:
      break;
  }
  return absl::FailedPreconditionError("the picture has no unit to run");
}

// Calls `enqueue` for the stream, and enqueues the end.
absl::Status EnqueueAll(device::Stream& stream, PendingUnit& unit,
                        absl::FunctionRef<absl::Status()> enqueue) {
  // Work on the stream uses what the unit holds.
  absl::Cleanup failed = [&stream] { stream.Synchronize().IgnoreError(); };
  RETURN_IF_ERROR(enqueue());
  ASSIGN_OR_RETURN(unit.done, stream.Record());
  std::move(failed).Cancel();
  return absl::OkStatus();
}

absl::Status Complete(const PendingUnit& unit, Picture& picture, UnitPart& part) {
  for (const auto& event : part.work.events) RETURN_IF_ERROR(event->Wait());
  if (part.waits) return absl::OkStatus();
  RETURN_IF_ERROR(unit.done->Wait());
  if (unit.kind == UnitKind::kDecode) return UnitsOf(picture).complete_decode(picture, part);
  for (const FiniteFlag& flag : part.work.flags) RETURN_IF_ERROR(flag.Check());
  if (part.contrast.has_memory()) {
    const double change = part.contrast_weight * part.contrast.as<float>().front();
    part.stops_guidance = picture.guidance.Note(part.evaluation, change);
  }
  if (!part.embeds.empty()) {
    picture.embeds = std::move(part.embeds);
    picture.next = UnitKind::kDone;
  }
  if (part.latents.has_memory()) {
    picture.latents = part.latents;
    picture.next = UnitKind::kDone;
  }
  return absl::OkStatus();
}

// The error of values that are not finite as one of the picture's adapters, ControlNets and
// IP-Adapters, if it has any with an effect: they change a model that draws without them.
absl::Status BlameAdapters(const absl::Status& status, const PictureSpec& spec) {
  if (status.ok() || GetReason(status) != kNotFinite) return status;
  std::vector<std::string> names;
  for (const Adapter& adapter : spec.adapters) {
    if (adapter.unet_factor() != 0 || adapter.text_factor() != 0) names.push_back(adapter.name);
  }
  for (const Control& control : spec.controls) {
    if (control.scale != 0) names.push_back(control.name);
  }
  for (const ImagePrompt& prompt : spec.ip_adapters) {
    if (prompt.has_effect()) names.push_back(prompt.name);
  }
  if (names.empty()) return status;
  return WithFacts(
      WithReason(absl::FailedPreconditionError(absl::StrCat(
                     "with the adapter ", absl::StrJoin(names, ", "),
                     " some values are not finite: it changes the model by too much; a smaller "
                     "weight may draw")),
                 adapters::kAdapterUnusable),
      {{"name", names.front()}});
}

}  // namespace

absl::StatusOr<PendingUnit> EnqueueUnit(absl::Span<Picture* const> pictures, Lanes& lanes,
                                        device::Stream& stream, const StepHelper* helper) {
  PendingUnit unit;
  unit.kind = pictures.front()->next;
  RETURN_IF_ERROR(EnqueueAll(stream, unit, [&] {
    unit.parts.resize(pictures.size());
    for (size_t i = 0; i < pictures.size(); ++i) unit.parts[i].steps = -pictures[i]->steps_done;
    return EnqueueNext(pictures, lanes, stream, helper, unit);
  }));
  for (size_t i = 0; i < pictures.size(); ++i) {
    UnitPart& part = unit.parts[i];
    part.steps_done = pictures[i]->steps_done;
    part.steps += part.steps_done;
    part.ends_stage = pictures[i]->next != unit.kind;
  }
  return unit;
}

absl::StatusOr<PendingUnit> EnqueuePreview(Picture& picture, device::Stream& stream) {
  PendingUnit unit;
  unit.kind = UnitKind::kPreview;
  RETURN_IF_ERROR(EnqueueAll(stream, unit, [&] {
    unit.parts.resize(1);
    return EnqueuePreview(picture, stream, unit.parts.front());
  }));
  unit.parts.front().ends_stage = true;
  picture.prediction = {};
  return unit;
}

absl::Status CompleteUnit(const PendingUnit& unit, Picture& picture, UnitPart& part) {
  const absl::Status status = Complete(unit, picture, part);
  // No adapter changes what previews are made with.
  if (unit.kind == UnitKind::kPreview) return status;
  return BlameAdapters(status, picture.plan().spec);
}

}  // namespace latentd::pipeline
