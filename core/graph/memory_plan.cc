#include "core/graph/memory_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/alignment.h"
#include "core/base/errors/status_macros.h"
#include "core/device/buffer.h"

namespace latentd::graph {
namespace {

constexpr size_t kMaxTotalBytes = size_t{1} << 60;

size_t Aligned(size_t bytes) { return RoundUp(bytes, device::kAlignment); }

bool AliveTogether(const LiveValue& a, const LiveValue& b) {
  return a.first_use <= b.last_use && b.first_use <= a.last_use;
}

// A range of the arena that is taken while the value to place is alive.
struct Taken {
  size_t begin, end;
};

// Offset of the smallest gap of at least `bytes` between ranges sorted by begin, or the first byte
// behind all of them.
size_t BestFit(absl::Span<const Taken> taken, size_t bytes) {
  size_t best = std::numeric_limits<size_t>::max();
  size_t best_size = std::numeric_limits<size_t>::max();
  size_t free_from = 0;
  for (const Taken& range : taken) {
    const size_t gap = range.begin > free_from ? range.begin - free_from : 0;
    if (gap >= bytes && gap < best_size) {
      best = free_from;
      best_size = gap;
    }
    free_from = std::max(free_from, range.end);
  }
  return best_size == std::numeric_limits<size_t>::max() ? free_from : best;
}

// Places the values in the given order.
MemoryPlan PlaceInOrder(absl::Span<const LiveValue> values, absl::Span<const size_t> order) {
  MemoryPlan plan{std::vector<size_t>(values.size(), 0), 0};
  std::vector<size_t> placed;  // sorted by offset
  std::vector<Taken> taken;
  for (size_t index : order) {
    taken.clear();
    for (size_t other : placed) {
      if (!AliveTogether(values[other], values[index])) continue;
      taken.push_back({plan.offsets[other], plan.offsets[other] + Aligned(values[other].bytes)});
    }
    const size_t bytes = Aligned(values[index].bytes);
    plan.offsets[index] = BestFit(taken, bytes);
    plan.arena_bytes = std::max(plan.arena_bytes, plan.offsets[index] + bytes);
    const auto by_offset = [&plan](size_t a, size_t b) {
      return plan.offsets[a] < plan.offsets[b];
    };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index, by_offset), index);
  }
  return plan;
}

// Indices sorted by `key`, largest first; equal keys by first use and then as they came, so that a
// plan depends on nothing else.
template <typename Key>
std::vector<size_t> Descending(absl::Span<const LiveValue> values, Key key) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto key_a = key(values[a]);
    const auto key_b = key(values[b]);
    return key_a != key_b ? key_a > key_b : values[a].first_use < values[b].first_use;
  });
  return order;
}

std::vector<size_t> ByFirstUse(absl::Span<const LiveValue> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a].first_use < values[b].first_use; });
  return order;
}

absl::Status CheckPlace(size_t index, const LiveValue& value, const MemoryPlan& plan) {
  const size_t offset = plan.offsets[index];
  if (offset % device::kAlignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat("value ", index, " is not aligned"));
  }
  if (value.bytes > plan.arena_bytes || offset > plan.arena_bytes - value.bytes) {
    return absl::InvalidArgumentError(absl::StrCat("value ", index, " lies outside the arena"));
  }
  return absl::OkStatus();
}

absl::Status Overlap(size_t a, size_t b) {
  return absl::InvalidArgumentError(absl::StrCat("values ", a, " and ", b, " overlap"));
}

}  // namespace

absl::StatusOr<MemoryPlan> PlanMemory(absl::Span<const LiveValue> values) {
  size_t total = 0;
  for (const LiveValue& value : values) {
    if (value.bytes > kMaxTotalBytes - total) {
      return absl::ResourceExhaustedError("the values of a graph exceed 2^60 bytes");
    }
    total += Aligned(value.bytes);
    total = std::min(total, kMaxTotalBytes);
  }
  MemoryPlan by_size =
      PlaceInOrder(values, Descending(values, [](const LiveValue& v) { return v.bytes; }));
  MemoryPlan by_length = PlaceInOrder(
      values, Descending(values, [](const LiveValue& v) { return v.last_use - v.first_use; }));
  return by_length.arena_bytes < by_size.arena_bytes ? by_length : by_size;
}

absl::Status CheckPlan(absl::Span<const LiveValue> values, const MemoryPlan& plan) {
  if (plan.offsets.size() != values.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a plan of ", plan.offsets.size(), " offsets for ", values.size(), " values"));
  }
  // Sweeps through time with the live values ordered by offset: a value that overlaps another one
  // overlaps one of its neighbours.
  std::map<size_t, size_t> alive;   // offset -> index
  std::multimap<int, size_t> ends;  // last use -> index
  for (size_t index : ByFirstUse(values)) {
    const LiveValue& value = values[index];
    RETURN_IF_ERROR(CheckPlace(index, value, plan));
    for (; !ends.empty() && ends.begin()->first < value.first_use; ends.erase(ends.begin())) {
      alive.erase(plan.offsets[ends.begin()->second]);
    }
    if (value.bytes == 0) continue;
    const auto next = alive.lower_bound(plan.offsets[index]);
    if (next != alive.end() && next->first < plan.offsets[index] + value.bytes) {
      return Overlap(index, next->second);
    }
    if (next != alive.begin()) {
      const auto [offset, other] = *std::prev(next);
      if (offset + values[other].bytes > plan.offsets[index]) return Overlap(index, other);
    }
    alive.emplace_hint(next, plan.offsets[index], index);
    ends.emplace(value.last_use, index);
  }
  return absl::OkStatus();
}

size_t PeakBytes(absl::Span<const LiveValue> values) {
  std::map<int64_t, int64_t> changes;  // step -> bytes that come alive less those that go
  for (const LiveValue& value : values) {
    changes[value.first_use] += static_cast<int64_t>(Aligned(value.bytes));
    changes[int64_t{value.last_use} + 1] -= static_cast<int64_t>(Aligned(value.bytes));
  }
  int64_t now = 0, peak = 0;
  for (const auto& [step, change] : changes) {
    now += change;
    peak = std::max(peak, now);
  }
  return static_cast<size_t>(peak);
}

}  // namespace latentd::graph
