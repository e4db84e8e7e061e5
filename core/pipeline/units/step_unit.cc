// Steps: pictures' places in a lane for the steps of a stage, and one evaluation at a time.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/graph/low_rank_paths.h"
#include "core/pipeline/graphs/image_prompt_graph.h"
#include "core/pipeline/lanes/pinned.h"
#include "core/pipeline/picture/preview.h"
#include "core/pipeline/picture/run_graph.h"
#include "core/pipeline/plan/latents_file.h"
#include "core/pipeline/units/controls.h"
#include "core/pipeline/units/kept_image.h"
#include "core/pipeline/units/unit_kinds.h"
#include "core/pipeline/units/video_units.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using device::Place;

LaneRows RowsOf(const Picture& picture) {
  const Request& request = *picture.request;
  const PictureSpec& spec = request.spec();
  const bool guided = picture.next_rows() > 1;
  const double scale = guided ? *spec.guidance_scale : 1;
  const double rescale = guided ? *spec.guidance_rescale : 0;
  LaneRows rows = {
      .rows = picture.next_rows(),
      .most_rows = picture.rows_ahead(),
      .latents = picture.latents,
      .schedule = &picture.stage().schedule(),
      .values = picture.video != nullptr
                    ? VideoValues(picture)
                    : StepValues(*request.conditioning[picture.stage_index], scale, rescale)};
  absl::c_copy(picture.inpainting, std::back_inserter(rows.values));
  absl::c_copy(picture.path_values, std::back_inserter(rows.values));
  if (picture.stage_index != 0) return rows;
  for (size_t i = 0; i < request.image_prompts.size(); ++i) {
    rows.values.push_back({ImagePromptPortName(i), request.image_prompts[i].rows});
  }
  return rows;
}

// A slot with the paths of its adapters, if its rows have paths and it has no slot yet. False: all
// slots are used by others.
absl::StatusOr<bool> TakePath(Picture& picture, const StepLane& lane, device::Stream& stream) {
  if (picture.ranks() == 0 || picture.path) return true;
  const std::shared_ptr<const AdapterPaths>& paths = picture.stage().graphs().adapter_paths();
  if (lane.paths() == nullptr || paths == nullptr) {
    return absl::InternalError("rows of a lane without paths cannot have any");
  }
  ASSIGN_OR_RETURN(std::optional<PathSlot> slot, lane.paths()->Take(paths, stream));
  if (!slot) return false;
  const int64_t number = slot->number();
  const auto count = static_cast<int64_t>(paths->scales.size());
  ASSIGN_OR_RETURN(Buffer own,
                   Pinned(lane.device(), DType::kI64, {1}, absl::MakeConstSpan(&number, 1)));
  ASSIGN_OR_RETURN(Buffer scales, Pinned(lane.device(), DType::kF32, {1, count},
                                         absl::MakeConstSpan(paths->scales)));
  picture.path_values = {{graph::kPathSlotInput, std::move(own)},
                         {graph::kPathScalesInput, std::move(scales)}};
  picture.path.emplace(*std::move(slot));
  return true;
}

// Its rows of the lane, if it has none yet and there are some.
absl::Status JoinLane(Picture& picture, Lanes& lanes, device::Stream& stream) {
  ASSIGN_OR_RETURN(const std::shared_ptr<StepLane> lane, lanes.For(picture));
  if (lane == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool has_path, TakePath(picture, *lane, stream));
  if (!has_path) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::optional<LanePlace> place, lane->Join(RowsOf(picture), stream));
  if (!place) {
    picture.LeaveLane();
    return absl::OkStatus();
  }
  picture.place.emplace(*std::move(place));
  return absl::OkStatus();
}

// A guidance_interval begins or ends before its next step, or guidance has stopped.
absl::Status SetRows(const Picture& picture, device::Stream& stream) {
  StepLane& lane = *picture.place->lane();
  if (lane.RowCount(*picture.place) == picture.next_rows()) return absl::OkStatus();
  return lane.SetRows(*picture.place, RowsOf(picture), stream);
}

// Latents that a request brings for all its pictures.
device::Shape GivenShape(const Picture& picture) {
  const Plan& plan = picture.plan();
  const auto pictures = static_cast<int64_t>(plan.spec.seeds.size());
  const int64_t channels = picture.stage().model.latent_channels();
  if (picture.video == nullptr) return ImageLatentsShape(pictures, channels, plan.latents);
  return VideoLatentsShape(pictures, plan.executed_size.frames, channels, plan.latents);
}

