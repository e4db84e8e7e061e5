// GraphStore's verbs on entries by id: save, load, evict, pin.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/compiler/graph_entry.h"

namespace latentd::compiler {
namespace {

absl::Status Refuse(absl::string_view what, absl::string_view reason) {
  return WithReason(absl::FailedPreconditionError(what), reason);
}

}  // namespace

absl::StatusOr<GraphStore::Named> GraphStore::Resolve(absl::string_view id) const {
  {
    absl::MutexLock lock(&mutex_);
    for (const std::shared_ptr<Entry>& entry : entries_) {
      if (entry->id.ToString() == id) return Named{entry->key, entry, entry->pinned};
    }
  }
  if (const std::optional<cache::EntryInfo> info = disk_.FindInfo(id); info.has_value()) {
    return Named{GraphKey::OfEntry(info->key), nullptr, info->pinned};
  }
  return WithReason(absl::NotFoundError(absl::StrCat("no graph has the id \"", Excerpt(id), "\"")),
                    "NO_SUCH_GRAPH");
}

absl::Status GraphStore::Save(absl::string_view id) {
  ASSIGN_OR_RETURN(const Named named, Resolve(id));
  if (disk_.Contains(named.key)) return absl::OkStatus();
  Bytes artifact;
  if (named.entry != nullptr) {
    absl::MutexLock lock(&mutex_);
    artifact = named.entry->artifact;
  }
  if (artifact.bytes == nullptr)
    return Refuse(absl::StrCat("graph ", id, " is not compiled"), "NOT_COMPILED");
  RETURN_IF_ERROR(WriteToDisk(*named.entry, *artifact.bytes));
  absl::MutexLock lock(&mutex_);
  Publish(*named.entry);
  return absl::OkStatus();
}

absl::Status GraphStore::Load(absl::string_view id) {
  ASSIGN_OR_RETURN(const Named named, Resolve(id));
  if (named.entry == nullptr) {
    return Refuse(absl::StrCat("nothing that is served wants graph ", id), "NOT_SERVED");
  }
  std::vector<GraphRef> users;
  {
    absl::MutexLock lock(&mutex_);
    users = named.entry->Users();
  }
  const Purpose purpose{.allow = Allow::kLoad, .evict_unused_since = MarkWanted(users)};
  for (const GraphRef& use : users) {
    const absl::Status status = Get(use, purpose).status();
    if (GetReason(status) == "GRAPH_COLD") {
      return Refuse(absl::StrCat(status.message(), ": loading does not compile, warming does"),
                    "NOT_COMPILED");
    }
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status GraphStore::TakeOutOfMemory(Entry& entry, bool force) {
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  if (!force && entry.InUse()) {
    return Refuse(absl::StrCat(entry.label.ToText(), " is in use"), "IN_USE");
  }
  if (!entry.HoldsMemory()) return absl::OkStatus();
  TakeOut(entry, leaving);
  Publish(entry);
  registry_.GetCounter(metrics::kGraphCacheEvictions, {"request"}).Increment();
  return absl::OkStatus();
}

absl::Status GraphStore::RemoveFromDisk(const Named& named) {
  const bool was_there = disk_.Contains(named.key);
  RETURN_IF_ERROR(disk_.Remove(named.key));
  if (was_there) registry_.GetCounter(metrics::kGraphCacheEvictions, {"request"}).Increment();
  if (named.entry == nullptr) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  named.entry->on_disk = false;
  named.entry->distrusted = false;
  named.entry->pinned = false;  // the pin goes with the file
  Publish(*named.entry);
  return absl::OkStatus();
}

absl::Status GraphStore::Evict(absl::string_view id, Tier tier, bool force) {
  ASSIGN_OR_RETURN(const Named named, Resolve(id));
  if (!force && named.pinned) return Refuse(absl::StrCat("graph ", id, " is pinned"), "PINNED");
  if (tier != Tier::kDisk && named.entry != nullptr) {
    RETURN_IF_ERROR(TakeOutOfMemory(*named.entry, force));
  }
  return tier == Tier::kMemory ? absl::OkStatus() : RemoveFromDisk(named);
}

absl::Status GraphStore::SetPinned(absl::string_view id, bool pinned) {
  ASSIGN_OR_RETURN(const Named named, Resolve(id));
  if (named.entry != nullptr) {
    absl::MutexLock lock(&mutex_);
    named.entry->pinned = pinned;
  }
  return disk_.SetPinned(named.key, pinned);
}

}  // namespace latentd::compiler
