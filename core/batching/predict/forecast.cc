#include "core/batching/predict/forecast.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "core/batching/predict/passing.h"
#include "core/batching/predict/playback.h"

namespace latentd::batching {
namespace {

class InTurns {
 public:
  InTurns(absl::Span<const ForecastPicture> pictures, Sharing sharing, const Costs& costs)
      : may_pass_(sharing == Sharing::kInTurns), costs_(costs), playback_(pictures, costs) {}

  std::vector<Outlook> Run() {
    for (Enter(); !lanes_.empty() || HasMore(); Enter()) RunToNextEvent();
    return playback_.TakeOutlooks();
  }

 private:
  struct LanePlay {
    Lane lane;
    double weight = 0;    // the greatest of its pictures'; 0: only a passing picture steps
    bool full = false;    // a picture waits for rows: none overtakes
    bool changed = true;  // its pictures, or their rows, since it was summed
    bool has_all = true;  // an evaluation has rows for all that are in it
    absl::Duration step;  // time for each of them, with the previews that come between two
    absl::Duration pace;  // from one to the next, beside other lanes
  };

  LanePlay& PlayOf(const Lane& lane) {
    const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                    [&](const LanePlay& play) { return play.lane == lane; });
    return found == lanes_.end() ? lanes_.emplace_back(LanePlay{lane}) : *found;
  }

  // True if some are left that are not ready yet, and will be.
  bool HasMore() const { return playback_.UntilNextIsReady() < kNever; }

  // Each that is ready and has room in its lane is in it.
  void Enter() {
    for (LanePlay& lane : lanes_) lane.full = false;
    if (may_pass_) EnterToPass();
    for (Player& player : playback_.players()) {
      if (!player.in_lane && !player.done && playback_.IsReady(player)) TryEnter(player);
    }
    std::erase_if(lanes_,
                  [this](const LanePlay& lane) { return playback_.KeptRows(lane.lane) == 0; });
    for (LanePlay& lane : lanes_) {
      if (std::exchange(lane.changed, false)) Sum(lane);
    }
    passes_now_ = passes_ != nullptr && IsHeldUp(*passes_);
  }

  void TryEnter(Player& player) {
    playback_.SkipEmptyStages(player);
    if (player.past_stages()) return playback_.End(player);
    LanePlay& play = PlayOf(player.now().lane);
    if (play.full) return;
    const int kept = playback_.KeptRows(play.lane);
    const int passing = IsIn(passes_, play.lane) ? passes_->kept_rows() : 0;
    const int rows = kept - passing + player.kept_rows();
    const bool fits =
        kept == 0 || player.picture->begun ||
        (rows <= player.picture->lane_rows && rows + passing <= player.picture->places());
    play.full = !fits;
    if (fits) EnterLane(player, play);
  }

  static bool IsIn(const Player* player, const Lane& lane) {
    return player != nullptr && player->in_lane && player->is_at(lane);
  }

  void EnterLane(Player& player, LanePlay& play) {
    play.changed = true;
    playback_.EnterLane(player);
    playback_.BeginStage(player);
  }

  // The picture that passes others now is in its lane, where that has rows for others to rest.
  void EnterToPass() {
    std::vector<Runner> runners;
    for (Player& player : playback_.players()) {
      const bool waits = !player.in_lane && !player.done && playback_.IsReady(player);
      if (waits) playback_.SkipEmptyStages(player);
      runners.push_back(RunnerOf(player));
    }
    const std::optional<size_t> passes = WhoPasses(runners);
    const Player* const before = passes_;
    passes_ = passes ? &playback_.players()[*passes] : nullptr;
    if (passes_ != nullptr && !passes_->in_lane) {
      EnterLane(*passes_, PlayOf(passes_->now().lane));
    }
    if (passes_ == before) return;
    for (LanePlay& lane : lanes_) lane.changed = true;
  }

  Runner RunnerOf(Player& player) {
    if (player.done || player.past_stages() || !playback_.IsReady(player)) return {};
    const auto has_room = [&] {
      const int kept = playback_.KeptRows(player.now().lane);
      return kept + player.kept_rows() <= player.picture->places();
    };
    return {.work = player.picture->work,
            .begun = player.picture->begun || player.begun,
            .can_pass = player.in_lane || has_room()};
  }