// Its row of the latents that the request brings, or the one for all.
absl::StatusOr<Buffer> ReadGivenLatents(const Picture& picture) {
  ASSIGN_OR_RETURN(const Buffer all,
                   ReadLatentsFile(picture.request->inputs->latents, GivenShape(picture)));
  const int64_t row = std::min(static_cast<int64_t>(picture.index), all.shape()[0] - 1);
  return all.Rows(row, row + 1);
}

// To new memory: what the latents were in before may be the stage's init image, or another's.
absl::Status LeaveLane(Picture& picture, device::Stream& stream, PendingWork& work) {
  StepLane& lane = *picture.place->lane();
  device::Device& device = lane.device();
  ASSIGN_OR_RETURN(const Buffer finite, device.Allocate(DType::kU8, {1}, Place::kPinned));
  ASSIGN_OR_RETURN(picture.latents,
                   device.Allocate(DType::kF32, picture.latents.shape(), Place::kDevice));
  RETURN_IF_ERROR(lane.Read(*picture.place, picture.latents, finite, stream));
  picture.LeaveLane();
  const std::string& model = picture.model().name;
  work.flags.push_back({finite, absl::StrCat("latents of the ", model, "'s steps"),
                        absl::StrCat("the ", model, "'s unet")});
  return absl::OkStatus();
}

// Work after the last step: latents that are wanted are there when the unit is completed.
absl::Status EndSteps(Picture& picture, device::Stream& stream, UnitPart& part) {
  if (picture.next == UnitKind::kDecode) return absl::OkStatus();
  device::Device& device = picture.stage().device();
  ASSIGN_OR_RETURN(part.latents,
                   device.Allocate(DType::kF32, picture.latents.shape(), Place::kPinned));
  picture.next = UnitKind::kWait;
  return device.Copy(picture.latents, part.latents, stream);
}

// From the end of one stage to the next, which draws from a generator of its own, seeded alike.
absl::Status EndStage(Picture& picture, device::Stream& stream, UnitPart& part) {
  picture.evaluation = 0;
  picture.Advance();
  if (picture.next != UnitKind::kText) return EndSteps(picture, stream, part);
  picture.handed_over = picture.latents;
  ++picture.stage_index;
  picture.generator = noise::NoiseGenerator(picture.seed);
  return absl::OkStatus();
}

const schedulers::StepCoefficients& NextLine(const Picture& picture) {
  return picture.stage().schedule().steps[picture.evaluation];
}

