#include "core/pipeline/graphs/adapter_sets.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/adapters/lora/merge_loras.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/digest.h"

namespace latentd::pipeline {
namespace {

std::string KeyOf(absl::Span<const Adapter> adapters) {
  std::string key;
  for (const Adapter& adapter : adapters) {
    absl::StrAppend(&key, adapter.name, "\n", adapter.stamp, "\n", adapter.unet_factor(), " ",
                    adapter.text_factor(), "\n");
  }
  return key;
}

std::string KeyOf(const LoadedModel& model, absl::Span<const Adapter> adapters) {
  return absl::StrCat(model.row().name, "\n", KeyOf(adapters));
}

// "base+film:0.8".
std::string UserOf(const LoadedModel& model, absl::Span<const Adapter> adapters) {
  std::string user = model.row().name;
  for (const Adapter& adapter : adapters) {
    absl::StrAppend(&user, "+", adapter.name, ":", adapter.unet_factor());
    if (adapter.text_factor() != adapter.unet_factor()) {
      absl::StrAppend(&user, ":", adapter.text_factor());
    }
  }
  return user;
}

}  // namespace

uint64_t AdapterSets::IdOf(absl::Span<const Adapter> adapters) {
  return DigestOf(KeyOf(adapters)).low | 1;
}

bool AdapterSets::Set::Has(absl::string_view adapter) const {
  return absl::c_linear_search(adapters, adapter);
}

bool AdapterSets::HasPinned(const Set& set) const {
  return absl::c_any_of(set.adapters, [this](const std::string& name) {
    mutex_.AssertReaderHeld();
    return pinned_.contains(name);
  });
}

AdapterSets::Graphs AdapterSets::FindLocked(const std::string& key) {
  const auto found = absl::c_find_if(sets_, [&](const Set& set) { return set.key == key; });
  if (found == sets_.end()) return nullptr;
  sets_.splice(sets_.begin(), sets_, found);
  return sets_.front().graphs;
}

AdapterSets::Graphs AdapterSets::Find(const LoadedModel& model,
                                      absl::Span<const Adapter> adapters) {
  const std::string key = KeyOf(model, adapters);
  absl::MutexLock lock(&mutex_);
  return FindLocked(key);
}

absl::StatusOr<AdapterSets::Graphs> AdapterSets::FindOrMake(const LoadedModel& model,
                                                            absl::Span<const Adapter> adapters) {
  if (Graphs known = Find(model, adapters)) return known;
  ASSIGN_OR_RETURN(Set made, Make(model, adapters));
  std::list<Set> leaving;
  Graphs graphs;
  {
    absl::MutexLock lock(&mutex_);
    graphs = FindLocked(made.key);
    if (graphs == nullptr) {
      graphs = made.graphs;
      if (HasPinned(made)) store_.SetModelPinned(made.user, true);
      sets_.push_front(std::move(made));
      leaving = Trim();
    }
  }
  Drop(std::move(leaving));
  return graphs;
}

absl::StatusOr<AdapterSets::Set> AdapterSets::Make(const LoadedModel& model,
                                                   absl::Span<const Adapter> adapters) const {
  Set set{.user = UserOf(model, adapters), .key = KeyOf(model, adapters)};
  std::vector<adapters::WeightedLora> loras;
  for (const Adapter& adapter : adapters) {
    ASSIGN_OR_RETURN(std::shared_ptr<const adapters::Lora> lora,
                     catalogue_.Load(adapter.name, adapter.stamp, model.row().name));
    set.loras.push_back(lora);
    loras.push_back(
        {std::move(lora), adapter.unet_factor(), adapter.text_factor(), adapter.text_factor()});
    set.adapters.push_back(adapter.name);
  }
  // With paths too: of merged weights those are made that text encoders and prompts read.
  ASSIGN_OR_RETURN(std::shared_ptr<const weights::WeightSet> weights,
                   adapters::MergeLoras(model.graphs().shared_weights(), loras));
  const StepPaths& paths = model.graphs().step_paths();
  std::shared_ptr<const AdapterPaths> own;
  if (FitPaths(adapters, paths.ranks)) {
    ASSIGN_OR_RETURN(
        own, MakeAdapterPaths(std::move(loras), paths, set.user, model.graphs().weights().store()));
  }
  set.graphs = ModelGraphs::Over(model.graphs(), set.user, std::move(weights), std::move(own));
  return set;
}

std::list<AdapterSets::Set> AdapterSets::Trim() {
  std::list<Set> leaving;
  size_t idle = 0;
  for (auto set = sets_.begin(); set != sets_.end();) {
    const auto next = std::next(set);
    // The newest is its maker's.
    const bool is_idle = set != sets_.begin() && !set->in_use() && !HasPinned(*set);
    if (is_idle && ++idle > kMostSets) leaving.splice(leaving.end(), sets_, set);
    set = next;
  }
  return leaving;
}

void AdapterSets::Drop(std::list<Set> sets) {
  if (sets.empty()) return;
  for (const Set& set : sets) store_.SetModelPinned(set.user, false);
  sets.clear();
  store_.DropUnused();
}

AdapterSets::Use AdapterSets::UseOf(absl::string_view adapter) const {
  Use use;
  for (const Nets* nets : std::initializer_list<const Nets*>{&control_nets_, &ip_adapters_}) {
    const Nets::Use its = nets->UseOf(adapter);
    use.sets += its.nets;
    use.loaded = use.loaded || its.loaded;
    use.last_use = std::max(use.last_use, its.last_use);
  }
  absl::MutexLock lock(&mutex_);
  for (const Set& set : sets_) {
    if (!set.Has(adapter)) continue;
    ++use.sets;
    const ModelGraphs::Kept kept = set.graphs->kept();
    use.loaded = use.loaded || kept.loaded || set.graphs->adapter_paths() != nullptr;
    use.last_use = std::max(use.last_use, kept.last_use);
  }
  return use;
}

absl::Status AdapterSets::Evict(absl::string_view adapter) {
  std::list<Set> leaving;
  bool stays = !control_nets_.Evict(adapter);
  stays = !ip_adapters_.Evict(adapter) || stays;
  {
    absl::MutexLock lock(&mutex_);
    for (auto set = sets_.begin(); set != sets_.end();) {
      const auto next = std::next(set);
      const bool is_meant = set->Has(adapter);
      stays = stays || (is_meant && set->in_use());
      if (is_meant && !set->in_use()) leaving.splice(leaving.end(), sets_, set);
      set = next;
    }
  }
  Drop(std::move(leaving));
  if (!stays) return absl::OkStatus();
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        "the adapter ", adapter, " is in use: images are drawn with it")),
                    "IN_USE");
}

void AdapterSets::SetPinned(absl::string_view adapter, bool pinned) {
  control_nets_.SetPinned(adapter, pinned);
  ip_adapters_.SetPinned(adapter, pinned);
  absl::MutexLock lock(&mutex_);
  if (pinned) {
    pinned_.emplace(adapter);
  } else {
    pinned_.erase(std::string(adapter));
  }
  for (const Set& set : sets_) {
    if (set.Has(adapter)) store_.SetModelPinned(set.user, HasPinned(set));
  }
}

bool AdapterSets::IsPinned(absl::string_view adapter) const {
  absl::MutexLock lock(&mutex_);
  return pinned_.contains(adapter);
}

}  // namespace latentd::pipeline
