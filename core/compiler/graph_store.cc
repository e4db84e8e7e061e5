#include "core/compiler/graph_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/graph/graph_bytes.h"

namespace latentd::compiler {
namespace {

absl::Status Refuse(absl::string_view what, absl::string_view reason) {
  return WithReason(absl::FailedPreconditionError(what), reason);
}

}  // namespace

GraphStore::GraphStore(backends::Backend& backend, const Clock& clock, metrics::Registry& registry,
                       cache::DiskCache* disk, Options options)
    : backend_(backend),
      registry_(registry),
      options_(std::move(options)),
      time_(clock),
      files_(disk),
      artifacts_(clock, registry, files_, time_, options_),
      instances_(artifacts_, clock, registry, time_, options_) {
  registry_.GetGauge(metrics::kGraphCacheBudget, {"memory"})
      .Set(static_cast<double>(options_.memory_budget));
}

std::vector<GraphHandle> GraphStore::Entry::Users() const {
  std::vector<GraphHandle> alive;
  for (const auto& user : users) {
    if (GraphHandle handle = user.lock()) alive.push_back(std::move(handle));
  }
  return alive;
}

const GraphStore::Entry* GraphStore::FindEntry(const Digest& id) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.graph->id == id; });
  return found == entries_.end() ? nullptr : &*found;
}

std::shared_ptr<const GraphDefinition> GraphStore::FindDefinition(const Digest& id) const {
  absl::MutexLock lock(&mutex_);
  const Entry* entry = FindEntry(id);
  return entry == nullptr ? nullptr : entry->graph;
}

GraphHandle GraphStore::Declare(const GraphSpec& spec) {
  backends::Backend& backend = spec.backend != nullptr ? *spec.backend : backend_;
  GraphKey key = compiler::KeyOf(*spec.graph, backend, options_.compile);
  const Digest id = key.ToDigest();
  // What nobody has a handle of any more goes first: it is new again then.
  DropUnused();
  // Without the lock: it asks the disk.
  const bool is_new = FindDefinition(id) == nullptr;
  const bool on_disk = is_new && files_.Contains(key);
  const bool pinned = is_new && files_.IsPinned(key);
  absl::MutexLock lock(&mutex_);
  auto* entry = const_cast<Entry*>(FindEntry(id));
  if (entry == nullptr) {
    artifacts_.Declare(id, on_disk, pinned);
    entry = &entries_.emplace_back(Entry{std::make_shared<const GraphDefinition>(GraphDefinition{
        std::move(key), id, spec.label, spec.graph, graph::GraphBytes(*spec.graph), backend})});
    instances_.Declare(*entry->graph);
  }
  for (GraphHandle& user : entry->Users()) {
    if (user->user() == spec.user && user->weights() == spec.weights) return std::move(user);
  }
  auto handle = std::make_shared<const DeclaredGraph>(entry->graph, spec);
  entry->users.push_back(handle);
  return handle;
}

GraphStore::Leaving GraphStore::Forget() {
  Leaving leaving;
  std::erase_if(entries_, [&](Entry& entry) {
    const Digest& id = entry.graph->id;
    const std::vector<GraphHandle> users = entry.Users();
    entry.users.assign(users.begin(), users.end());
    std::set<Digest> contents;
    for (const GraphHandle& user : users) {
      if (const auto content = user->known_content()) contents.insert(*content);
    }
    instances_.Retain(id, contents, leaving);
    if (!users.empty() || artifacts_.StatusOf(id).busy() || instances_.StatusOf(id).loading) {
      return false;
    }
    instances_.Forget(id);
    leaving.push_back(artifacts_.Forget(id));
    leaving.push_back(std::move(entry.graph));
    return true;
  });
  return leaving;
}

void GraphStore::DropUnused() {
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  leaving = Forget();
}

absl::StatusOr<GraphKey> GraphStore::KeyOf(absl::string_view id) const {
  if (const std::optional<Digest> digest = Digest::FromString(id)) {
    if (const auto graph = FindDefinition(*digest)) return graph->key;
    if (const auto info = files_.FindInfo(*digest)) return GraphKey::FromText(info->key);
  }
  return WithReason(absl::NotFoundError(absl::StrCat("no graph has the id \"", Excerpt(id), "\"")),
                    "NO_SUCH_GRAPH");
}

const backends::Backend& GraphStore::BackendOf(const GraphKey& key) const {
  absl::MutexLock lock(&mutex_);
  for (const Entry& entry : entries_) {
    if (entry.graph->key.build.backend == key.build.backend) return entry.graph->backend;
  }
  return backend_;
}

absl::Status GraphStore::CheckKey(const GraphKey& key) const {
  const GraphKey wanted = {key.graph, BuildKeyOf(BackendOf(key), options_.compile), std::nullopt};
  if (key == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("it was made for ", Difference(key, wanted)));
}