// Drawn while the device is at the step before.
absl::Status DrawNoise(absl::Span<Picture* const> members, StepLane& lane, device::Stream& stream,
                       std::shared_ptr<const device::Event>& drawn) {
  std::vector<StepLane::Draw> draws;
  for (Picture* picture : members) {
    if (NextLine(*picture).draws_noise) draws.push_back({&*picture->place, &picture->generator});
  }
  if (draws.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(drawn, lane.DrawNoise(draws, stream));
  return absl::OkStatus();
}

using ReadAround = absl::Status (*)(const Picture&, device::Stream&, Prediction&);

// A picture is never worse for its previews: one that there is no memory for is not drawn.
void ReadFor(ReadAround read, const Picture& picture, device::Stream& stream,
             Prediction& prediction) {
  if (prediction.step == 0) return;
  if (!read(picture, stream, prediction).ok()) prediction = {};
}

// After a guided evaluation, while it may still decide.
absl::Status ReadContrast(const Picture& picture, device::Stream& stream, UnitPart& part) {
  const bool asks = picture.plan().spec.guidance_stop == GuidanceStop::kAuto;
  if (!asks || picture.next_rows() == 1 || picture.guidance.is_decided()) return absl::OkStatus();
  const StepLane& lane = *picture.place->lane();
  ASSIGN_OR_RETURN(part.contrast, lane.device().Allocate(DType::kF32, {1}, Place::kPinned));
  part.evaluation = picture.plan().first_evaluation(picture.stage_index) + picture.evaluation;
  const double of_output = NextLine(picture).predicted[1];
  part.contrast_weight = (*picture.plan().spec.guidance_scale - 1) * std::abs(of_output);
  return lane.ReadContrast(*picture.place, part.contrast, stream);
}

// After the evaluation of its next step.
absl::Status AdvancePicture(Picture& picture, device::Stream& stream, UnitPart& part) {
  ReadFor(ReadEnd, picture, stream, part.prediction);
  part.skipped_rows = picture.skipped_rows();
  part.is_shallow = picture.next_is_shallow();
  RETURN_IF_ERROR(ReadContrast(picture, stream, part));
  if (!picture.kept.empty()) RETURN_IF_ERROR(PutImageBack(picture, stream, part.work));
  const size_t steps = picture.stage().schedule().steps.size();
  picture.steps_done = picture.stage().planned.first_step + NextLine(picture).denoising_index + 1;
  if (++picture.evaluation < steps) return absl::OkStatus();
  RETURN_IF_ERROR(LeaveLane(picture, stream, part.work));
  return EndStage(picture, stream, part);
}

// An evaluation of pictures of both depths is a shallow one, of those that are to take one: by the
// time that all are to take a full one, they take that together.
Depth DepthOf(absl::Span<Picture* const> pictures) {
  const bool any = absl::c_any_of(pictures, [](const Picture* p) { return p->next_is_shallow(); });
  return any ? Depth::kShallow : Depth::kFull;
}

// Pictures that are in the lane by the end of it, and whose next evaluation is of that depth; the
// others' parts say why they are not. None overtakes one that there are no rows for.
std::vector<size_t> JoinAll(absl::Span<Picture* const> pictures, Depth depth, Lanes& lanes,
                            device::Stream& stream, PendingUnit& unit) {
  std::vector<size_t> joined;
  bool full = false;
  for (size_t i = 0; i < pictures.size(); ++i) {
    Picture& picture = *pictures[i];
    UnitPart& part = unit.parts[i];
    part.waits = picture.next_is_shallow() != (depth == Depth::kShallow);
    if (part.waits) continue;
    if (picture.place || !full) {
      part.status = picture.place ? SetRows(picture, stream) : JoinLane(picture, lanes, stream);
    }
    part.waits = !picture.place && part.status.ok();
    full = full || part.waits;
    if (picture.place && part.status.ok()) joined.push_back(i);
  }
  return joined;
}

// Enqueues what the nets of the pictures that have joined add to the next step. One whose nets
// cannot be evaluated, as for want of memory, fails alone. Gives those that go on.
std::vector<size_t> AddControls(absl::Span<Picture* const> pictures,
                                const std::vector<size_t>& joined, StepLane& lane,
                                device::Stream& stream, PendingUnit& unit) {
  LeaveOtherNets(pictures, lane, unit.parts[joined.front()].work);
  std::vector<size_t> go_on;
  for (size_t i : joined) {
    unit.parts[i].status = EnqueueControls(*pictures[i], lane, stream);
    if (unit.parts[i].status.ok()) go_on.push_back(i);
  }
  return go_on;
}

// Memory of the helper for a row of the picture's steps: that of the step before, if it helped
// with that too.
absl::Status TakeHelperRow(Picture& picture, const StepHelper& helper) {
  const ExecutablePointer network = picture.NetworkOn(helper.device);
  if (network == nullptr) return absl::FailedPreconditionError("the helper has no network");
  if (picture.helper_row != nullptr && picture.helper_row->network() == network) {
    return absl::OkStatus();
  }
  if (helper.ask_room) {
    const compiler::GraphLabel label{.model = picture.model().name,
                                     .component = std::string(kUnetName),
                                     .part = "helper",
                                     .width = picture.executed_size().width,
                                     .height = picture.executed_size().height};
    RETURN_IF_ERROR(helper.ask_room({label, HelperRow::Bytes(*network), /*is_least=*/false}));
  }
  ASSIGN_OR_RETURN(picture.helper_row, HelperRow::Create(network, helper.held));
  return absl::OkStatus();
}

// Asks none any more. What was enqueued holds the row's memory.
void LeaveHelpers(Picture& picture) {
  picture.helped_by.clear();
  picture.helper_row.reset();
}

// A picture's means to split its next step. A helper that has no memory for that is asked no more.
std::optional<Split> SplitOf(Picture& picture, const StepHelper& helper) {
  if ((picture.helpers() >> helper.device & 1) == 0) return std::nullopt;
  if (absl::Status failed = TakeHelperRow(picture, helper); !failed.ok()) {
    if (helper.failed != nullptr) *helper.failed = std::move(failed);
    LeaveHelpers(picture);
    return std::nullopt;
  }
  return Split{picture.stage().network, picture.stage().advance, picture.helper_row, &helper.stream,
               helper.failed};
}

void NoteSplit(const StepLane::Evaluation& evaluation, const Split& split, Picture& picture,
               UnitPart& part, PendingUnit& unit) {
  part.work.kept.push_back(split.helper);
  for (const auto& event : {evaluation.split.ready, evaluation.split.helped}) {
    if (event != nullptr) part.work.events.push_back(event);
  }
  unit.is_split = evaluation.is_split;
  unit.helped = evaluation.split.helped;
  if (!evaluation.split.not_split.ok()) LeaveHelpers(picture);
}

// Behind the lane's evaluation, in which the picture took part, or rested.
void EndStep(Picture& picture, const StepLane& lane, const absl::Status& evaluated,
             device::Stream& stream, UnitPart& part) {
  part.waits = lane.Rests(*picture.place);
  if (part.waits) {
    part.prediction = {};  // it takes this step later
    return;
  }
  part.status = evaluated;
  if (part.status.ok()) part.status = AdvancePicture(picture, stream, part);
}

}  // namespace

