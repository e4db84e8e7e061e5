// One request in flight: its pictures, where they stand, and the sink that hears of it.
//
// Publish may be called from any thread; everything else belongs to the engine's loop, or is
// guarded as it says.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/batching/predict/unit.h"
#include "core/engine/api/events.h"
#include "core/engine/api/generate_spec.h"
#include "core/pipeline/picture/picture.h"
#include "core/pipeline/plan/plan.h"

namespace latentd::engine {

// The stage that such a unit belongs to.
Stage StageOf(batching::UnitKind kind);

class Job {
 public:
  using Pictures = std::vector<std::unique_ptr<pipeline::Picture>>;

  // `spec` is what was asked for, without its inputs, and `plan` what was made of it.
  Job(uint64_t handle, pipeline::SharedPlan plan, GenerateSpec spec,
      std::shared_ptr<EventSink> sink, absl::Time submitted);

  // Hands the event to the sink, one at a time, and nothing after Completed or Failed, nor previews
  // of a picture after its Image, nor Queued after Started.
  void Publish(Event event) ABSL_LOCKS_EXCLUDED(publishing_);

  // Holds back what others publish while this is alive, so that Queued is first.
  absl::Mutex& publishing() ABSL_LOCK_RETURNED(publishing_) { return publishing_; }
  void PublishLocked(Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(publishing_);

  // From its first unit on. REQUIRES: the device may.
  void DrawOn(size_t other);

  // Devices that could have begun it may help with its steps: its pictures hold their networks.
  // REQUIRES: DrawOn, and that `others` are there.
  void KeepHelpers();

  // Bytes that its pictures hold once it has begun.
  int64_t state_bytes() const { return plan->state_bytes; }

  int picture_count() const { return static_cast<int>(plan->spec.seeds.size()); }
  // One of each, or the frames of each video.
  int frame_count() const { return picture_count() * plan->executed_size.frames; }

  // From any thread.
  void AddEncodeTime(absl::Duration duration) ABSL_LOCKS_EXCLUDED(publishing_);
  // REQUIRES: all pictures are finished.
  Completed Completion() const ABSL_LOCKS_EXCLUDED(publishing_);

  const uint64_t handle;
  const pipeline::SharedPlan plan;
  const GenerateSpec spec;
  const std::string bucket;      // as a label: "256x192"
  const std::string last_model;  // whose latents become the pictures, by its name
  const absl::Time submitted;
  absl::Duration predicted;              // from admission to end; zero: no forecast
  uint64_t content = 0;                  // ContentOf what was asked for
  uint64_t devices = 1;                  // by bits, those that could draw it
  std::vector<batching::PictureId> ids;  // one a picture, in order

  // Let go of when its pictures are gone, with the graphs that they held.
  std::shared_ptr<const void> presence;

  // Need of each picture, as far as it is known before the pictures exist.
  batching::Need need = {.kind = batching::UnitKind::kWait};

  // The loop's that has begun it. Empty while the job is being prepared.
  Pictures pictures;
  size_t device = 0;  // the one that they are for; another one may begin the job
  // The same for other devices, those that have failed too, until it begins.
  std::vector<std::pair<size_t, Pictures>> others;
  std::vector<absl::Duration> stage_times;  // by picture: of the stage that it is in
  bool started = false;
  bool stepped = false;                     // one of its pictures has taken a step
  std::vector<std::string> image_warnings;  // known once a picture is drawn
  // By picture, once it is drawn (pipeline::Picture); and rows that their evaluations had less.
  std::vector<int> guidance_stopped_after;
  int skipped_rows = 0;
  int shallow_evaluations = 0;  // sum over its pictures

  // Written by the loop, then by the thread that encodes the last picture.
  Timings timings;
  std::atomic<int> unfinished;  // part of frame_count() that is not yet encoded

 private:
  mutable absl::Mutex publishing_;
  bool started_ ABSL_GUARDED_BY(publishing_) = false;
  absl::Duration encode_time_ ABSL_GUARDED_BY(publishing_);
  bool ended_ ABSL_GUARDED_BY(publishing_) = false;
  std::vector<bool> published_ ABSL_GUARDED_BY(publishing_);  // by picture: its Image
  const std::shared_ptr<EventSink> sink_;
};

struct JobPicture {
  pipeline::Picture& picture() const { return *job->pictures[index]; }

  std::shared_ptr<Job> job;
  int index = 0;
};
// Pictures of one unit of work.
using JobPictures = absl::InlinedVector<JobPicture, batching::kMostRows>;

}  // namespace latentd::engine
