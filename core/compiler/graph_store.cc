#include "core/compiler/graph_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
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
      services_{clock, registry, std::move(options), ArtifactFiles(disk), WorkTime(clock)},
      instances_(services_) {
  registry.GetGauge(metrics::kGraphCacheBudget, {"memory"})
      .Set(static_cast<double>(services_.options.memory_budget));
}

GraphHandle GraphStore::Declare(const GraphSpec& spec) {
  backends::Backend& backend = spec.backend != nullptr ? *spec.backend : backend_;
  GraphKey key = KeyOf(*spec.graph, backend, services_.options.compile);
  const Digest id = key.ToDigest();
  return instances_.Declare(
      spec, {std::move(key), id, spec.label, spec.graph, graph::GraphBytes(*spec.graph), backend});
}

GraphHandle GraphStore::DeclareOver(const GraphHandle& of, std::string user,
                                    std::shared_ptr<const weights::WeightSet> weights) {
  const GraphDefinition& graph = of->definition();
  return instances_.Declare({.label = graph.label,
                             .user = std::move(user),
                             .graph = graph.graph,
                             .weights = std::move(weights),
                             .backend = &graph.backend},
                            graph);
}

absl::StatusOr<ExecutablePointer> GraphStore::Get(const GraphHandle& graph,
                                                  const Purpose& purpose) {
  return Noted(instances_.Get(*graph, purpose));
}

absl::Status GraphStore::Compile(const GraphHandle& graph, const Purpose& purpose) {
  return Noted(graph->graph->artifact->Get(purpose).status());
}

absl::StatusOr<backends::MemoryNeeds> GraphStore::Predict(const GraphHandle& graph) {
  return Noted(instances_.Predict(*graph));
}

absl::StatusOr<GraphStore::GraphEntry> GraphStore::Resolve(absl::string_view id) const {
  if (const std::optional<Digest> digest = Digest::FromString(id)) {
    if (const auto graph = instances_.Find(*digest)) return GraphEntry{graph->artifact, graph};
    for (const cache::EntryInfo& info : services_.files.List()) {
      if (info.digest == *digest) return Resolve(GraphKey::FromText(info.key));
    }
  }
  return WithReason(absl::NotFoundError(absl::StrCat("no graph has the id \"", Excerpt(id), "\"")),
                    "NO_SUCH_GRAPH");
}

GraphStore::GraphEntry GraphStore::Resolve(const GraphKey& key) const {
  const Digest id = key.ToDigest();
  if (const auto graph = instances_.Find(id)) return {graph->artifact, graph};
  GraphDefinition only_key{key, id, {}, nullptr, 0, backend_};
  return {std::make_shared<ArtifactSlot>(std::move(only_key), services_), nullptr};
}

const backends::Backend& GraphStore::BackendOf(const GraphKey& key) const {
  for (const GraphPointer& graph : instances_.graphs()) {
    const GraphDefinition& definition = graph->definition();
    if (definition.key.build.backend == key.build.backend) return definition.backend;
  }
  return backend_;
}

absl::Status GraphStore::CheckKey(const GraphKey& key) const {
  const BuildKey build = BuildKeyOf(BackendOf(key), services_.options.compile);
  const GraphKey wanted = {key.graph, build, std::nullopt};
  if (key == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("it was made for ", Difference(key, wanted)));
}

absl::Status GraphStore::Save(absl::string_view id) {
  ASSIGN_OR_RETURN(const GraphEntry named, Resolve(id));
  if (services_.files.Contains(named.key())) return absl::OkStatus();
  const ArtifactPointer artifact = named.artifact->InMemory();
  if (artifact != nullptr) return named.artifact->Write(*artifact);
  return Refuse(absl::StrCat("graph ", id, " is not compiled"), "NOT_COMPILED");
}

