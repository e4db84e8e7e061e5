// The rows of pictures that share evaluations of one UNet, in memory of its device that stays where
// it is from step to step: state, schedule, noise, guidance, and what the request part made of
// prompts.
//
// A step runs the executable of the least number of rows that covers those that are taken, on the
// beginning of the lane's memory: what several row counts are compiled for. Rows that nobody has,
// or has no more, are computed and never read. All memory is taken when the lane is made, but for
// what a picture joins with, until it is copied.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/backends/bound_graph.h"
#include "core/device/buffer.h"
#include "core/noise/noise_generator.h"
#include "core/pipeline/model_graphs.h"
#include "core/schedulers/schedule.h"

namespace latentd::pipeline {

// What a picture brings to a lane, for `rows` rows: [negative, text], or [text] without guidance.
struct LaneRows {
  int rows = 1;
  device::ConstBuffer latents;  // [1, C, H, W]
  const schedulers::Schedule* schedule = nullptr;
  backends::NamedBuffers request;  // packed (core/graph/split.h), [rows, n]
  float guidance_scale = 1;
  float guidance_rescale = 0;
};

class StepLane {
 public:
  // Step graphs (step_graph.h) that differ in their number of rows only, by that number; the
  // largest is how many the lane has. REQUIRES: there is one.
  using Executables = std::map<int, ExecutablePointer>;
  static absl::StatusOr<std::unique_ptr<StepLane>> Create(const Executables& executables);

  // Bytes of the memory that Create takes, for that many rows.
  static int64_t Bytes(const StepShape& shape, int64_t channels, int64_t request_bytes);

  // Puts a picture into the first rows that are free and adjoin; the first of them.
  // FAILED_PRECONDITION: there are not so many. `picture` is copied by the stream.
  absl::StatusOr<int> Join(const LaneRows& picture, device::Stream& stream);

  // Draws noise for the next step of the picture at `first`, whose schedule wants it then. Waits
  // where the device is more than one step behind. The event is reached when it is copied.
  absl::StatusOr<std::shared_ptr<const device::Event>> DrawNoise(int first,
                                                                 noise::NoiseGenerator& generator,
                                                                 device::Stream& stream);

  // One evaluation for all rows.
  absl::Status Step(device::Stream& stream);

  // x of the picture at `first` to `latents` [1, C, H, W], and whether its last step left all of it
  // finite (1 or 0) to `finite` u8 [1]; then its rows are free.
  absl::Status Leave(int first, const device::Buffer& latents, const device::Buffer& finite,
                     device::Stream& stream);

  device::Device& device() const { return device_; }
  int64_t bytes() const;  // that it holds

 private:
  explicit StepLane(const backends::Executable& largest);

  int FindRows(int rows) const;  // -1: there are none
  absl::Status CopyGuidance(const LaneRows& picture, int first, device::Stream& stream);
  absl::Status CopySchedule(const LaneRows& picture, int first, device::Stream& stream);

  device::Device& device_;
  backends::NamedBuffers memory_;  // by port, for all rows
  // Memory of the host that the device copies from, and how far it is with that.
  struct Staging {
    device::Buffer memory;
    std::shared_ptr<const device::Event> copied;  // null: nothing was enqueued
  };
  // The host draws into one while the device copies from the other.
  std::vector<Staging> noise_;
  size_t draws_ = 0;
  device::Buffer zeros_;                        // a row's state before its first step
  std::map<int, backends::BoundGraph> graphs_;  // by rows
  std::vector<int> members_;                    // by row: how many rows begin here; 0: none
};

}  // namespace latentd::pipeline
