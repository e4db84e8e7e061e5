// The units of work: each takes a picture one further, and a step several at once. A unit is
// enqueued on a stream, and completed when its work there is done; the next one of the same
// pictures may be enqueued in between.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/device/device.h"
#include "core/pipeline/picture/picture.h"
#include "core/pipeline/picture/run_graph.h"
#include "core/pipeline/units/lanes.h"

namespace latentd::pipeline {

// A unit's part for one picture.
struct UnitPart {
  absl::Status status;  // result of enqueueing it: the picture is of no further use after an error
  // Nothing is done: the lane has no rows free for the picture, or no memory for a step of so many;
  // another step may have.
  bool waits = false;
  int steps = 0;            // steps that it does, as users count them
  int steps_done = 0;       // number of the picture's total_steps that are done by its end
  bool ends_stage = false;  // the last of its kind before another one; of a decode: if it succeeds
  // A kText that runs text encoders for all that the picture reads: no row of it is embeddings, and
  // no other picture of the request has had them encoded.
  bool encodes_all = false;
  // Its work: of a kText that encodes all PlannedStage::text_times, of a kDecode its frames.
  int amount = 1;

  PendingWork work;
  Prediction prediction;  // from a step, where a preview of it is due; for a preview, what it draws
  // Number, of all stages', of a guided evaluation of a picture with guidance_stop, and the
  // contrast of the network's outputs in it, f32 [1] for the host; else without memory.
  size_t evaluation = 0;
  device::Buffer contrast;
  double contrast_weight = 0;   // so much of it guidance changes, before guidance_rescale, there
  int skipped_rows = 0;         // rows that an evaluation has less because guidance has stopped
  bool is_shallow = false;      // an evaluation that reads the deep features of an earlier one
  bool stops_guidance = false;  // the picture takes fewer rows from now on than it was to
  // Output of a decode, u8 [1, H, W, 3].
  device::Buffer pixels;
  // Output of the last step of a picture whose latents are wanted: these, for the host.
  device::Buffer latents;
  std::vector<NamedBuffers> embeds;  // output of a text unit where these are wanted: Picture's
};

// A unit whose work is on a stream: not to be destroyed before `done` is reached.
struct PendingUnit {
  UnitKind kind = UnitKind::kText;
  std::vector<UnitPart> parts;  // by picture
  // Rows of a step: that pictures have in the evaluation, and that it computes.
  int rows = 0, computed_rows = 0;
  int too_many_rows = 0;   // number that there was no memory to evaluate: some pictures rest
  bool first_run = false;  // first of its graph in this lane: the next may take the host long
  // A helper evaluates a row of a step; and what comes of that.
  bool is_split = false;
  std::shared_ptr<const device::Event> helped;
  std::shared_ptr<const device::Event> done;
};

// A device that is to evaluate a row of a step. It has met the picture's, and that has met it.
struct StepHelper {
  int device = 0;
  device::Stream& stream;   // its own, for this
  Lanes::AskRoom ask_room;  // for memory on it; may be empty
  std::shared_ptr<std::atomic<int64_t>> held =
      std::make_shared<std::atomic<int64_t>>();  // bytes of that
  // Set to why it evaluates none, where that is a failure of its own, whatever comes of the unit;
  // null: it is not asked for.
  absl::Status* failed = nullptr;
};

// Enqueues the unit that all of `pictures` name as next, one picture or, for kStep, all that are in
// one lane and those that are to join it; and says in each what is next: kWait where that depends
// on how the unit ends. After an error, its own or that of its part, a picture is of no further
// use; after the unit's own nothing of it is on the stream any more. All units of the pictures of
// one request are on one stream, unless those before are completed. RESOURCE_EXHAUSTED: no memory;
// std::bad_alloc, of the host's heap, is like an error of the unit's own. REQUIRES: what is next is
// neither kWait nor kDone; `lanes` is the stream's. With `helper`, of Picture::helpers(), a step of
// one picture is split if that can be.
absl::StatusOr<PendingUnit> EnqueueUnit(absl::Span<Picture* const> pictures, Lanes& lanes,
                                        device::Stream& stream, const StepHelper* helper = nullptr);

// Enqueues a kPreview beside what the picture names as next, on the same stream: its `prediction`,
// which the unit's part has from then on. After any error, of completing it too, the picture goes
// on as if there had been none. REQUIRES: has_preview().
absl::StatusOr<PendingUnit> EnqueuePreview(Picture& picture, device::Stream& stream);

// Waits for the unit and says how it ended for `picture`, whose part this is. Pixels of a decode,
// or latents or embeddings that are wanted, go to the picture, which is kDone; it is kDecode again,
// and the part ends no stage, where what was decoded is not finite and a decoder in float32 is left
// to try. REQUIRES: units of one picture in the order in which they were enqueued.
absl::Status CompleteUnit(const PendingUnit& unit, Picture& picture, UnitPart& part);

}  // namespace latentd::pipeline
