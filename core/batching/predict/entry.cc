#include "core/batching/predict/entry.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/batching/predict/passing.h"

namespace latentd::batching {
namespace {

// How long a request without a deadline, or with one that is far off, may wait for others of its
// caller that are more urgent.
constexpr absl::Duration kPatience = absl::Minutes(1);

struct CallerQueue {
  bool empty() const { return next == entries.size(); }
  PictureId request() const { return entries[next]->request; }
  // Whose turn it is, and of several, whose request is due first.
  std::pair<absl::Duration, absl::Time> key() const { return {turn, entries[next]->due}; }

  absl::Duration turn;  // the time at which its next request begins
  Entries entries;
  size_t next = 0;
};

std::vector<CallerQueue> ByCaller(const Entries& waiting, const Callers& callers) {
  std::vector<CallerQueue> queues;
  absl::flat_hash_map<std::string, size_t> indexes;
  for (const Entry* entry : waiting) {
    const auto [found, is_new] = indexes.try_emplace(entry->caller, queues.size());
    if (is_new) queues.push_back({callers.StartOf(entry->caller), {}});
    queues[found->second].entries.push_back(entry);
  }
  for (CallerQueue& queue : queues) queue.entries = AsDue(std::move(queue.entries));
  return queues;
}

// The next request of the caller.
Entries TakeRequest(CallerQueue& queue) {
  Entries request;
  const PictureId id = queue.request();
  for (; !queue.empty() && queue.request() == id; ++queue.next) {
    request.push_back(queue.entries[queue.next]);
  }
  return request;
}

}  // namespace

double WeightOf(int priority) { return std::exp2(priority); }

absl::Time DueOf(absl::Time admitted, absl::Time deadline, double weight) {
  return admitted + std::min(deadline - admitted, kPatience) / weight;
}

bool IsRunnable(const Entry& entry) {
  const bool has_device = entry.device >= 0 || entry.devices != 0;
  return has_device && entry.need.kind != UnitKind::kWait && entry.need.kind != UnitKind::kDone;
}

double RequestWorkOf(const Entry& entry) {
  return WorkOf(entry.need.ahead) * entry.together / entry.weight;
}

absl::Duration ReadyIn(const Entry& entry, absl::Time from) {
  const absl::Time ready = entry.need.ready;
  return entry.started || ready <= from ? absl::ZeroDuration() : ready - from;
}

ForecastPicture PictureOf(const Entry& entry, absl::Time from) {
  const Need& need = entry.need;
  ForecastPicture picture{.ahead = need.ahead,
                          .lane_rows = std::min(need.lane_rows, need.lane_capacity),
                          .lane_places = need.lane_places,
                          .weight = entry.weight,
                          .work = entry.work,
                          .begun = entry.started,
                          .ready_in = ReadyIn(entry, from)};
  // The first picture of a request encodes for the others too.
  if (entry.is_first_of_request()) return picture;
  for (Ahead::Stage& stage : picture.ahead.stages) stage.text = 0;
  auto& before = picture.ahead.before;
  before.erase(std::remove_if(before.begin(), before.end(),
                              [](const OtherUnit& unit) { return !unit.is_own; }),
               before.end());
  return picture;
}

Entries AsDue(Entries entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry* a, const Entry* b) { return a->due < b->due; });
  return entries;
}

absl::Duration AloneTime(const Entries& request, const Costs& costs) {
  absl::Duration time;
  for (const Entry* entry : request) {
    time += costs.Alone(PictureOf(*entry).ahead);
  }
  return time;
}

Entries InOrder(const Entries& entries, const Callers& callers, const Costs& costs) {
  Entries ordered, waiting;
  for (const Entry* entry : entries) {
    (entry->started ? ordered : waiting).push_back(entry);
  }
  std::vector<CallerQueue> queues = ByCaller(waiting, callers);
  const auto is_later = [&](size_t a, size_t b) {
    return std::make_pair(queues[a].key(), a) > std::make_pair(queues[b].key(), b);
  };
  std::vector<size_t> heap;
  for (size_t i = 0; i < queues.size(); ++i) heap.push_back(i);
  std::make_heap(heap.begin(), heap.end(), is_later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), is_later);
    CallerQueue& queue = queues[heap.back()];
    const Entries request = TakeRequest(queue);
    ordered.insert(ordered.end(), request.begin(), request.end());
    queue.turn += CountedTime(AloneTime(request, costs)) / request.front()->weight;
    if (queue.empty()) {
      heap.pop_back();
    } else {
      std::push_heap(heap.begin(), heap.end(), is_later);
    }
  }
  return ordered;
}

}  // namespace latentd::batching
