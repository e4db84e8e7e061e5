#include "core/batching/costs.h"

#include <algorithm>
#include <cmath>

namespace latentd::batching {
namespace {

// How much of the difference the newest measurement makes: one that was disturbed is soon
// forgotten.
constexpr int kNewestPart = 4;
// Measurements of a shape after which a disturbed one is.
constexpr int kEnough = 4;
// What a row has to get cheaper for others to wait for those that are evaluated with it.
constexpr double kPays = 0.9;

}  // namespace

Costs::Shape::Shape(UnitKind unit, const Lane& lane, int evaluated) : kind(unit) {
  if (kind == UnitKind::kStep || kind == UnitKind::kText) network = lane.network;
  if (kind != UnitKind::kText) pixels = int64_t{lane.width} * lane.height;
  if (kind == UnitKind::kStep) rows = evaluated;
}

void Costs::Measure(UnitKind kind, const Lane& lane, int rows, absl::Duration took) {
  const Shape shape(kind, lane, rows);
  if (times_.size() >= kMostShapes && !times_.contains(shape)) times_.clear();
  const auto [known, is_new] = times_.try_emplace(shape, Time{took});
  Time& time = known->second;
  if (!is_new) time.time += (took - time.time) / kNewestPart;
  time.measured = std::min(time.measured + 1, kEnough);
}

const Costs::Known* Costs::Nearest(const Shape& wanted) const {
  const Known* nearest = nullptr;
  const auto distance = [&](const Shape& shape) {
    const bool covers = shape.pixels == wanted.pixels && shape.rows >= wanted.rows;
    return std::make_pair(!covers, std::abs(std::log(shape.work() / wanted.work())));
  };
  for (const Known& known : times_) {
    if (known.first.kind != wanted.kind || known.first.network != wanted.network) continue;
    if (nearest == nullptr || distance(known.first) < distance(nearest->first)) nearest = &known;
  }
  return nearest;
}

absl::Duration Costs::Of(UnitKind kind, const Lane& lane, int rows) const {
  const Shape wanted(kind, lane, rows);
  const auto exact = times_.find(wanted);
  if (exact != times_.end()) return exact->second.time;
  const Known* nearest = Nearest(wanted);
  if (nearest == nullptr) return absl::ZeroDuration();
  const auto& [shape, time] = *nearest;
  const bool covers = shape.pixels == wanted.pixels && shape.rows >= wanted.rows;
  return covers ? time.time : time.time * (wanted.work() / shape.work());
}

int Costs::CountThatPays(const Lane& lane, absl::Span<const int> rows, int limit) const {
  int best = 1, sum = 0;
  absl::Duration least = absl::InfiniteDuration();  // of a row
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

bool Costs::HasMeasured(const Ahead& ahead, int rows) const {
  for (const Ahead::Stage& stage : ahead.stages) {
    if (stage.full() > 0 && !HasMeasuredStep(stage.lane, rows)) return false;
    if (stage.full() < stage.evaluations && !HasMeasuredStep(stage.lane, 1)) return false;
  }
  return true;
}

bool Costs::HasMeasuredStep(const Lane& lane, int rows) const {
  const auto found = times_.find(Shape(UnitKind::kStep, lane, rows));
  return found != times_.end() && found->second.measured >= kEnough;
}

absl::Duration Costs::Alone(const Ahead& ahead, int rows) const {
  absl::Duration time;
  for (const Ahead::Stage& stage : ahead.stages) {
    if (stage.text) time += Of(UnitKind::kText, stage.lane);
    time += stage.full() * Of(UnitKind::kStep, stage.lane, rows);
    time += (stage.narrow_first + stage.narrow_last) * Of(UnitKind::kStep, stage.lane);
    time += stage.previews * Of(UnitKind::kPreview, stage.lane);
  }
  const Lane& lane = ahead.stages.front().lane;
  if (ahead.encode) time += Of(UnitKind::kEncode, lane);
  if (ahead.colors) time += Of(UnitKind::kDecode, lane);
  if (ahead.decode) time += Of(UnitKind::kDecode, lane);
  return time;
}

}  // namespace latentd::batching