  // By a round of the steps that it would share with all others.
  bool IsHeldUp(const Player& player) {
    absl::Duration round;
    for (const LanePlay& lane : lanes_) round += lane.step;
    const Lane& lane = player.now().lane;
    if (!PlayOf(lane).has_all) return true;
    return HoldsUp(round, static_cast<int>(lanes_.size()), StepOf(player)) &&
           !GainsByCompany(lane, player.rows(), player.picture->lane_rows, costs_);
  }

  absl::Duration StepOf(const Player& player) const {
    const Lane& lane = player.now().lane;
    return costs_.OfStep(lane, player.rows(), player.shallow_part()) +
           player.previews_per_step() * costs_.Of(UnitKind::kPreview, lane);
  }

  // All take turns where there are more rows than one evaluation has, but for a passing picture.
  void Sum(LanePlay& lane) {
    int rows = 0, at_once = 1, passing = 0;
    double previews = 0, shallow = 0;
    lane.weight = 0;
    for (const Player& player : playback_.players()) {
      if (!player.in_lane || !player.is_at(lane.lane)) continue;
      rows += player.rows();
      shallow += player.rows() * player.shallow_part();
      at_once = std::max({at_once, player.picture->lane_rows, player.rows()});
      previews += player.previews_per_step();
      if (&player == passes_) {
        passing = player.rows();
      } else {
        lane.weight = std::max(lane.weight, player.picture->weight);
      }
    }
    lane.has_all = rows <= at_once;
    const double shallow_part = rows == 0 ? 0 : shallow / rows;
    if (lane.has_all && passing > 0) lane.weight = std::max(lane.weight, passes_->picture->weight);
    if (!lane.has_all) rows -= passing;
    const double turns = std::max(1.0, static_cast<double>(rows) / at_once);
    lane.step = turns * costs_.OfStep(lane.lane, std::min(rows, at_once), shallow_part) +
                previews * costs_.Of(UnitKind::kPreview, lane.lane);
  }

  // A run of evaluations ends, or a picture is ready.
  void RunToNextEvent() {
    SetPaces();
    absl::Duration time = playback_.UntilNextIsReady();
    for (const Player& player : playback_.players()) {
      if (player.in_lane) time = std::min(time, player.left * PaceOf(player));
    }
    playback_.Pass(time);
    for (Player& player : playback_.players()) {
      if (player.in_lane) Advance(player, time);
    }
  }

  void SetPaces() {
    double weights = 0;
    for (const LanePlay& lane : lanes_) weights += lane.weight;
    const double shared = !passes_now_ ? 1 : weights > 0 ? kSharedPart : 0;
    for (LanePlay& lane : lanes_) {
      lane.pace = lane.weight > 0 ? lane.step * (weights / lane.weight / shared) : kNever;
    }
    if (!passes_now_) return;
    const LanePlay& lane = PlayOf(passes_->now().lane);
    const absl::Duration own = StepOf(*passes_) / (1 - shared);
    pace_of_passes_ = lane.has_all ? Both(lane.pace, own) : own;
  }

  // For an evaluation, of one that takes part in those of both.
  static absl::Duration Both(absl::Duration a, absl::Duration b) {
    const absl::Duration sum = a + b;
    return sum > absl::ZeroDuration() && sum < kNever ? a * absl::FDivDuration(b, sum)
                                                      : std::min(a, b);
  }

  // How long it takes for an evaluation.
  absl::Duration PaceOf(const Player& player) {
    if (passes_now_ && &player == passes_) return pace_of_passes_;
    return PlayOf(player.now().lane).pace;
  }

  void Advance(Player& player, absl::Duration time) {
    LanePlay& lane = PlayOf(player.now().lane);
    const absl::Duration pace = PaceOf(player);
    const bool is_through = player.left * pace <= time;
    const double evaluations = is_through ? player.left : absl::FDivDuration(time, pace);
    if (playback_.Advance(player, evaluations)) lane.changed = true;
  }