absl::Status GraphStore::Load(absl::string_view id, absl::Span<const std::string> users) {
  ASSIGN_OR_RETURN(const GraphEntry named, Resolve(id));
  std::vector<GraphHandle> wanted;
  if (named.graph != nullptr) wanted = instances_.UsersOf(*named.graph);
  std::erase_if(wanted, [&](const GraphHandle& graph) {
    return !users.empty() && std::find(users.begin(), users.end(), graph->user) == users.end();
  });
  if (wanted.empty()) {
    return Refuse(absl::StrCat("nothing that is served wants graph ", id), "NOT_SERVED");
  }
  const Purpose purpose{.mode = GetMode::kLoad, .evict_unused_since = MarkWanted(wanted)};
  for (const GraphHandle& user : wanted) {
    const absl::Status status = Get(user, purpose).status();
    if (GetReason(status) == "GRAPH_COLD") {
      return Refuse(absl::StrCat(status.message(), ": loading does not compile, warming does"),
                    "NOT_COMPILED");
    }
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status GraphStore::CheckFile(const GraphDefinition& graph) const {
  while (true) {
    ASSIGN_OR_RETURN(const StoredArtifact stored,
                     services_.files.Check(graph.key, graph.graph.get()));
    RETURN_IF_ERROR(CheckKey(graph.key));
    const Artifact& artifact = *stored.artifact;
    const absl::Status status = BackendOf(graph.key).CheckPlan(*artifact.graph, artifact.plan);
    if (!absl::IsDataLoss(status)) return status;
    const absl::Status aside = services_.files.SetAside(graph.key, stored.payload);
    if (aside.ok()) return status;
    if (!absl::IsAborted(aside)) return aside;
  }
}

absl::Status GraphStore::Verify(absl::string_view id) {
  ASSIGN_OR_RETURN(const GraphEntry named, Resolve(id));
  const absl::Status status = CheckFile(named.artifact->graph());
  const bool gone = absl::IsNotFound(status) || absl::IsDataLoss(status);
  if (!gone && !status.ok()) return status;  // it could not be checked
  named.artifact->NoteOnDisk(!gone);
  if (!absl::IsNotFound(status) || !services_.files.available()) return status;
  return WithReason(
      absl::NotFoundError(absl::StrCat("graph ", id, " is not on disk: saving puts it there")),
      "NOT_ON_DISK");
}

absl::Status GraphStore::Evict(absl::string_view id, Tier tier, bool force,
                               absl::Span<const std::string> users) {
  ASSIGN_OR_RETURN(const GraphEntry named, Resolve(id));
  if (!force && named.artifact->status().pinned) {
    return Refuse(absl::StrCat("graph ", id, " is pinned"), "PINNED");
  }
  if (tier != Tier::kDisk && named.graph != nullptr) {
    RETURN_IF_ERROR(instances_.Evict(*named.graph, force, users));
  }
  if (tier == Tier::kMemory) return absl::OkStatus();
  const bool was_there = services_.files.Contains(named.key());
  RETURN_IF_ERROR(named.artifact->Remove());
  if (was_there) {
    services_.registry.GetCounter(metrics::kGraphCacheEvictions, {"request"}).Increment();
  }
  return absl::OkStatus();
}

absl::Status GraphStore::SetPinned(absl::string_view id, bool pinned) {
  ASSIGN_OR_RETURN(const GraphEntry named, Resolve(id));
  return named.artifact->SetPinned(pinned);
}

absl::StatusOr<std::string> GraphStore::Export(absl::string_view id) {
  ASSIGN_OR_RETURN(const GraphEntry named, Resolve(id));
  if (const auto artifact = named.artifact->InMemory()) return WriteArtifact(*artifact);
  const absl::StatusOr<StoredArtifact> stored = services_.files.Check(named.key(), nullptr);
  if (stored.ok()) return WriteArtifact(*stored->artifact);
  if (!absl::IsNotFound(stored.status())) return stored.status();
  return Refuse(absl::StrCat("graph ", id, " is not compiled"), "NOT_COMPILED");
}

absl::Status GraphStore::Import(const ArtifactPointer& artifact) {
  const GraphKey& key = artifact->key;
  RETURN_IF_ERROR(CheckKey(key));
  const GraphEntry named = Resolve(key);
  if (named.graph != nullptr) {
    RETURN_IF_ERROR(CheckSamePorts(*named.artifact->graph().graph, *artifact->graph));
  }
  RETURN_IF_ERROR(BackendOf(key).CheckPlan(*artifact->graph, artifact->plan));
  if (named.graph == nullptr) return named.artifact->Write(*artifact);
  RETURN_IF_ERROR(named.artifact->TakeIn(artifact));
  instances_.NoteNewArtifact(*named.graph);
  return absl::OkStatus();
}

}  // namespace latentd::compiler