absl::Status GraphStore::Save(absl::string_view id) {
  ASSIGN_OR_RETURN(const GraphKey key, KeyOf(id));
  if (files_.Contains(key)) return absl::OkStatus();
  const ArtifactPointer artifact = artifacts_.FindInMemory(key.ToDigest());
  if (artifact == nullptr) {
    return Refuse(absl::StrCat("graph ", id, " is not compiled"), "NOT_COMPILED");
  }
  return artifacts_.Write(*artifact);
}

absl::Status GraphStore::Load(absl::string_view id) {
  ASSIGN_OR_RETURN(const GraphKey key, KeyOf(id));
  std::vector<GraphHandle> users;
  {
    absl::MutexLock lock(&mutex_);
    const Entry* entry = FindEntry(key.ToDigest());
    if (entry == nullptr) {
      return Refuse(absl::StrCat("nothing that is served wants graph ", id), "NOT_SERVED");
    }
    users = entry->Users();
  }
  const Purpose purpose{.mode = GetMode::kLoad, .evict_unused_since = MarkWanted(users)};
  for (const GraphHandle& user : users) {
    const absl::Status status = Get(user, purpose).status();
    if (GetReason(status) == "GRAPH_COLD") {
      return Refuse(absl::StrCat(status.message(), ": loading does not compile, warming does"),
                    "NOT_COMPILED");
    }
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status GraphStore::Verify(absl::string_view id) {
  ASSIGN_OR_RETURN(const GraphKey key, KeyOf(id));
  const Digest digest = key.ToDigest();
  const auto declared = FindDefinition(digest);
  const auto artifact = files_.Check(key, declared != nullptr ? declared->graph.get() : nullptr);
  absl::Status status = artifact.status();
  if (status.ok()) {
    RETURN_IF_ERROR(CheckKey(key));
    status = BackendOf(key).CheckPlan(*(*artifact)->graph, (*artifact)->plan);
    if (!status.ok() && !absl::IsDataLoss(status)) return status;  // it could not be checked
    if (!status.ok()) RETURN_IF_ERROR(files_.SetAside(key));
  }
  const bool known = status.ok() || absl::IsNotFound(status) || absl::IsDataLoss(status);
  if (known) artifacts_.NoteOnDisk(digest, status.ok());
  if (!absl::IsNotFound(status) || !files_.available()) return status;
  return WithReason(
      absl::NotFoundError(absl::StrCat("graph ", id, " is not on disk: saving puts it there")),
      "NOT_ON_DISK");
}

absl::Status GraphStore::Evict(absl::string_view id, Tier tier, bool force) {
  ASSIGN_OR_RETURN(const GraphKey key, KeyOf(id));
  const Digest digest = key.ToDigest();
  const auto declared = FindDefinition(digest);
  const bool pinned =
      declared != nullptr ? artifacts_.StatusOf(digest).pinned : files_.IsPinned(key);
  if (!force && pinned) return Refuse(absl::StrCat("graph ", id, " is pinned"), "PINNED");
  if (tier != Tier::kDisk) RETURN_IF_ERROR(instances_.Evict(digest, force));
  if (tier == Tier::kMemory) return absl::OkStatus();
  const bool was_there = files_.Contains(key);
  RETURN_IF_ERROR(files_.Remove(key));
  if (was_there) registry_.GetCounter(metrics::kGraphCacheEvictions, {"request"}).Increment();
  artifacts_.NoteRemoved(digest);
  return absl::OkStatus();
}

absl::Status GraphStore::SetPinned(absl::string_view id, bool pinned) {
  ASSIGN_OR_RETURN(const GraphKey key, KeyOf(id));
  RETURN_IF_ERROR(files_.SetPinned(key, pinned));
  artifacts_.SetPinned(key.ToDigest(), pinned);
  return absl::OkStatus();
}

absl::StatusOr<std::string> GraphStore::Export(absl::string_view id) {
  ASSIGN_OR_RETURN(const GraphKey key, KeyOf(id));
  if (const ArtifactPointer artifact = artifacts_.FindInMemory(key.ToDigest())) {
    return WriteArtifact(*artifact);
  }
  const absl::StatusOr<ArtifactPointer> artifact = files_.Check(key, nullptr);
  if (artifact.ok()) return WriteArtifact(**artifact);
  if (!absl::IsNotFound(artifact.status())) return artifact.status();
  return Refuse(absl::StrCat("graph ", id, " is not compiled"), "NOT_COMPILED");
}

absl::Status GraphStore::Import(const ArtifactPointer& artifact) {
  const GraphKey& key = artifact->key;
  RETURN_IF_ERROR(CheckKey(key));
  const auto declared = FindDefinition(key.ToDigest());
  if (declared != nullptr) {
    RETURN_IF_ERROR(CheckSamePorts(*declared->graph, *artifact->graph));
  }
  RETURN_IF_ERROR(BackendOf(key).CheckPlan(*artifact->graph, artifact->plan));
  if (files_.available() || declared == nullptr) RETURN_IF_ERROR(files_.Write(*artifact));
  artifacts_.TakeIn(artifact);
  instances_.NoteNewArtifact(key.ToDigest());
  return absl::OkStatus();
}

}  // namespace latentd::compiler
