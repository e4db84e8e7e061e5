// What GraphStore holds in memory, and what leaves it.
#include <algorithm>
#include <utility>

#include "core/compiler/graph_entry.h"

namespace latentd::compiler {

std::vector<GraphStore::GraphRef> GraphStore::Entry::Users() const {
  std::vector<GraphRef> users;
  for (const std::weak_ptr<Use>& use : uses) {
    if (GraphRef alive = use.lock()) users.push_back(std::move(alive));
  }
  return users;
}

bool GraphStore::Entry::Busy() const {
  return work != Work::kNone || std::any_of(loaded.begin(), loaded.end(),
                                            [](const auto& one) { return one.second.loading; });
}

bool GraphStore::Entry::InUse() const {
  return std::any_of(loaded.begin(), loaded.end(),
                     [](const auto& one) { return one.second.in_use(); });
}

bool GraphStore::Entry::HoldsMemory() const {
  return artifact.bytes != nullptr || HoldsExecutable();
}

int64_t GraphStore::Entry::executable_bytes() const {
  size_t bytes = 0;
  for (const auto& [weights, one] : loaded) bytes += one.own_bytes;
  return static_cast<int64_t>(bytes);
}

int64_t GraphStore::Entry::artifact_bytes() const {
  return artifact.bytes == nullptr ? 0 : static_cast<int64_t>(artifact.bytes->size());
}

int64_t GraphStore::Entry::definition_bytes() const {
  return static_cast<int64_t>(graph_bytes + needs_bytes);
}

void GraphStore::Entry::KeepNeeds(const Digest& weights, const backends::MemoryNeeds& its_needs) {
  if (!needs.emplace(weights, its_needs).second) return;
  // A node of a map has four words beside what it holds.
  constexpr size_t kNodeBytes = 4 * sizeof(void*) + sizeof(std::pair<std::string, size_t>);
  for (const auto* results : {&its_needs.weights, &its_needs.making}) {
    for (const auto& [key, bytes] : *results) needs_bytes += kNodeBytes + key.capacity();
  }
}

void GraphStore::Entry::ForgetNeeds() {
  needs.clear();
  needs_bytes = 0;
}

void GraphStore::Touch(Entry& entry) {
  entry.tick = ++ticks_;
  entry.last_use = clock_.Wall();
}

void GraphStore::TakeOut(Entry& entry, Leaving& leaving) {
  leaving.push_back(std::exchange(entry.artifact, {}).bytes);
  TakeOutExecutables(entry, leaving);
}

void GraphStore::TakeOutExecutables(Entry& entry, Leaving& leaving) {
  for (auto& [weights, one] : entry.loaded) {
    leaving.push_back(std::exchange(one.executable, nullptr));
    one.own_bytes = 0;
  }
}

// Drops executables over weights that no user has any more.
void GraphStore::DropUnwanted(Entry& entry, Leaving& leaving) {
  const std::vector<GraphRef> users = entry.Users();
  entry.uses.assign(users.begin(), users.end());
  for (auto one = entry.loaded.begin(); one != entry.loaded.end();) {
    const auto wants = [&](const GraphRef& use) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return use->content == one->first;
    };
    if (one->second.loading || std::any_of(users.begin(), users.end(), wants)) {
      ++one;
      continue;
    }
    leaving.push_back(std::move(one->second.executable));
    one = entry.loaded.erase(one);
  }
}

GraphStore::Leaving GraphStore::Forget() {
  Leaving leaving;
  std::vector<std::shared_ptr<Entry>> wanted;
  for (std::shared_ptr<Entry>& entry : entries_) {
    DropUnwanted(*entry, leaving);
    if (!entry->uses.empty() || entry->Busy()) {
      wanted.push_back(std::move(entry));
      continue;
    }
    Uncount(*entry);
    entry->forgotten = true;
    leaving.push_back(std::move(entry));
  }
  entries_ = std::move(wanted);
  return leaving;
}

void GraphStore::DropUnused() {
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  leaving = Forget();
}

int64_t GraphStore::HeldBytes() const {
  int64_t bytes = 0;
  for (const std::shared_ptr<Entry>& entry : entries_) {
    bytes += entry->executable_bytes() + entry->artifact_bytes();
  }
  return bytes;
}

GraphStore::Leaving GraphStore::Trim() {
  Leaving leaving;
  const auto may_leave = [this](const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return entry.HoldsMemory() && !entry.pinned && !entry.Busy() && !entry.InUse() &&
           entry.tick != ticks_;
  };
  while (HeldBytes() > static_cast<int64_t>(options_.memory_budget)) {
    Entry* oldest = nullptr;
    for (const std::shared_ptr<Entry>& entry : entries_) {
      if (!may_leave(*entry)) continue;
      if (oldest == nullptr || entry->tick < oldest->tick) oldest = entry.get();
    }
    if (oldest == nullptr) break;
    TakeOut(*oldest, leaving);
    registry_.GetCounter(metrics::kGraphCacheEvictions, {"memory_budget"}).Increment();
    Publish(*oldest);
  }
  return leaving;
}

}  // namespace latentd::compiler
