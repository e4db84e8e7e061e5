#include "core/batching/forecast.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/batching/playback.h"

namespace latentd::batching {
namespace {

class InTurns {
 public:
  InTurns(absl::Span<const ForecastPicture> pictures, const Costs& costs)
      : costs_(costs), playback_(pictures, costs) {}

  std::vector<Outlook> Run() {
    for (Enter(); !lanes_.empty(); Enter()) RunToNextEnd();
    return playback_.TakeOutlooks();
  }

 private:
  struct LanePlay {
    Lane lane;
    double weight = 0;    // the greatest of its pictures'
    double least = 0;     // evaluations until the first of them leaves or takes other rows
    bool full = false;    // somebody waits: nobody overtakes
    bool changed = true;  // who is in it, or their rows, since it was summed
    absl::Duration step;  // that each of them takes, with the previews that come between two
  };

  LanePlay& PlayOf(const Lane& lane) {
    const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                    [&](const LanePlay& play) { return play.lane == lane; });
    return found == lanes_.end() ? lanes_.emplace_back(LanePlay{lane}) : *found;
  }

  // Whoever has room in its lane is in it.
  void Enter() {
    for (LanePlay& lane : lanes_) lane.full = false;
    for (Player& player : playback_.players()) {
      if (!player.in_lane && !player.done) TryEnter(player);
    }
    std::erase_if(lanes_,
                  [this](const LanePlay& lane) { return playback_.KeptRows(lane.lane) == 0; });
    for (LanePlay& lane : lanes_) {
      if (std::exchange(lane.changed, false)) Sum(lane);
    }
  }

  void TryEnter(Player& player) {
    playback_.SkipEmptyStages(player);
    if (player.past_stages()) return playback_.End(player);
    LanePlay& play = PlayOf(player.now().lane);
    if (play.full) return;
    const int kept = playback_.KeptRows(play.lane);
    const bool fits = kept == 0 || player.picture->begun ||
                      kept + player.kept_rows() <= player.picture->lane_rows;
    play.full = !fits;
    if (play.full) return;
    play.changed = true;
    playback_.EnterLane(player);
    playback_.BeginStage(player);
  }

  // Of more rows than are evaluated at once, each takes its turn.
  void Sum(LanePlay& lane) {
    int rows = 0, at_once = 1;
    double previews = 0;
    lane.weight = 0;
    std::optional<double> least;
    for (const Player& player : playback_.players()) {
      if (!player.in_lane || !player.is_at(lane.lane)) continue;
      rows += player.rows();
      at_once = std::max({at_once, player.picture->lane_rows, player.rows()});
      previews += player.previews_per_step();
      lane.weight = std::max(lane.weight, player.picture->weight);
      least = std::min(least.value_or(player.left), player.left);
    }
    lane.least = least.value_or(0);
    const double turns = std::max(1.0, static_cast<double>(rows) / at_once);
    lane.step = turns * costs_.Of(UnitKind::kStep, lane.lane, std::min(rows, at_once)) +
                previews * costs_.Of(UnitKind::kPreview, lane.lane);
  }

  void RunToNextEnd() {
    double weights = 0;
    for (const LanePlay& lane : lanes_) weights += lane.weight;
    absl::Duration time = absl::InfiniteDuration();
    const LanePlay* first = nullptr;
    for (const LanePlay& lane : lanes_) {
      const absl::Duration needed = lane.least * lane.step * (weights / lane.weight);
      if (first == nullptr || needed < time) first = &lane;
      time = std::min(time, needed);
    }
    playback_.Pass(time);
    for (LanePlay& lane : lanes_) {
      const bool free = lane.step <= absl::ZeroDuration();
      const double evaluations =
          &lane == first || free ? lane.least
                                 : absl::FDivDuration(time, lane.step) * (lane.weight / weights);
      Advance(lane, evaluations);
    }
  }

  void Advance(LanePlay& lane, double evaluations) {
    for (Player& player : playback_.players()) {
      if (!player.in_lane || !player.is_at(lane.lane)) continue;
      if (playback_.Advance(player, evaluations)) lane.changed = true;
    }
    lane.least -= evaluations;
  }

  const Costs& costs_;
  Playback playback_;
  std::vector<LanePlay> lanes_;
};

// The first that is due, of those that have rows or find some, runs with those behind it that share
// its steps; until one of these is through.
class ByDeadline {
 public:
  ByDeadline(absl::Span<const ForecastPicture> pictures, const Costs& costs)
      : costs_(costs), playback_(pictures, costs) {}

  std::vector<Outlook> Run() {
    for (Player& player : playback_.players()) {
      if (!player.picture->begun) continue;
      playback_.SkipEmptyStages(player);
      if (!player.past_stages()) playback_.EnterLane(player);
    }
    while (Player* first = First()) RunPart(*first);
    return playback_.TakeOutlooks();
  }

 private:
  // REQUIRES: it is in a stage with steps.
  bool HasRows(const Player& player) {
    const int kept = playback_.KeptRows(player.now().lane);
    return player.in_lane || kept == 0 || kept + player.kept_rows() <= player.picture->places();
  }

  Player* First() {
    for (Player& player : playback_.players()) {
      if (player.done) continue;
      playback_.SkipEmptyStages(player);
      if (player.past_stages() || HasRows(player)) return &player;
    }
    return nullptr;
  }

  void RunPart(Player& first) {
    if (first.past_stages()) return playback_.End(first);
    const std::vector<Player*> together = WithWhom(first);
    int rows = 0;
    double previews = 0, least = std::numeric_limits<double>::infinity();
    for (Player* player : together) {
      if (!player->in_lane) playback_.EnterLane(*player);
      playback_.BeginStage(*player);
      rows += player->rows();
      previews += player->previews_per_step();
      least = std::min(least, player->left);
    }
    const Lane lane = first.now().lane;
    playback_.Pass(least * (costs_.Of(UnitKind::kStep, lane, rows) +
                            previews * costs_.Of(UnitKind::kPreview, lane)));
    for (Player* player : together) playback_.Advance(*player, least);
  }

  std::vector<Player*> WithWhom(Player& first) {
    const Lane lane = first.now().lane;
    std::vector<Player*> in_lane;
    std::vector<int> rows;
    const Player* end = playback_.players().data() + playback_.players().size();
    for (Player* player = &first; player != end; ++player) {
      if (!player->is_at(lane) || player->now().evaluations == 0 || !HasRows(*player)) continue;
      in_lane.push_back(player);
      const int next = player->now().next_rows(player->picture->rows);
      rows.push_back(player->in_lane ? player->rows() : next);
    }
    in_lane.resize(costs_.CountThatPays(lane, rows, first.picture->lane_rows));
    return in_lane;
  }

  const Costs& costs_;
  Playback playback_;
};

}  // namespace

std::vector<Outlook> Foresee(absl::Span<const ForecastPicture> pictures, Sharing sharing,
                             const Costs& costs) {
  if (sharing == Sharing::kInTurns) return InTurns(pictures, costs).Run();
  return ByDeadline(pictures, costs).Run();
}

}  // namespace latentd::batching
