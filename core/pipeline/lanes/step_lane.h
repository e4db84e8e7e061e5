// The rows of pictures that share evaluations of one UNet, in memory of its device that stays where
// it is from step to step: state, schedule, noise, guidance, and what the request part made of
// prompts.
//
// A step runs the executable of the least number of rows that covers those of active pictures, on
// the beginning of the lane's memory: what several row counts are compiled for. A picture keeps its
// rows until fewer would do: then the last ones move to where others left. Rows of no picture are
// computed and never read (they count on beyond their tables: Select clamps). All memory is taken
// when the lane is made, but for what a picture joins with, until it is copied.
//
// A lane whose steps give deep features has memory for them, and a second executable for each
// number of rows, which reads them: a shallow step, for pictures that have taken a full one. Their
// rows have what that gave, wherever they move.
//
// Pictures that are not in a step rest: they keep their rows, behind the active ones. So more
// pictures can have joined than are evaluated at once (RowsOfLane), and a short or an urgent one
// can pass them. Where there is no memory to evaluate as many rows as are asked for, a step is
// tried again with half as many and so on, before any fails; more are tried again when others
// are through, or when the lane has made some steps. That is so for what a run needs before it
// begins, to be bound and enqueued. A picture in a run that fails on the device fails with it: it
// writes over its state.
//
// One thread at a time, and work on one stream; a LanePlace may be destroyed by any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/backends/bound_graph.h"
#include "core/batching/predict/unit.h"
#include "core/device/buffer.h"
#include "core/noise/noise_generator.h"
#include "core/pipeline/graphs/model_graphs.h"
#include "core/pipeline/graphs/row_port.h"
#include "core/pipeline/lanes/control_programs.h"
#include "core/pipeline/lanes/path_pool.h"
#include "core/pipeline/lanes/row_assignment.h"
#include "core/pipeline/lanes/split_programs.h"
#include "core/schedulers/schedule.h"

namespace latentd::pipeline {

// An image's inputs to a lane, for `rows` rows: [negative, text], or [text] without guidance.
struct LaneRows {
  int rows = 1;                 // rows of its next step
  int most_rows = 0;            // rows of a later one, if that has more
  device::ConstBuffer latents;  // as many elements as the lane's noise has for a row
  const schedulers::Schedule* schedule = nullptr;
  std::vector<RowValue> values;  // one for each of the lane's ports that is a value
};

class StepLane;

// Rows of a lane whose evaluations have so many at most: of two pictures with guidance that rest
// more than these, and of four at least.
inline int RowsOfLane(int evaluated) { return std::max(evaluated + 4, 8); }

// A picture's rows of a lane, which it keeps alive. Free again when this is destroyed.
class LanePlace {
 public:
  LanePlace(LanePlace&&) noexcept = default;
  LanePlace& operator=(LanePlace&&) = delete;
  ~LanePlace();

  const std::shared_ptr<StepLane>& lane() const { return lane_; }

 private:
  friend class StepLane;
  LanePlace(std::shared_ptr<StepLane> lane, RowAssignment::Member member)
      : lane_(std::move(lane)), member_(member) {}

  std::shared_ptr<StepLane> lane_;
  RowAssignment::Member member_;
};

// Parts of the network that a step computes (DeepFeatures).
enum class Depth : uint8_t { kFull, kShallow };

class StepLane : public std::enable_shared_from_this<StepLane> {
 public:
  // Step graphs (step_graph.h) that differ in their number of rows only, by that number.
  using Executables = std::map<int, ExecutablePointer>;

  // Generator that draws noise for a picture's next step.
  struct Draw {
    const LanePlace* place;
    noise::NoiseGenerator* generator;
  };

  // With memory for `rows` rows. `any`: a step graph of the lane's network and size; `paths`: of
  // its low-rank paths, where it has any. lane_memory.cc
  static absl::StatusOr<std::shared_ptr<StepLane>> Create(
      const backends::Executable& any, int rows, std::shared_ptr<PathPool> paths = nullptr);

