#include "core/engine/requests/job.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/text/text.h"

namespace latentd::engine {
namespace {

bool IsLast(const Event& event) {
  return std::holds_alternative<Completed>(event) || std::holds_alternative<Failed>(event);
}

}  // namespace

void Timings::Add(Stage stage, const std::string& model, absl::Duration time) {
  for (StageTime& known : stages) {
    if (known.stage != stage || known.model != model) continue;
    known.time += time;
    return;
  }
  stages.push_back({stage, model, time});
}

Stage StageOf(batching::UnitKind kind) {
  switch (kind) {
    case batching::UnitKind::kText:
      return Stage::kText;
    case batching::UnitKind::kEncode:
      return Stage::kImage;
    case batching::UnitKind::kStep:
      return Stage::kSteps;
    case batching::UnitKind::kDecode:
      return Stage::kDecode;
    case batching::UnitKind::kPreview:
      return Stage::kPreview;
    case batching::UnitKind::kWait:
    case batching::UnitKind::kDone:
      break;
  }
  return Stage::kEncodeFile;
}

Job::Job(uint64_t handle, pipeline::SharedPlan planned, GenerateSpec asked,
         std::shared_ptr<EventSink> sink, absl::Time submitted)
    : handle(handle),
      plan(std::move(planned)),
      spec(std::move(asked)),
      bucket(SizeText(plan->executed_size)),
      last_model(plan->last_model().row().name),
      submitted(submitted),
      stage_times(static_cast<size_t>(picture_count())),
      guidance_stopped_after(static_cast<size_t>(picture_count())),
      unfinished(frame_count()),
      published_(static_cast<size_t>(picture_count())),
      sink_(std::move(sink)) {}

void Job::DrawOn(size_t other) {
  for (auto& [its, its_pictures] : others) {
    if (its != other) continue;
    std::swap(its, device);
    std::swap(its_pictures, pictures);
    return;
  }
}

void Job::KeepHelpers() {
  for (const auto& [other, there] : others) {
    for (size_t i = 0; i < std::min(pictures.size(), there.size()); ++i) {
      pictures[i]->AddHelper(static_cast<int>(other), *there[i]);
    }
  }
}

void Job::Publish(Event event) {
  absl::MutexLock lock(&publishing_);
  PublishLocked(std::move(event));
}

void Job::PublishLocked(Event event) {
  if (ended_ || (started_ && std::holds_alternative<Queued>(event))) return;
  started_ = started_ || std::holds_alternative<Started>(event);
  const auto* preview = std::get_if<Preview>(&event);
  if (preview != nullptr && published_[preview->image_index]) return;
  if (const auto* image = std::get_if<Image>(&event)) published_[image->index] = true;
  ended_ = IsLast(event);
  sink_->OnEvent(std::move(event));
}

void Job::AddEncodeTime(absl::Duration duration) {
  absl::MutexLock lock(&publishing_);
  encode_time_ += duration;
}

Completed Job::Completion() const {
  Completed completed{.timings = timings,
                      .effective = plan->spec,
                      .executed_size = plan->executed_size,
                      .prompt_tokens = static_cast<int>(plan->prompt_tokens()),
                      .prompt_chunks = plan->chunks(),
                      .dropped_tokens = static_cast<int>(plan->dropped_tokens()),
                      .warnings = plan->warnings,
                      .video_file = spec.video_file,
                      .shallow_evaluations = shallow_evaluations};
  if (plan->spec.guidance_stop == pipeline::GuidanceStop::kAuto) {
    completed.guidance_stopped_after = guidance_stopped_after;
    completed.skipped_rows = skipped_rows;
  }
  {
    absl::MutexLock lock(&publishing_);
    completed.timings.Add(Stage::kEncodeFile, last_model, encode_time_);
  }
  for (const std::string& warning : image_warnings) {
    completed.warnings.push_back(warning);
  }
  if (completed.dropped_tokens > 0) {
    completed.warnings.push_back(absl::StrFormat(
        "the prompt was cut: its last %d tokens were not read", completed.dropped_tokens));
  }
  return completed;
}

}  // namespace latentd::engine