absl::Status DrawFirstLatents(Picture& picture) {
  if (picture.latents.has_memory()) return absl::OkStatus();
  const Stage& stage = picture.stage();
  const LatentSize& size = picture.plan().latents;
  const int64_t channels = picture.executed_size().frames * stage.model.latent_channels();
  ASSIGN_OR_RETURN(
      picture.latents,
      stage.device().Allocate(DType::kF32, {1, channels, size.height, size.width}, Place::kPinned));
  const double scale = stage.schedule().initial_noise_scale;
  if (!picture.plan().spec.has_latents) {
    picture.generator.Fill(picture.latents, scale);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Buffer given, ReadGivenLatents(picture));
  absl::c_transform(given.as<float>(), picture.latents.as<float>().begin(),
                    [scale = static_cast<float>(scale)](float x) { return x * scale; });
  return absl::OkStatus();
}

absl::Status BeginSteps(Picture& picture, device::Stream& stream, UnitPart& part) {
  RETURN_IF_ERROR(DrawFirstLatents(picture));
  if (!picture.stage().schedule().steps.empty()) return EncodeHints(picture, stream, part.work);
  return EndStage(picture, stream, part);
}

absl::Status EnqueueStep(absl::Span<Picture* const> pictures, Lanes& lanes, device::Stream& stream,
                         const StepHelper* helper, PendingUnit& unit) {
  const Depth depth = DepthOf(pictures);
  const std::vector<size_t> joined = JoinAll(pictures, depth, lanes, stream, unit);
  if (joined.empty()) return absl::OkStatus();
  std::vector<Picture*> members;
  for (size_t i : joined) members.push_back(pictures[i]);
  const std::shared_ptr<StepLane> lane = members.front()->place->lane();
  std::shared_ptr<const device::Event> drawn;
  RETURN_IF_ERROR(DrawNoise(members, *lane, stream, drawn));
  // All of them fail with work that was enqueued before that event.
  for (size_t i : joined) {
    unit.parts[i].work.kept.push_back(lane);
    if (drawn != nullptr) unit.parts[i].work.events.push_back(drawn);
    unit.parts[i].prediction.step = PreviewDue(*pictures[i]);
    ReadFor(ReadStart, *pictures[i], stream, unit.parts[i].prediction);
  }
  const std::vector<size_t> stepping = AddControls(pictures, joined, *lane, stream, unit);
  if (stepping.empty()) return absl::OkStatus();
  StepLane::Members places;
  for (size_t i : stepping) places.push_back(&*pictures[i]->place);
  std::optional<Split> split;
  Picture& only = *pictures[stepping.front()];
  if (helper != nullptr && pictures.size() == 1) split = SplitOf(only, *helper);
  ASSIGN_OR_RETURN(const StepLane::Evaluation evaluation,
                   lane->Step(stream, places, split ? &*split : nullptr, depth));
  if (split) NoteSplit(evaluation, *split, only, unit.parts.front(), unit);
  if (evaluation.rows == lane->rows_taken()) RETURN_IF_ERROR(evaluation.status);
  unit.rows = evaluation.rows;
  unit.computed_rows = evaluation.computed_rows;
  unit.too_many_rows = evaluation.too_many_rows;
  unit.first_run = evaluation.first_run;
  for (size_t i : stepping) {
    EndStep(*pictures[i], *lane, evaluation.status, stream, unit.parts[i]);
  }
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
