#include "core/batching/predict/costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace latentd::batching {
namespace {

// How much of the difference the newest measurement makes: one that was disturbed is soon
// forgotten.
constexpr int kNewestPart = 4;
// Measurements of a shape after which a disturbed one is.
constexpr int kEnough = 4;
// Relative cost of a row, at most, for which others wait for those evaluated with it.
constexpr double kPays = 0.9;

}  // namespace

Costs::Shape::Shape(UnitKind unit, const Lane& lane, int takes) : kind(unit) {
  const bool is_video = lane.frames > 1;
  if (kind == UnitKind::kStep || kind == UnitKind::kText || is_video) network = lane.network;
  shallow = kind == UnitKind::kStep && lane.shallow;
  if (kind != UnitKind::kText) pixels = int64_t{lane.width} * lane.height;
  if (kind == UnitKind::kStep) pixels *= lane.frames;
  if (kind != UnitKind::kEncode && kind != UnitKind::kPreview) rows = takes;
}

void Costs::Measure(UnitKind kind, const Lane& lane, int rows, absl::Duration took) {
  const Shape shape(kind, lane, rows);
  if (times_.size() >= kMostShapes && !times_.contains(shape)) times_.clear();
  const auto [known, is_new] = times_.try_emplace(shape, Time{took});
  if (is_new) guesses_.clear();
  Time& time = known->second;
  if (!is_new) time.time += (took - time.time) / kNewestPart;
  time.measured = std::min(time.measured + 1, kEnough);
}

std::optional<Costs::Guess> Costs::FindGuess(const Shape& wanted) const {
  const auto covers = [&](const Shape& shape) {
    return shape.pixels == wanted.pixels && shape.rows >= wanted.rows;
  };
  std::optional<Guess> nearest;
  auto least = std::make_pair(true, std::numeric_limits<double>::infinity());
  for (const auto& [shape, time] : times_) {
    if (shape.kind != wanted.kind || shape.network != wanted.network) continue;
    if (shape.shallow != wanted.shallow) continue;
    const double times = wanted.work() / shape.work();
    const auto distance = std::make_pair(!covers(shape), std::abs(std::log(times)));
    if (distance >= least) continue;
    least = distance;
    nearest = Guess{shape, covers(shape) ? 1 : times};
  }
  return nearest;
}

const std::optional<Costs::Guess>& Costs::GuessOf(const Shape& wanted) const {
  if (guesses_.size() >= kMostShapes) guesses_.clear();
  const auto [guess, is_new] = guesses_.try_emplace(wanted);
  if (is_new) guess->second = FindGuess(wanted);
  return guess->second;
}

absl::Duration Costs::Of(UnitKind kind, const Lane& lane, int rows) const {
  const Shape wanted(kind, lane, rows);
  const auto exact = times_.find(wanted);
  if (exact != times_.end()) return exact->second.time;
  const std::optional<Guess>& guess = GuessOf(wanted);
  if (!guess && wanted.shallow) {
    Lane full = lane;
    full.shallow = false;
    return Of(kind, full, rows);
  }
  if (!guess) return absl::ZeroDuration();
  return times_.find(guess->from)->second.time * guess->times;
}

absl::Duration Costs::OfStep(const Lane& lane, int rows, double shallow_part) const {
  const absl::Duration full = Of(UnitKind::kStep, lane, rows);
  if (shallow_part <= 0) return full;
  return full * (1 - shallow_part) + Of(UnitKind::kStep, ShallowOf(lane), rows) * shallow_part;
}

int Costs::CountThatPays(const Lane& lane, absl::Span<const int> rows, int limit) const {
  int best = 1, sum = 0;
  absl::Duration least = absl::InfiniteDuration();  // time of a row
  for (size_t i = 0; i < rows.size(); ++i) {
    sum += rows[i];
    if (i > 0 && sum > limit) break;
    const absl::Duration row = Of(UnitKind::kStep, lane, sum) / sum;
    if (i > 0 && row > least * kPays) continue;
    best = static_cast<int>(i) + 1;
    least = row;
  }
  return best;
}

bool Costs::HasMeasured(const Ahead& ahead) const {
  for (const Ahead::Stage& stage : ahead.stages) {
    for (const StepRun& run : stage.runs) {
      if (!HasMeasuredStep(stage.lane, run.rows)) return false;
      if (run.shallow > 0 && !HasMeasuredStep(ShallowOf(stage.lane), run.rows)) return false;
    }
  }
  return true;
}

bool Costs::HasMeasuredStep(const Lane& lane, int rows) const {
  const auto found = times_.find(Shape(UnitKind::kStep, lane, rows));
  return found != times_.end() && found->second.measured >= kEnough;
}

absl::Duration Costs::Of(absl::Span<const OtherUnit> units, const Ahead& ahead) const {
  absl::Duration time;
  for (const OtherUnit& unit : units) time += Of(unit.kind, ahead.stages.front().lane, unit.rows);
  return time;
}

absl::Duration Costs::Alone(const Ahead& ahead) const {
  return Left(ahead, [this](const Lane& lane, int own) { return Of(UnitKind::kStep, lane, own); });
}

absl::Duration Costs::Shared(const Ahead& ahead, int evaluated) const {
  return Left(ahead, [&](const Lane& lane, int own) {
    const absl::Duration full = Of(UnitKind::kStep, lane, evaluated);
    return std::min(Of(UnitKind::kStep, lane, own), full * own / evaluated);
  });
}

absl::Duration Costs::Left(
    const Ahead& ahead, absl::FunctionRef<absl::Duration(const Lane& lane, int rows)> step) const {
  absl::Duration time;
  for (const Ahead::Stage& stage : ahead.stages) {
    if (stage.text > 0) time += Of(UnitKind::kText, stage.lane, stage.text);
    for (const StepRun& run : stage.runs) {
      time += (run.count - run.shallow) * step(stage.lane, run.rows);
      if (run.shallow > 0) time += run.shallow * step(ShallowOf(stage.lane), run.rows);
    }
    time += stage.previews * Of(UnitKind::kPreview, stage.lane);
  }
  for (const auto* others : {&ahead.before, &ahead.after}) time += Of(*others, ahead);
  return time;
}

}  // namespace latentd::batching
