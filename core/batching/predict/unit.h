// The words of batching: what a picture needs next, and what the engine is to run now.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"

namespace latentd::batching {

// Names a picture for as long as it is admitted; never used again.
using PictureId = uint64_t;

// The most rows of one evaluation.
inline constexpr int kMostRows = 16;

// Pictures may share an evaluation only within one lane: of one network at one size with the same
// adapters, and not with any other picture where `only` names one.
struct Lane {
  int network = 0;  // pipeline's number for it
  int width = 0;    // executed
  int height = 0;
  int frames = 1;
  uint64_t adapters = 0;  // pipeline's number for their set; 0: none. It costs no more time
  uint64_t only = 0;
  // A name for costs (ShallowOf); no picture's lane says so.
  bool shallow = false;

  bool operator==(const Lane&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Lane& lane) {
    return H::combine(std::move(h), lane.network, lane.width, lane.height, lane.frames,
                      lane.adapters, lane.only, lane.shallow);
  }
};

// Name to costs of a lane's shallow evaluations, which compute a part of the network.
inline Lane ShallowOf(Lane lane) {
  lane.shallow = true;
  return lane;
}

enum class UnitKind : uint8_t {
  kWait,     // nothing yet: its graphs are being made ready, or a unit of it runs whose end decides
  kText,     // prompts to conditioning, for the stage that comes next
  kEncode,   // init image to latents
  kStep,     // one evaluation of the UNet
  kDecode,   // latents to pixels
  kDone,     // nothing: the picture is finished
  kPreview,  // beside what is next: how a step that is through looks, small
};
inline constexpr int kUnitKinds = static_cast<int>(UnitKind::kPreview) + 1;

// True of a unit behind the last step: its picture has no rows of a lane any more.
inline bool FollowsSteps(UnitKind kind) { return kind == UnitKind::kDecode; }

// Evaluations of the UNet one after the other that take as many rows each.
struct StepRun {
  double shallow_part() const { return count == 0 ? 0 : static_cast<double>(shallow) / count; }

  int count = 0, rows = 1;
  int shallow = 0;  // number of them that are shallow

  bool operator==(const StepRun&) const = default;
};

// A unit of a picture that is no evaluation.
struct OtherUnit {
  OtherUnit(UnitKind of, int takes = 1) : kind(of), rows(takes) {}  // NOLINT: a kind is one too

  UnitKind kind;
  int rows;             // its work: frames that are decoded together, or a part of them; else 1
  bool is_own = false;  // each picture of a request has one; else the first one's is for all

  bool operator==(const OtherUnit&) const = default;
};

// Remaining work of a picture, its next unit included.
struct Ahead {
  // Else it is not known yet.
  bool is_known() const { return stages.front().lane != Lane(); }

  struct Stage {
    Lane lane;
    int text = 0;                          // its prompts are to be encoded, in the time of so many
                                           // plain ones
    absl::InlinedVector<StepRun, 3> runs;  // in order
    int previews = 0;                      // units beside its evaluations

    int evaluations() const {
      int count = 0;
      for (const StepRun& run : runs) count += run.count;
      return count;
    }
    // Rows of the next one; and of those from that run on, at most.
    int next_rows() const { return runs.empty() ? 1 : runs.front().rows; }
    int most_rows(size_t from = 0) const {
      int most = 1;
      for (; from < runs.size(); ++from) most = std::max(most, runs[from].rows);
      return most;
    }

    bool operator==(const Stage&) const = default;
  };
  std::array<Stage, 2> stages;  // from the one that it is in; an ensemble has two
  // Its other units: before the first step, and after the last.
  absl::InlinedVector<OtherUnit, 2> before, after;

  bool operator==(const Ahead&) const = default;
};

// When a step of one picture with two rows is split: another device evaluates one of them.
enum class Split : uint8_t {
  kNever,
  kAuto,   // while the other device would be idle until the step's end, where that is sooner
  kAlways  // even while the other has work, if it is ready to
};

struct Need {
  UnitKind kind = UnitKind::kText;
  Lane lane;          // lane of the stage that it is in
  int lane_rows = 1;  // the most rows of one evaluation, by the graphs that the picture brings
  int lane_capacity = kMostRows;  // the same, by memory, as far as is known
  int lane_places = 0;   // rows of the lane, where those are more: pictures not evaluated rest
  bool joined = false;   // it has its rows of the lane
  bool shallow = false;  // its next evaluation is: it shares that with none that is not
  bool preview = false;  // there is a kPreview to run beside what is next
  // By bits, devices that could evaluate one of the rows of its next step, if it takes that alone.
  uint64_t helpers = 0;
  Ahead ahead;
  // Foreseen end of kWait, in the clock's monotonic time: when its graphs will be ready. In the
  // infinite future: not known.
  absl::Time ready = absl::InfinitePast();

  // Work of its next unit of a kind that is no evaluation: prompts take the time of so many plain
  // ones, a decode has so many frames.
  int rows_of(UnitKind of) const {
    if (of == UnitKind::kText) return std::max(1, ahead.stages.front().text);
    return of == UnitKind::kDecode && !ahead.after.empty() ? ahead.after.front().rows : 1;
  }
  // Rows of its lane: from now on, at most; and by its next evaluation.
  int most_rows() const { return ahead.stages.front().most_rows(); }
  int next_rows() const { return ahead.stages.front().next_rows(); }

  // Name to costs of its next evaluation.
  Lane cost_lane() const { return shallow ? ShallowOf(lane) : lane; }

  bool operator==(const Need&) const = default;
};

// One thing to run now, for these pictures together.
struct Unit {
  UnitKind kind = UnitKind::kText;
  Lane lane;
  absl::InlinedVector<PictureId, kMostRows> pictures;  // several only for kStep
  absl::Duration expected;  // time that it takes of the device; zero where unknown
  double weight = 1;        // weight of its lane
  bool in_turn = true;      // its lane's turn; else it is first for its deadline, or passes others
  bool shallow = false;     // a shallow evaluation
  bool passes = false;      // counts as the time of a passing picture (passing.h)
  int device = 0;           // the one that runs it
  int helper = -1;          // the one that evaluates a row of a step that is split; -1: none

  // Name of its lane to costs.
  Lane cost_lane() const { return shallow ? ShallowOf(lane) : lane; }
};

}  // namespace latentd::batching
