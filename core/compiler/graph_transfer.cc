// GraphStore's look into artifacts without loading them: predicting, verifying, giving them away
// and taking them in.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"
#include "core/compiler/artifact.h"
#include "core/compiler/graph_entry.h"

namespace latentd::compiler {

absl::StatusOr<std::string> GraphStore::ReadArtifact(const Named& named) const {
  if (named.entry != nullptr) {
    absl::MutexLock lock(&mutex_);
    const Bytes artifact = named.entry->artifact;
    if (artifact.bytes != nullptr) return *artifact.bytes;
  }
  return disk_.Check(named.key);
}

absl::StatusOr<backends::MemoryNeeds> GraphStore::NeedsOf(const Use& use,
                                                          absl::string_view artifact) const {
  ASSIGN_OR_RETURN(const CompiledGraph compiled, Open(artifact, use.entry->key));
  RETURN_IF_ERROR(CheckSamePorts(*use.entry->graph, *compiled.graph));
  return use.entry->backend.Predict(*compiled.graph, compiled.plan, *use.weights);
}

absl::StatusOr<backends::MemoryNeeds> GraphStore::Predict(const GraphRef& graph,
                                                          std::optional<PlannedGraph>* planned) {
  Entry& entry = *graph->entry;
  ASSIGN_OR_RETURN(const Digest weights, ContentOf(*graph));
  {
    absl::MutexLock lock(&mutex_);
    if (const auto known = entry.needs.find(weights); known != entry.needs.end()) {
      return known->second;
    }
  }
  ASSIGN_OR_RETURN(backends::MemoryNeeds needs, PredictAnew(*graph, planned));
  absl::MutexLock lock(&mutex_);
  entry.KeepNeeds(weights, needs);
  return needs;
}

absl::StatusOr<PlannedGraph> GraphStore::PlanNow(const Entry& entry) const {
  const absl::Time begin = clock_.Monotonic();
  ASSIGN_OR_RETURN(CompiledGraph graph, Compile(*entry.graph, entry.backend, options_.compile));
  return PlannedGraph{std::move(graph), clock_.Monotonic() - begin};
}

absl::StatusOr<backends::MemoryNeeds> GraphStore::PredictAnew(
    const Use& use, std::optional<PlannedGraph>* planned) const {
  const Entry& entry = *use.entry;
  if (const auto artifact = ReadArtifact({entry.key, use.entry}); artifact.ok()) {
    absl::StatusOr<backends::MemoryNeeds> needs = NeedsOf(use, *artifact);
    if (needs.ok()) return needs;
  }
  ASSIGN_OR_RETURN(PlannedGraph anew, PlanNow(entry));
  auto needs = entry.backend.Predict(*anew.graph.graph, anew.graph.plan, *use.weights);
  if (planned != nullptr) *planned = std::move(anew);
  return needs;
}

absl::Status GraphStore::CheckKey(const GraphKey& key) const {
  const backends::Backend* backend = &backend_;
  {
    absl::MutexLock lock(&mutex_);
    for (const std::shared_ptr<Entry>& entry : entries_) {
      if (entry->backend.target().name == key.backend) backend = &entry->backend;
    }
  }
  GraphKey wanted = KeyOf(*backend, options_.compile);
  wanted.graph = key.graph;
  if (key == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("it was made for ", Difference(key.ToText(), wanted)));
}

absl::Status GraphStore::CheckContent(const std::string& artifact, const Named& named) const {
  std::vector<GraphRef> users;
  if (named.entry != nullptr) {
    absl::MutexLock lock(&mutex_);
    users = named.entry->Users();
  }
  if (users.empty()) return Open(artifact, named.key).status();
  const Use& use = *users.front();
  const absl::Status status = NeedsOf(use, artifact).status();
  // Weights that do not fit are no fault of the artifact.
  if (status.ok() || !use.weights->Check(*named.entry->graph).ok()) return absl::OkStatus();
  return status;
}

absl::Status GraphStore::Verify(absl::string_view id) {
  ASSIGN_OR_RETURN(const Named named, Resolve(id));
  const absl::StatusOr<std::string> artifact = disk_.Check(named.key);
  absl::Status status = artifact.status();
  if (status.ok()) {
    RETURN_IF_ERROR(CheckKey(named.key));
    status = CheckContent(*artifact, named);
    if (!status.ok() && !absl::IsDataLoss(status)) return status;  // it could not be checked
    if (!status.ok()) RETURN_IF_ERROR(disk_.SetAside(named.key));
  }
  if (named.entry != nullptr) {
    absl::MutexLock lock(&mutex_);
    named.entry->on_disk = status.ok();
    Publish(*named.entry);
  }
  if (!absl::IsNotFound(status) || !disk_.available()) return status;
  return WithReason(
      absl::NotFoundError(absl::StrCat("graph ", id, " is not on disk: saving puts it there")),
      "NOT_ON_DISK");
}

absl::StatusOr<std::string> GraphStore::Export(absl::string_view id) {
  ASSIGN_OR_RETURN(const Named named, Resolve(id));
  absl::StatusOr<std::string> artifact = ReadArtifact(named);
  if (!absl::IsNotFound(artifact.status())) return artifact;
  return WithReason(absl::FailedPreconditionError(absl::StrCat("graph ", id, " is not compiled")),
                    "NOT_COMPILED");
}

absl::StatusOr<std::string> GraphStore::Import(std::string artifact) {
  ASSIGN_OR_RETURN(const Artifact parsed, ParseArtifact(artifact));
  const std::optional<GraphKey> key = GraphKey::FromText(parsed.key);
  if (!key.has_value())
    return absl::FailedPreconditionError("it was made for a key of another form");
  RETURN_IF_ERROR(CheckKey(*key));
  Named named{*key};
  {
    absl::MutexLock lock(&mutex_);
    named.entry = FindEntry(key->ToDigest());
  }
  RETURN_IF_ERROR(CheckContent(artifact, named));
  if (disk_.available() || named.entry == nullptr) RETURN_IF_ERROR(disk_.Write(*key, artifact));
  if (named.entry != nullptr) TakeIn(*named.entry, std::move(artifact));
  return key->ToDigest().ToString();
}

void GraphStore::TakeIn(Entry& entry, std::string artifact) {
  Leaving leaving;
  absl::MutexLock lock(&mutex_);
  entry.on_disk = disk_.available();
  entry.ForgetNeeds();
  entry.distrusted = false;
  entry.failure = absl::OkStatus();
  entry.miss.clear();
  if (!entry.on_disk && entry.artifact.bytes == nullptr) {
    entry.artifact.bytes = std::make_shared<const std::string>(std::move(artifact));
    Touch(entry);
    leaving = Trim();
  }
  Publish(entry);
}

}  // namespace latentd::compiler
