#include "core/engine/loop/units_in_flight.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/device/device_fault.h"

namespace latentd::engine {

namespace {

// Work of the unit, in rows: text takes the time of so many plain prompts for each, and a decode
// has so many frames.
int RowsOf(batching::UnitKind kind, const JobPictures& pictures) {
  if (kind == batching::UnitKind::kDecode) {
    return pictures.front().picture().ahead().after.front().rows;
  }
  int rows = 0;
  for (const JobPicture& picture : pictures) rows += picture.picture().next_rows();
  if (kind != batching::UnitKind::kText) return rows;
  return rows * pictures.front().picture().stage().planned.text_times();
}

// True if the unit behind it is enqueued quickly, and may be another than it seems now. Not
// so behind the first run of a graph, whose next one may be captured; behind a picture's last step
// its decode, which goes first, or its next stage's text; nor behind what is short itself.
bool LeavesTime(const UnitInFlight& runs) {
  if (runs.what.expected <= absl::ZeroDuration() || runs.unit.first_run) return false;
  if (runs.what.kind == batching::UnitKind::kDecode) return true;
  return runs.what.kind == batching::UnitKind::kStep &&
         absl::c_none_of(runs.unit.parts, [](const auto& part) { return part.ends_stage; });
}

}  // namespace

bool HadWork(const pipeline::PendingUnit& done) {
  return done.kind == batching::UnitKind::kStep || !done.parts.front().work.kept.empty();
}

int RowsToLearnFrom(const pipeline::PendingUnit& done) {
  if (!done.done->Wait().ok()) return 0;
  if (done.kind == batching::UnitKind::kStep) {
    return done.is_split && done.first_run ? 0 : done.computed_rows;
  }
  const pipeline::UnitPart& part = done.parts.front();
  const bool teaches = done.kind == batching::UnitKind::kText ? part.encodes_all : HadWork(done);
  return teaches ? part.amount : 0;
}

bool IsFirstOfJob(const UnitInFlight& done, size_t part) {
  const auto takes_part = [&](size_t i) {
    return done.pictures[i].job == done.pictures[part].job && !done.unit.parts[i].waits;
  };
  for (size_t i = 0; i < part; ++i) {
    if (takes_part(i)) return false;
  }
  return takes_part(part);
}

Progress ProgressOf(const UnitInFlight& done, size_t index, const Period& worked) {
  const JobPicture& of = done.pictures[index];
  Progress progress = {of.index, done.stage, done.unit.parts[index].steps_done,
                       of.picture().total_steps(), done.model};
  if (HadWork(done.unit)) progress.worked = worked;
  progress.is_split = done.unit.is_split;
  return progress;
}

void MeasurePart(const UnitInFlight& done, size_t index, absl::Duration duration, absl::Time now,
                 EngineMetrics& metrics) {
  const JobPicture& measured = done.pictures[index];
  const pipeline::UnitPart& part = done.unit.parts[index];
  Job& job = *measured.job;
  if (done.stage == Stage::kPreview) {
    return metrics.StageDone(done.stage, done.model, job.bucket, duration);
  }
  absl::Duration& stage_time = job.stage_times[measured.index];
  stage_time += duration;
  if (done.unit.kind == batching::UnitKind::kStep) {
    metrics.StepsDone(done.model, part.steps);
    metrics.RowsSkipped(done.model, part.skipped_rows);
    job.skipped_rows += part.skipped_rows;
    if (part.is_shallow) metrics.EvaluatedShallow(done.model);
    job.shallow_evaluations += part.is_shallow ? 1 : 0;
    if (!std::exchange(job.stepped, true)) metrics.FirstStepDone(job.bucket, now - job.submitted);
  }
  if (!part.ends_stage) return;
  const bool redone = measured.picture().decode_redone;
  if (done.stage == Stage::kDecode && redone) metrics.DecodeRedone();
  metrics.StageDone(done.stage, done.model, job.bucket,
                    std::exchange(stage_time, absl::ZeroDuration()));
}

void MeasureJobs(const UnitInFlight& done, absl::Duration duration,
                 absl::FunctionRef<bool(const Job& job)> is_member, EngineMetrics& metrics) {
  const bool is_step = done.unit.kind == batching::UnitKind::kStep;
  if (is_step && done.unit.computed_rows == 0) return;
  bool wanted = false;
  for (size_t i = 0; i < done.pictures.size(); ++i) {
    Job& job = *done.pictures[i].job;
    if (!IsFirstOfJob(done, i) || !is_member(job)) continue;
    job.timings.Add(done.stage, done.model, duration);
    wanted = true;
  }
  if (!wanted || !is_step || !done.unit.done->Wait().ok()) return;
  metrics.Evaluated(done.model, done.pictures.front().job->bucket, duration, done.unit.rows,
                    done.unit.computed_rows);
  if (done.what.helper >= 0) metrics.StepSplit(done.model);
}

bool IsLostPreview(batching::UnitKind kind, const absl::Status& failure) {
  return kind == batching::UnitKind::kPreview && !device::IsFault(failure);
}

std::optional<size_t> FaultyHelper(const UnitInFlight& done) {
  if (done.what.helper < 0 || !done.unit.helped->Reached()) return std::nullopt;
  const bool has_failed = device::IsFault(done.unit.helped->Wait());
  return has_failed ? std::optional<size_t>(done.what.helper) : std::nullopt;
}

UnitsInFlight::UnitsInFlight(Options options, device::Device& device, ThreadWatch& loop,
                             const Clock& clock)
    : options_(std::move(options)),
      device_(device),
      loop_(loop),
      clock_(clock),
      watchdog_(clock),
      lanes_(options_.ask_lane_room) {
  units_.reserve(kMost);
}

absl::Status UnitsInFlight::Enqueue(batching::Unit& what, JobPictures& pictures, Helper* helper) {
  const absl::Time begin = clock_.Monotonic();
  const absl::Time due = empty() ? begin : NextEnqueueTime();
  const JobPicture& first = pictures.front();
  const Stage stage = StageOf(what.kind);
  std::string model = first.picture().model().name;
  UnitWatchdog::Unit watched = {
      first.job->spec.request_id, first.index, stage, model, first.picture().executed_size(),
      RowsOf(what.kind, pictures)};
  if (empty()) watchdog_.Begin(std::move(watched));
  absl::Cleanup none_runs = [this] {
    if (empty()) watchdog_.End();
  };
  const ThreadWatch::Activity watched_as_unit(loop_, ThreadWatch::kIdle);
  ASSIGN_OR_RETURN(pipeline::PendingUnit unit, EnqueueUnit(what, pictures, helper));
  if (!unit.is_split) what.helper = -1;
  // Asks for no memory: the device uses what the unit holds.
  ++count_;
  units_.push_back({std::move(what), std::move(pictures), stage, std::move(model), std::move(unit),
                    begin, clock_.Monotonic() - due, std::move(watched)});
  return absl::OkStatus();
}

void UnitsInFlight::WarnOfRows(const UnitInFlight& unit) const {
  if (unit.unit.too_many_rows == 0 || !options_.warn) return;
  options_.warn(absl::StrCat("no memory for a step of ", unit.unit.too_many_rows, " rows at ",
                             SizeText(unit.pictures.front().picture().executed_size()),
                             ": its pictures go on with fewer at a time, and take longer; leave "
                             "the device more memory, or "
                             "serve fewer rows (--rows) or sizes (--buckets)"));
}

absl::StatusOr<device::Stream*> UnitsInFlight::StreamOn(int device, device::Device& helper) {
  std::unique_ptr<device::Stream>& stream = helpers_[device];
  if (stream == nullptr) {
    ASSIGN_OR_RETURN(stream, helper.NewStream(clock_));
  }
  return stream.get();
}

absl::StatusOr<pipeline::PendingUnit> UnitsInFlight::EnqueueUnit(const batching::Unit& what,
                                                                 const JobPictures& pictures,
                                                                 Helper* helper) {
  if (stream_ == nullptr) {
    ASSIGN_OR_RETURN(stream_, device_.NewStream(clock_));
  }
  if (what.kind == batching::UnitKind::kPreview) {
    return pipeline::EnqueuePreview(pictures.front().picture(), *stream_);
  }
  joined_.reserve(joined_.size() + pictures.size());
  absl::InlinedVector<pipeline::Picture*, batching::kMostRows> all;
  absl::InlinedVector<bool, batching::kMostRows> had_rows;
  for (const JobPicture& picture : pictures) {
    all.push_back(&picture.picture());
    had_rows.push_back(picture.picture().place.has_value());
  }
  // They leave their lanes by LeaveLanes even if this throws.
  const absl::Cleanup note_joined = [&] {
    for (size_t i = 0; i < pictures.size(); ++i) {
      if (!had_rows[i] && all[i]->place) joined_.push_back(pictures[i]);
    }
  };
  if (helper == nullptr) return pipeline::EnqueueUnit(all, lanes_, *stream_);
  const absl::StatusOr<device::Stream*> stream = StreamOn(what.helper, helper->units.device_);
  if (!stream.ok()) {
    helper->failed = stream.status();
    return pipeline::EnqueueUnit(all, lanes_, *stream_);
  }
  const pipeline::StepHelper helps = {what.helper, **stream, helper->units.options_.ask_lane_room,
                                      helper->units.helper_bytes_, &helper->failed};
  return pipeline::EnqueueUnit(all, lanes_, *stream_, &helps);
}

// It was enqueued, or the unit before was done.
absl::Time UnitsInFlight::BeginOfOldest() const {
  return std::max(units_.front().enqueued, last_done_);
}

absl::Time UnitsInFlight::NextEnqueueTime() const {
  if (empty()) return absl::InfinitePast();
  if (full()) return absl::InfiniteFuture();
  const UnitInFlight& runs = units_.front();
  if (!options_.enqueue_late || !LeavesTime(runs)) return runs.enqueued;
  return lead_.EnqueueAt(runs.what.kind, BeginOfOldest(), runs.what.expected);
}

Period UnitsInFlight::WaitForOldest() {
  const UnitInFlight& done = units_.front();
  const ThreadWatch::Activity watched_as_unit(loop_, ThreadWatch::kIdle);
  done.unit.done->Wait().IgnoreError();  // the completion of its parts sees the error
  const absl::Time begin = BeginOfOldest();
  last_done_ = done.unit.done->time();
  LearnLead(begin);
  return {std::min(begin, last_done_), last_done_};  // the device has a clock of its own
}

void UnitsInFlight::LearnLead(absl::Time began) {
  const UnitInFlight& done = units_.front();
  if (!full() || !LeavesTime(done)) return;
  lead_.Learn(done.what.kind, began + done.what.expected, last_done_, units_.back().enqueuing);
}

void UnitsInFlight::DropOldest() {
  units_.erase(units_.begin());
  --count_;
  watchdog_.End();
  // With memory that their last copies keep.
  std::erase_if(helpers_, [this](const auto& helper) {
    return absl::c_none_of(
        units_, [&](const UnitInFlight& unit) { return unit.what.helper == helper.first; });
  });
  if (!empty()) watchdog_.Begin(std::move(units_.front().watched));
}

void UnitsInFlight::LeaveLanes(absl::FunctionRef<bool(const Job& job)> stays) {
  std::erase_if(joined_, [&](const JobPicture& joined) {
    pipeline::Picture* picture = joined.job->pictures[joined.index].get();
    if (picture == nullptr || !picture->place) return true;
    if (stays(*joined.job)) return false;
    picture->LeaveLane();
    return true;
  });
}

}  // namespace latentd::engine