  static constexpr double kSharedPart = 0.5;  // part of the time, while one passes (PassingTime)
  static constexpr absl::Duration kNever = absl::InfiniteDuration();

  const bool may_pass_;
  const Costs& costs_;
  Playback playback_;
  std::vector<LanePlay> lanes_;
  Player* passes_ = nullptr;
  bool passes_now_ = false;  // it is held up
  absl::Duration pace_of_passes_;
};

// The first that is due, of those that are ready and have rows or find some, runs with those behind
// it that share its steps; until one of these is through, or another one is ready.
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
    while (RunFirst()) continue;
    return playback_.TakeOutlooks();
  }

 private:
  // REQUIRES: it is in a stage with steps.
  bool HasRows(const Player& player) {
    const int kept = playback_.KeptRows(player.now().lane);
    return player.in_lane || kept == 0 || kept + player.kept_rows() <= player.picture->places();
  }

  // False: nothing is left to be run.
  bool RunFirst() {
    if (Player* first = First()) {
      RunPart(*first);
      return true;
    }
    const absl::Duration until = playback_.UntilNextIsReady();
    if (until == absl::InfiniteDuration()) return false;
    playback_.Pass(until);
    return true;
  }

  Player* First() {
    for (Player& player : playback_.players()) {
      if (player.done || !playback_.IsReady(player)) continue;
      playback_.SkipEmptyStages(player);
      if (player.past_stages() || HasRows(player)) return &player;
    }
    return nullptr;
  }

  void RunPart(Player& first) {
    if (first.past_stages()) return playback_.End(first);
    const std::vector<Player*> together = WithWhom(first);
    const double first_shallow = first.shallow_part();
    const auto part_of = [&](const Player& player) {
      return PartTaken(first_shallow, player.shallow_part());
    };
    double rows = 0, previews = 0, least = std::numeric_limits<double>::infinity();
    for (Player* player : together) {
      if (!player->in_lane) playback_.EnterLane(*player);
      playback_.BeginStage(*player);
      const double part = part_of(*player);
      rows += part * player->rows();
      previews += part * player->previews_per_step();
      least = std::min(least, player->left / part);
    }
    const Lane lane = first.now().lane;
    const absl::Duration pace =
        costs_.OfStep(lane, static_cast<int>(std::ceil(rows)), first_shallow) +
        previews * costs_.Of(UnitKind::kPreview, lane);
    absl::Duration time = least * pace;
    const absl::Duration until = playback_.UntilNextIsReady();
    if (until < time) {
      time = until;
      least = absl::FDivDuration(time, pace);
    }
    playback_.Pass(time);
    for (Player* player : together) playback_.Advance(*player, least * part_of(*player));
  }

  // Part of the first one's evaluations that another takes with it. It rests in those of the other
  // kind than its next one, so that it takes as many as there are for its own mixture of kinds.
  static double PartTaken(double first_shallow, double own_shallow) {
    double part = 1;
    if (own_shallow > 0) part = std::min(part, first_shallow / own_shallow);
    if (own_shallow < 1) part = std::min(part, (1 - first_shallow) / (1 - own_shallow));
    return part;
  }

  // Pictures that take a part of its evaluations, itself the first.
  std::vector<Player*> WithWhom(Player& first) {
    const Lane lane = first.now().lane;
    std::vector<Player*> in_lane;
    std::vector<int> rows;
    const Player* end = playback_.players().data() + playback_.players().size();
    for (Player* player = &first; player != end; ++player) {
      if (!player->is_at(lane) || player->now().runs.empty()) continue;
      if (!playback_.IsReady(*player) || !HasRows(*player)) continue;
      if (PartTaken(first.shallow_part(), player->shallow_part()) <= 0) continue;
      in_lane.push_back(player);
      rows.push_back(player->rows());
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
  if (sharing == Sharing::kByDeadline) return ByDeadline(pictures, costs).Run();
  return InTurns(pictures, sharing, costs).Run();
}

}  // namespace latentd::batching
