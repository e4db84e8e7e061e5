#include "core/batching/playback.h"

#include <utility>

namespace latentd::batching {
namespace {

constexpr int kParts = 3;  // of a stage

int PartLength(const Player& player) {
  const Ahead::Stage& stage = player.now();
  if (player.part == 1) return stage.full();
  return player.part == 0 ? stage.narrow_first : stage.narrow_last;
}

}  // namespace

bool Player::EnterPart() {
  while (part < kParts && PartLength(*this) == 0) ++part;
  if (part < kParts) left = PartLength(*this);
  return part < kParts;
}

bool Player::Advance(double evaluations) {
  constexpr double kNothing = 1e-6;  // what rounding leaves of an evaluation
  left -= evaluations;
  if (left > kNothing) return true;
  ++part;
  if (EnterPart()) return true;
  ++stage;
  part = 0;
  began_stage = false;
  return false;
}

Playback::Playback(absl::Span<const ForecastPicture> pictures, const Costs& costs)
    : costs_(costs), outlooks_(pictures.size()) {
  for (const ForecastPicture& picture : pictures) players_.push_back(Player{&picture});
}

void Playback::SkipEmptyStages(Player& player) {
  for (; !player.past_stages() && player.now().evaluations == 0; ++player.stage) {
    if (player.now().text) now_ += costs_.Of(UnitKind::kText, player.now().lane);
  }
}

void Playback::BeginStage(Player& player) {
  BeginOnce(player);
  player.began_stage = true;
  const Ahead::Stage& stage = player.now();
  if (stage.text) now_ += costs_.Of(UnitKind::kText, stage.lane);
  const bool is_known = costs_.Of(UnitKind::kStep, stage.lane) > absl::ZeroDuration();
  OutlookOf(player).known = OutlookOf(player).known && is_known;
}

void Playback::BeginOnce(Player& player) {
  if (std::exchange(player.begun, true)) return;
  const Ahead& ahead = player.picture->ahead;
  OutlookOf(player).begins = now_;
  const Lane& lane = ahead.stages.front().lane;
  if (ahead.colors) now_ += costs_.Of(UnitKind::kDecode, lane);
  if (ahead.encode) now_ += costs_.Of(UnitKind::kEncode, lane);
}

void Playback::End(Player& player) {
  BeginOnce(player);
  const Ahead& ahead = player.picture->ahead;
  if (!ahead.is_known()) OutlookOf(player).known = false;
  if (ahead.decode) now_ += costs_.Of(UnitKind::kDecode, ahead.stages.front().lane);
  OutlookOf(player).ends = now_;
  player.done = true;
}

}  // namespace latentd::batching
