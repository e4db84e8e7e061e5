#include "core/engine/job.h"

#include <utility>

#include "core/base/text.h"

namespace latentd::engine {
namespace {

bool IsLast(const Event& event) {
  return std::holds_alternative<Completed>(event) || std::holds_alternative<Failed>(event);
}

}  // namespace

Job::Job(uint64_t handle, const pipeline::Pipeline& pipeline, GenerateSpec resolved,
         std::shared_ptr<EventSink> sink, absl::Time submitted)
    : handle(handle),
      pipeline(pipeline),
      spec(std::move(resolved)),
      bucket(SizeText(*spec.picture.executed_size)),
      submitted(submitted),
      stage_times(static_cast<size_t>(picture_count())),
      unfinished(picture_count()),
      sink_(std::move(sink)) {}

void Job::Publish(Event event) {
  absl::MutexLock lock(&publishing_);
  PublishLocked(std::move(event));
}

void Job::PublishLocked(Event event) {
  if (ended_) return;
  ended_ = IsLast(event);
  sink_->OnEvent(std::move(event));
}

}  // namespace latentd::engine