  // Bytes of the memory that Create takes for that many rows, where a step has these ports.
  static int64_t Bytes(absl::Span<const RowPort> ports, int rows);

  // Adds executables; those of more rows than the lane has are not used. `shallow`: for shallow
  // steps, of as many rows; empty: there are none. REQUIRES: one of as many rows as a picture has
  // is there before that joins.
  void Add(const Executables& executables, const Executables& shallow = {});

  // Puts a picture into rows that are free, and binds the executable for all that are then taken;
  // nothing where there are not so many, or no executable for them, or no memory for that beside
  // other pictures. Rows for its later needs, at most, are kept for it. `picture` is copied by the
  // stream.
  absl::StatusOr<std::optional<LanePlace>> Join(const LaneRows& picture, device::Stream& stream);

  // Gives a picture that has joined the rows of its next step, of those that are kept for it, and
  // keeps no more than it will take from now on. It has its text row throughout, and goes on there.
  absl::Status SetRows(const LanePlace& place, const LaneRows& picture, device::Stream& stream);
  int RowCount(const LanePlace& place) const;

  // Draws noise for the next step of pictures whose schedules want it then; not again for one that
  // rested. Waits where the device is more than one step behind. The event is reached when all of
  // it is copied.
  absl::StatusOr<std::shared_ptr<const device::Event>> DrawNoise(absl::Span<const Draw> draws,
                                                                 device::Stream& stream);

  // Result of enqueueing a step.
  struct Evaluation {
    absl::Status status;     // status of the step's pictures; resting ones are as before
    int rows = 0;            // rows of its pictures
    int computed_rows = 0;   // 0: nothing was enqueued
    int too_many_rows = 0;   // number for which there was no memory; told once in the lane's life
    bool first_run = false;  // first of so many rows in this lane: backends may prepare the next
    bool is_split = false;   // a helper evaluates one of the rows
    SplitPrograms::Result split = {};  // also where it was to, and could not
  };

  // One evaluation for `members`, the first ones first where not all can be evaluated at once;
  // empty: for all that have joined. The others rest. RESOURCE_EXHAUSTED is of one picture alone,
  // or of those that cannot do with fewer rows. An error of its own fails all pictures. With
  // `split` a step of one picture of two rows is split; where that cannot be, it is as without.
  // REQUIRES for a shallow one: `members` are named, and have taken a full one with as many rows or
  // more.
  using Members = absl::InlinedVector<const LanePlace*, batching::kMostRows>;
  absl::StatusOr<Evaluation> Step(device::Stream& stream, const Members& members,
                                  const Split* split = nullptr, Depth depth = Depth::kFull);

  // True if the last step was made without the picture.
  bool Rests(const LanePlace& place) const;

  // A part of the picture's state, x (0) or h1 to h3, to `latents` [1, C, H, W]; and the noise of
  // its next step, where it has been drawn, or of its last.
  absl::Status ReadState(const LanePlace& place, int index, const device::Buffer& latents,
                         device::Stream& stream) const;
  absl::Status ReadNoise(const LanePlace& place, const device::Buffer& latents,
                         device::Stream& stream) const;

  // The contrast of the network's outputs in the picture's last step (step_graph.h), to `contrast`
  // f32 [1]. REQUIRES: the lane is of no videos.
  absl::Status ReadContrast(const LanePlace& place, const device::Buffer& contrast,
                            device::Stream& stream) const;

  // Puts `latents` [1, C, H, W] in the place of the picture's x.
  absl::Status WriteLatents(const LanePlace& place, const device::ConstBuffer& latents,
                            device::Stream& stream);

  // Residuals that the next step adds in the picture's rows, [rows, ...] each, by their numbers;
  // and zeros, as at first. REQUIRES: the lane's steps are controlled (step_graph.h).
  absl::Status WriteResiduals(const LanePlace& place, absl::Span<const device::Buffer> residuals,
                              device::Stream& stream) const;
  absl::Status ClearResiduals(const LanePlace& place, device::Stream& stream) const;
  ControlPrograms& controls() { return controls_; }

