#include "core/batching/forecast.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace latentd::batching {
namespace {

constexpr int kParts = 3;  // of a stage, by the rows that they take

class Play {
 public:
  Play(absl::Span<const ForecastPicture> pictures, const Costs& costs) : costs_(costs) {
    for (const ForecastPicture& picture : pictures) players_.push_back(Player{&picture});
    outlooks_.resize(pictures.size());
  }

  std::vector<Outlook> Run() {
    for (Enter(); !lanes_.empty(); Enter()) RunToNextEnd();
    return std::move(outlooks_);
  }

 private:
  struct Player {
    const ForecastPicture* picture;
    size_t stage = 0;
    int part = 0;     // of the stage: evaluations of one row, of all, of one again
    double left = 0;  // evaluations of the part
    bool begun = false, in_lane = false, done = false;

    const Ahead::Stage& now() const { return picture->ahead.stages[stage]; }
    // Of its lane: that are computed now, and that are kept for it.
    int rows() const { return part == 1 ? picture->rows : 1; }
    int kept_rows() const { return part == 2 ? 1 : now().most_rows(picture->rows); }
    int PartLength() const {
      const int narrow = part == 0 ? now().narrow_first : now().narrow_last;
      return part == 1 ? now().full() : narrow;
    }
    // To the first part from here on that has evaluations; false: there is none.
    bool EnterPart() {
      while (part < kParts && PartLength() == 0) ++part;
      if (part < kParts) left = PartLength();
      return part < kParts;
    }
    double previews_per_step() const {
      return static_cast<double>(now().previews) / now().evaluations;
    }
    bool past_stages() const { return stage == picture->ahead.stages.size(); }
  };
  struct LanePlay {
    Lane lane;
    int rows = 0;         // kept for its pictures
    double weight = 0;    // the greatest of its pictures'
    double least = 0;     // evaluations until the first of them leaves or takes other rows
    bool full = false;    // somebody waits: nobody overtakes
    absl::Duration step;  // with the previews that come between two
  };

  LanePlay* Find(const Lane& lane) {
    const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                    [&](const LanePlay& play) { return play.lane == lane; });
    return found == lanes_.end() ? nullptr : &*found;
  }

  // Whoever has room in its lane is in it.
  void Enter() {
    for (LanePlay& lane : lanes_) lane.full = false;
    for (size_t i = 0; i < players_.size(); ++i) {
      if (!players_[i].in_lane && !players_[i].done) TryEnter(i);
    }
    std::erase_if(lanes_, [](const LanePlay& lane) { return lane.rows == 0; });
    for (LanePlay& lane : lanes_) Sum(lane);
  }

  void TryEnter(size_t i) {
    Player& player = players_[i];
    const ForecastPicture& picture = *player.picture;
    for (; !player.past_stages() && player.now().evaluations == 0; ++player.stage) {
      if (player.now().text) now_ += costs_.Of(UnitKind::kText, player.now().lane);
    }
    if (player.past_stages()) return End(i);
    const Lane& lane = player.now().lane;
    LanePlay* play = Find(lane);
    if (play == nullptr) play = &lanes_.emplace_back(LanePlay{lane});
    const bool fits = play->rows == 0 || play->rows + player.kept_rows() <= picture.lane_rows;
    play->full = play->full || !fits;
    if (play->full) return;
    player.in_lane = player.EnterPart();
    play->rows += player.kept_rows();
    Begin(i);
  }

  void Begin(size_t i) {
    Player& player = players_[i];
    BeginOnce(i);
    if (player.now().text) now_ += costs_.Of(UnitKind::kText, player.now().lane);
    if (costs_.Of(UnitKind::kStep, player.now().lane) == absl::ZeroDuration()) {
      outlooks_[i].known = false;
    }
  }

  void BeginOnce(size_t i) {
    Player& player = players_[i];
    if (std::exchange(player.begun, true)) return;
    const Ahead& ahead = player.picture->ahead;
    outlooks_[i].begins = now_;
    const Lane& lane = ahead.stages.front().lane;
    if (ahead.colors) now_ += costs_.Of(UnitKind::kDecode, lane);
    if (ahead.encode) now_ += costs_.Of(UnitKind::kEncode, lane);
  }

  void End(size_t i) {
    Player& player = players_[i];
    BeginOnce(i);
    const Ahead& ahead = player.picture->ahead;
    if (!ahead.is_known()) outlooks_[i].known = false;
    if (ahead.decode) now_ += costs_.Of(UnitKind::kDecode, ahead.stages.front().lane);
    outlooks_[i].ends = now_;
    player.done = true;
  }

  void Sum(LanePlay& lane) const {
    int rows = 0;
    double previews = 0;
    lane.weight = 0;
    std::optional<double> least;
    for (const Player& player : players_) {
      if (!player.in_lane || player.now().lane != lane.lane) continue;
      rows += player.rows();
      previews += player.previews_per_step();
      lane.weight = std::max(lane.weight, player.picture->weight);
      least = std::min(least.value_or(player.left), player.left);
    }
    lane.least = least.value_or(0);
    lane.step = costs_.Of(UnitKind::kStep, lane.lane, rows) +
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
    now_ += time;
    for (LanePlay& lane : lanes_) {
      const bool free = lane.step <= absl::ZeroDuration();
      const double evaluations =
          &lane == first || free ? lane.least
                                 : absl::FDivDuration(time, lane.step) * (lane.weight / weights);
      Advance(lane, evaluations);
    }
  }

  void Advance(LanePlay& lane, double evaluations) {
    constexpr double kNothing = 1e-6;  // what rounding leaves of an evaluation
    for (Player& player : players_) {
      if (!player.in_lane || player.now().lane != lane.lane) continue;
      player.left -= evaluations;
      if (player.left > kNothing) continue;
      lane.rows -= player.kept_rows();
      ++player.part;
      player.in_lane = player.EnterPart();
      if (player.in_lane) {
        lane.rows += player.kept_rows();
      } else {
        ++player.stage;
        player.part = 0;
      }
    }
  }

  const Costs& costs_;
  std::vector<Player> players_;
  std::vector<Outlook> outlooks_;
  std::vector<LanePlay> lanes_;
  absl::Duration now_;
};

}  // namespace

std::vector<Outlook> Foresee(absl::Span<const ForecastPicture> pictures, const Costs& costs) {
  return Play(pictures, costs).Run();
}

}  // namespace latentd::batching
