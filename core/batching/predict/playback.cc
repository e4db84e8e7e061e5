#include "core/batching/predict/playback.h"

#include <algorithm>
#include <utility>

namespace latentd::batching {

Playback::Playback(absl::Span<const ForecastPicture> pictures, const Costs& costs)
    : costs_(costs), outlooks_(pictures.size()) {
  for (const ForecastPicture& picture : pictures) {
    outlooks_[players_.size()].known = picture.ready_in < absl::InfiniteDuration();
    players_.push_back(Player{&picture});
  }
}

absl::Duration Playback::UntilNextIsReady() const {
  absl::Duration until = absl::InfiniteDuration();
  for (const Player& player : players_) {
    if (!IsReady(player)) until = std::min(until, player.picture->ready_in - now_);
  }
  return until;
}

void Playback::SkipEmptyStages(Player& player) {
  for (; !player.past_stages() && player.now().runs.empty(); ++player.stage) {
    if (player.now().text == 0) continue;
    now_ += costs_.Of(UnitKind::kText, player.now().lane, player.now().text);
  }
}

int& Playback::RowsOf(const Lane& lane) {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [&](const LaneRows& rows) { return rows.lane == lane; });
  return found == lanes_.end() ? lanes_.emplace_back(LaneRows{lane}).kept : found->kept;
}

void Playback::EnterRun(Player& player) {
  player.in_lane = player.run < player.now().runs.size();
  if (player.in_lane) {
    player.left = player.now().runs[player.run].count;
    return;
  }
  ++player.stage;
  player.run = 0;
  player.began_stage = false;
}

void Playback::EnterLane(Player& player) {
  EnterRun(player);
  RowsOf(player.now().lane) += player.kept_rows();
}

bool Playback::Advance(Player& player, double evaluations) {
  constexpr double kNothing = 1e-6;  // rest of an evaluation that rounding may leave
  player.left -= evaluations;
  if (player.left > kNothing) return false;
  int& kept = RowsOf(player.now().lane);
  kept -= player.kept_rows();
  ++player.run;
  EnterRun(player);
  if (player.in_lane) kept += player.kept_rows();
  return true;
}

void Playback::BeginStage(Player& player) {
  if (std::exchange(player.began_stage, true)) return;
  BeginOnce(player);
  const Ahead::Stage& stage = player.now();
  if (stage.text > 0) now_ += costs_.Of(UnitKind::kText, stage.lane, stage.text);
  const bool is_known = costs_.Of(UnitKind::kStep, stage.lane) > absl::ZeroDuration();
  OutlookOf(player).known = OutlookOf(player).known && is_known;
}

void Playback::BeginOnce(Player& player) {
  if (std::exchange(player.begun, true)) return;
  const Ahead& ahead = player.picture->ahead;
  OutlookOf(player).begins = now_;
  now_ += costs_.Of(ahead.before, ahead);
}

void Playback::End(Player& player) {
  BeginOnce(player);
  const Ahead& ahead = player.picture->ahead;
  if (!ahead.is_known()) OutlookOf(player).known = false;
  now_ += costs_.Of(ahead.after, ahead);
  OutlookOf(player).ends = now_;
  player.done = true;
}

}  // namespace latentd::batching
