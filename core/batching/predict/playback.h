// How far the pictures of a forecast are on their ways, and which rows are kept for them.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/batching/predict/costs.h"
#include "core/batching/predict/forecast.h"
#include "core/batching/predict/unit.h"

namespace latentd::batching {

// One picture.
struct Player {
  const Ahead::Stage& now() const { return picture->ahead.stages[stage]; }
  bool past_stages() const { return stage == picture->ahead.stages.size(); }
  bool is_at(const Lane& lane) const { return !done && !past_stages() && now().lane == lane; }

  // Rows of its lane: that are computed now, and that are kept for it.
  int rows() const { return now().runs[run].rows; }
  int kept_rows() const { return now().most_rows(run); }
  double shallow_part() const { return now().runs[run].shallow_part(); }
  double previews_per_step() const {
    return static_cast<double>(now().previews) / now().evaluations();
  }

  const ForecastPicture* picture;
  size_t stage = 0;
  size_t run = 0;
  double left = 0;           // evaluations of the run
  bool begun = false;        // its first unit has run
  bool began_stage = false;  // the units before the stage's steps have run
  bool in_lane = false, done = false;
};

class Playback {
 public:
  Playback(absl::Span<const ForecastPicture> pictures, const Costs& costs);

  std::vector<Player>& players() { return players_; }
  void Pass(absl::Duration time) { now_ += time; }

  // False: its graphs are still being made ready.
  bool IsReady(const Player& player) const { return player.picture->ready_in <= now_; }
  // Until the next picture is ready that is not yet; infinite: there is none.
  absl::Duration UntilNextIsReady() const;

  // Past stages that have no evaluations.
  void SkipEmptyStages(Player& player);
  // Kept rows of a lane.
  int KeptRows(const Lane& lane) { return RowsOf(lane); }
  // It is in its lane from now on. REQUIRES: it is in a stage with evaluations.
  void EnterLane(Player& player);
  // Plays the units before the steps of its stage, once. REQUIRES: it is in one.
  void BeginStage(Player& player);
  // Plays so many evaluations, which may end the stage: then it leaves the lane. True if they end
  // the run: then it has other rows.
  bool Advance(Player& player, double evaluations);
  // Plays the units after its last stage.
  void End(Player& player);

  std::vector<Outlook> TakeOutlooks() { return std::move(outlooks_); }

 private:
  struct LaneRows {
    Lane lane;
    int kept = 0;
  };

  int& RowsOf(const Lane& lane);
  // To its run, or to the next stage behind the last.
  static void EnterRun(Player& player);
  Outlook& OutlookOf(const Player& player) { return outlooks_[&player - players_.data()]; }
  void BeginOnce(Player& player);

  const Costs& costs_;
  std::vector<Player> players_;
  std::vector<Outlook> outlooks_;
  std::vector<LaneRows> lanes_;
  absl::Duration now_;
};

}  // namespace latentd::batching