  // x of the picture to `latents` [1, C, H, W], and whether its last step left all of it finite (1
  // or 0) to `finite` u8 [1].
  absl::Status Read(const LanePlace& place, const device::Buffer& latents,
                    const device::Buffer& finite, device::Stream& stream) const;

  device::Device& device() const { return device_; }
  PathPool* paths() const { return paths_.get(); }  // null: its rows have no paths
  int64_t bytes() const;                            // bytes that it holds
  int rows() const { return rows_; }
  int rows_taken() const;
  // Rows of one evaluation, at most, as far as is known.
  int capacity() const;

 private:
  using Rows = RowAssignment::Rows;

  // Memory of the host that the device copies from, and how far it is with that.
  struct Staging {
    device::Buffer memory;
    std::shared_ptr<const device::Event> copied;  // null: nothing was enqueued
  };
  // Bound to the lane's memory.
  struct LaneGraph {
    backends::BoundGraph graph;
    bool has_run = false;
  };
  StepLane(device::Device& device, int rows, std::shared_ptr<PathPool> paths)
      : device_(device),
        rows_(rows),
        paths_(std::move(paths)),
        controls_(device),
        split_(device),
        assignment_(rows) {}

  friend class LanePlace;
  Rows RowsOf(const LanePlace& place) const;
  absl::Status BindFor(int taken);
  absl::Status MoveRow(const RowAssignment::Move& move, device::Stream& stream);
  absl::Status Swap(const device::Buffer& one, const device::Buffer& other, device::Stream& stream);
  absl::Status Enqueue(int rows, Depth depth, device::Stream& stream, bool& first_run);
  // Enqueues the step as two devices share it. False: it is to be made without.
  bool TrySplit(const Members& members, const RowAssignment::Plan& plan, const Split* split,
                device::Stream& stream, Evaluation& evaluation);
  absl::StatusOr<LaneGraph*> GraphFor(int rows, Depth depth);
  // Binds all that steps of so many rows run.
  absl::Status Bind(int rows);

  const device::Buffer& MemoryOf(PortRole role) const;
  // The parts of rows that become an image's.
  absl::Status CopyTo(const LanePort& port, const Rows& rows, const LaneRows& picture,
                      device::Stream& stream);
  absl::Status CopyState(const device::Buffer& state, const Rows& rows, const LaneRows& picture,
                         device::Stream& stream);
  absl::Status CopySchedule(const device::Buffer& tables, const Rows& rows, const LaneRows& picture,
                            device::Stream& stream);
  absl::Status CopyValue(const LanePort& port, const Rows& rows, const LaneRows& picture,
                         device::Stream& stream);
  absl::Status Clear(const LanePort& port, const Rows& rows, device::Stream& stream) const;
  absl::Status CopyMember(const LanePort& port, const Rows& rows, device::Stream& stream);
  absl::Status CopyMembers(const Rows& rows, device::Stream& stream);
  // The same value to some rows of a port.
  template <typename T>
  absl::Status Fill(const device::Buffer& port, const Rows& rows, T value, device::Stream& stream);

  device::Device& device_;
  const int rows_;
  const std::shared_ptr<PathPool> paths_;
  std::vector<LanePort> ports_;  // all but pools
  ControlPrograms controls_;
  SplitPrograms split_;
  // The host draws into one while the device copies from the other.
  std::vector<Staging> noise_;
  size_t draws_ = 0;
  device::Buffer zeros_;        // a row's state before its first step
  device::Buffer spare_;        // bytes, for rows that change places
  device::Buffer no_residual_;  // bytes of 0, of a row's largest residual; none without any
  // Executables of no more rows than the lane has, by depth; and graphs that were bound, by rows.
  std::array<Executables, 2> executables_;
  std::array<std::map<int, LaneGraph>, 2> graphs_;

  RowAssignment assignment_;
};

}  // namespace latentd::pipeline
