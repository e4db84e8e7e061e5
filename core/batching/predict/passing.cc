#include "core/batching/predict/passing.h"

namespace latentd::batching {
namespace {

constexpr double kTextAndDecode = 2;  // evaluations of a row
constexpr double kMuchMore = 2;       // times the work

// Requests of about as much work are of one size: the first of them goes on until it is through.
int SizeOf(double work) { return std::ilogb(work); }

}  // namespace

double WorkOf(const Ahead& ahead) {
  if (!ahead.is_known()) return 0;
  const auto pixels = [](const Lane& lane) {
    return static_cast<double>(lane.width) * lane.height * lane.frames;
  };
  double work = kTextAndDecode * pixels(ahead.stages.front().lane);
  for (const Ahead::Stage& stage : ahead.stages) {
    for (const StepRun& run : stage.runs) work += run.count * run.rows * pixels(stage.lane);
  }
  return work;
}

std::optional<size_t> WhoPasses(absl::Span<const Runner> runners) {
  std::optional<size_t> first;
  for (size_t i = 0; i < runners.size(); ++i) {
    const Runner& runner = runners[i];
    if (!runner.can_pass || runner.work <= 0) continue;
    if (!first || SizeOf(runner.work) < SizeOf(runners[*first].work)) first = i;
  }
  if (!first) return std::nullopt;
  const double much = kMuchMore * runners[*first].work;
  for (size_t i = 0; i < runners.size(); ++i) {
    if ((runners[i].begun || i < *first) && runners[i].work >= much) return first;
  }
  return std::nullopt;
}

bool HoldsUp(absl::Duration round, int lanes, absl::Duration own) {
  return round > own * kHeldUp * lanes;
}

bool GainsByCompany(const Lane& lane, int rows, int most, const Costs& costs) {
  const absl::Duration own = costs.Of(UnitKind::kStep, lane, rows);
  return own * most > costs.Of(UnitKind::kStep, lane, most) * rows * kGain;
}

int CountTakenAlong(const Lane& lane, absl::Span<const int> rows, int limit, const Costs& costs) {
  int count = costs.CountThatPays(lane, rows, limit);
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += rows[i];
  const absl::Duration own = costs.Of(UnitKind::kStep, lane, rows[0]);
  while (count > 1 && costs.Of(UnitKind::kStep, lane, sum) > own * kTakenAlong) {
    sum -= rows[--count];
  }
  return count;
}

}  // namespace latentd::batching
