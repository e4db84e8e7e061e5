#include "core/engine/local_graph_admin.h"

#include <malloc.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/compiler/artifact.h"
#include "core/engine/graph_selection.h"
#include "core/engine/serving.h"

namespace latentd::engine {
namespace {

using compiler::GraphStatus;
using compiler::GraphStore;
using RowCounts = BucketGraphs::RowCounts;

bool IsLoaded(const GraphStatus& info) {
  return info.state == GraphState::kReady || info.state == GraphState::kLoading;
}

bool IsOnDisk(const GraphStatus& info) { return info.disk_bytes > 0; }

// Returns the test for a bucket's graph being wanted in the tier.
bool (*IsKept(CacheTier tier))(const GraphStatus&) {
  switch (tier) {
    case CacheTier::kMemory:
      return IsLoaded;
    case CacheTier::kDisk:
      return IsOnDisk;
    case CacheTier::kBoth:
      break;
  }
  return [](const GraphStatus& info) { return IsLoaded(info) || IsOnDisk(info); };
}

void AddOnce(const GraphHandles& more, GraphHandles& graphs) {
  for (const compiler::GraphHandle& graph : more) {
    if (std::find(graphs.begin(), graphs.end(), graph) == graphs.end()) graphs.push_back(graph);
  }
}

}  // namespace

absl::Status LocalGraphAdmin::CheckOpen() const {
  return is_open() ? absl::OkStatus() : LoadingError();
}

absl::Status LocalGraphAdmin::CheckNotStopping() const {
  return parts_.stop ? DrainingError() : absl::OkStatus();
}

absl::StatusOr<std::vector<GraphStatus>> LocalGraphAdmin::Selected(
    const GraphSelector& selector) const {
  RETURN_IF_ERROR(CheckOpen());
  return Select(selector, buckets().Known(), buckets().Needs());
}

absl::StatusOr<std::vector<GraphStatus>> LocalGraphAdmin::SelectedToRelease(
    const GraphSelector& selector, bool (*kept)(const GraphStatus&)) const {
  RETURN_IF_ERROR(CheckOpen());
  return SelectToRelease(selector, buckets().Known(), buckets().Needs(), kept);
}

absl::StatusOr<std::vector<GraphEntry>> LocalGraphAdmin::List(const GraphSelector& selector) const {
  ASSIGN_OR_RETURN(const std::vector<GraphStatus> infos, Selected(selector));
  std::vector<GraphEntry> entries;
  entries.reserve(infos.size());
  for (const GraphStatus& info : infos) entries.push_back(EntryOf(info));
  return entries;
}

absl::StatusOr<GraphEntry> LocalGraphAdmin::Find(const std::string& id) const {
  ASSIGN_OR_RETURN(const std::vector<GraphStatus> infos, Selected({.ids = {id}}));
  return EntryOf(infos.front());
}

absl::StatusOr<WarmOutcome> LocalGraphAdmin::Warm(
    const GraphSelector& selector, bool dry_run,
    const std::function<bool(const WarmProgress&)>& progress) {
  absl::StatusOr<WarmOutcome> outcome = WarmSelected(selector, dry_run, progress);
  // Drops graphs of buckets that were only asked about, did not fit or were given up.
  parts_.stores.graphs.DropUnused();
  return outcome;
}

absl::StatusOr<WarmOutcome> LocalGraphAdmin::WarmSelected(
    const GraphSelector& selector, bool dry_run,
    const std::function<bool(const WarmProgress&)>& progress) {
  RETURN_IF_ERROR(CheckOpen());
  ASSIGN_OR_RETURN(const WarmPlan plan, PlanWarm(selector));
  if (dry_run) {
    ASSIGN_OR_RETURN(const MemoryPrediction predicted, Predict(plan));
    return WarmOutcome{.predicted = predicted};
  }
  Preparer::Ended ended = parts_.preparer.Prepare(
      {.purpose = {.mode = compiler::GetMode::kRetry,
                   .reason = compiler::Reason::kWarm,
                   .evict_unused_since = parts_.stores.graphs.MarkWanted(plan.graphs)},
       .graphs = plan.graphs,
       .progress = progress});
  if (ended.status.ok()) RecordOutcomes(plan, ended.failures);
  parts_.stores.writes.Flush();
  parts_.changed();
  if (!ended.status.ok()) RETURN_IF_ERROR(CheckNotStopping());  // the reason why it was stopped
  RETURN_IF_ERROR(ended.status);
  // A failed graph cannot be predicted either, and has been reported.
  if (const auto predicted = Predict(plan); predicted.ok()) ended.counts.predicted = *predicted;
  return ended.counts;
}

absl::StatusOr<LocalGraphAdmin::WarmPlan> LocalGraphAdmin::PlanWarm(
    const GraphSelector& selector) const {
  WarmPlan plan{.buckets = selector.buckets};
  if (selector.all || selector.only_models()) {
    for (const batching::Bucket& bucket : buckets().buckets().listed()) {
      plan.buckets.push_back({bucket.width, bucket.height});
    }
  }
  RETURN_IF_ERROR(CheckSizes(selector.buckets));
  RETURN_IF_ERROR(buckets().CheckRoomFor(plan.buckets));
  for (pipeline::Size bucket : plan.buckets) {
    ASSIGN_OR_RETURN(const GraphHandles graphs, buckets().GraphsOf(bucket, RowCounts::kAll));
    AddOnce(graphs, plan.graphs);
  }
  RETURN_IF_ERROR(AddNamed(selector, plan.named));
  AddOnce(plan.named, plan.graphs);
  if (selector.models.empty()) return plan;
  // A bucket without some of its graphs is no bucket.
  std::erase_if(plan.graphs, [&](const compiler::GraphHandle& graph) {
    return !absl::c_linear_search(selector.models, graph->user);
  });
  return WarmPlan{.graphs = plan.graphs, .named = plan.graphs};
}

absl::Status LocalGraphAdmin::CheckSizes(const std::vector<pipeline::Size>& sizes) const {
  std::vector<FieldViolation> violations;
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (FieldViolation& found : GetFieldViolations(buckets().CheckSize(sizes[i]))) {
      found.field = absl::StrCat("selector.buckets[", i, "].", found.field);
      violations.push_back(std::move(found));
    }
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

// Adds graphs named by ids and components, among those of the buckets that are served.
absl::Status LocalGraphAdmin::AddNamed(const GraphSelector& selector, GraphHandles& graphs) const {
  if (selector.ids.empty() && selector.components.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<GraphStatus> infos,
                   Selected({.ids = selector.ids, .components = selector.components}));
  GraphHandles served;
  for (const batching::Bucket& bucket : buckets().buckets().listed()) {
    const auto all = buckets().GraphsOf({bucket.width, bucket.height}, RowCounts::kAll);
    if (all.ok()) AddOnce(*all, served);
  }
  std::set<std::string> missing;
  for (const GraphStatus& info : infos) missing.insert(info.id);
  for (const compiler::GraphHandle& graph : served) {
    const std::string id = GraphStore::IdOf(graph);
    const bool named = std::any_of(infos.begin(), infos.end(),
                                   [&](const GraphStatus& info) { return info.id == id; });
    if (named) AddOnce({graph}, graphs);
    missing.erase(id);
  }
  if (missing.empty() || selector.ids.empty()) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "no bucket that is served needs ",
          ListSome(std::vector<std::string>(missing.begin(), missing.end()), kMostNamed, "; "))),
      "NOT_SERVED");
}

absl::StatusOr<MemoryPrediction> LocalGraphAdmin::Predict(const WarmPlan& plan) {
  return buckets().Predict(plan.named, plan.buckets,
                           [&](const std::function<absl::Status()>& part) -> absl::Status {
                             RETURN_IF_ERROR(CheckNotStopping());
                             return parts_.preparer.Run(part);
                           });
}

void LocalGraphAdmin::RecordOutcomes(const WarmPlan& plan,
                                     const std::map<std::string, absl::Status>& failures) {
  for (pipeline::Size bucket : plan.buckets) {
    absl::Status outcome = buckets().OutcomeOf(bucket, failures);
    if (outcome.ok()) outcome = buckets().Add(bucket);
    buckets().SetOutcome(bucket, outcome);
  }
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::ForEach(const GraphSelector& selector,
                                                                  const Change& change) const {
  ASSIGN_OR_RETURN(const std::vector<GraphStatus> infos, Selected(selector));
  return ForEach(infos, change);
}

std::vector<EntryResult> LocalGraphAdmin::ForEach(const std::vector<GraphStatus>& infos,
                                                  const Change& change) const {
  parts_.stores.writes.Flush();  // lest something is written after it was evicted
  std::vector<EntryResult> results;
  results.reserve(infos.size());
  for (const GraphStatus& info : infos) results.push_back(ResultOf(info, change(info.id)));
  parts_.changed();
  return results;
}

// Dispensable graphs are made when there is time and room: a selector that names none of them
// copies without those that are missing.
absl::StatusOr<std::vector<GraphStatus>> LocalGraphAdmin::SelectedToCopy(
    const GraphSelector& selector) const {
  ASSIGN_OR_RETURN(std::vector<GraphStatus> infos, Selected(selector));
  if (!selector.ids.empty()) return infos;
  std::erase_if(infos, [](const GraphStatus& info) {
    return IsDispensable(info.label.component, info.label.rows) && !IsCompiled(info.state);
  });
  return infos;
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::Save(const GraphSelector& selector) {
  ASSIGN_OR_RETURN(const std::vector<GraphStatus> infos, SelectedToCopy(selector));
  std::vector<std::string> names;
  for (const GraphStatus& info : infos) {
    if (!IsCompiled(info.state)) names.push_back(info.label.ToText());
  }
  if (!names.empty()) {
    return WithReason(absl::FailedPreconditionError(
                          absl::StrCat("not compiled: ", ListSome(names, kMostNamed, "; "))),
                      "NOT_COMPILED");
  }
  return ForEach(infos, [&](const std::string& id) { return parts_.stores.graphs.Save(id); });
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::Load(const GraphSelector& selector) {
  return ForEach(selector, [&](const std::string& id) {
    return parts_.preparer.Run([&] { return parts_.stores.graphs.Load(id); });
  });
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::Verify(const GraphSelector& selector) {
  return ForEach(selector, [&](const std::string& id) { return parts_.stores.graphs.Verify(id); });
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::Evict(const GraphSelector& selector,
                                                                CacheTier tier, bool force) {
  ASSIGN_OR_RETURN(const std::vector<GraphStatus> infos, SelectedToRelease(selector, IsKept(tier)));
  std::vector<EntryResult> results = ForEach(
      infos, [&](const std::string& id) { return parts_.stores.graphs.Evict(id, tier, force); });
  buckets().ForgetCold();
  parts_.changed();
  malloc_trim(0);  // returns freed memory to the system, for other processes
  return results;
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::SetPinned(const GraphSelector& selector,
                                                                    bool pinned) {
  const auto is_pinned = [](const GraphStatus& info) { return info.pinned; };
  ASSIGN_OR_RETURN(const std::vector<GraphStatus> infos,
                   pinned ? Selected(selector) : SelectedToRelease(selector, is_pinned));
  return ForEach(infos,
                 [&](const std::string& id) { return parts_.stores.graphs.SetPinned(id, pinned); });
}

absl::Status LocalGraphAdmin::Export(const GraphSelector& selector,
                                     const std::function<bool(std::string artifact)>& take) {
  ASSIGN_OR_RETURN(const std::vector<GraphStatus> infos, SelectedToCopy(selector));
  for (const GraphStatus& info : infos) {
    ASSIGN_OR_RETURN(std::string artifact, parts_.stores.graphs.Export(info.id));
    if (!take(std::move(artifact))) return absl::CancelledError("stopped while exporting");
  }
  return absl::OkStatus();
}

absl::StatusOr<EntryResult> LocalGraphAdmin::Import(std::string file) {
  RETURN_IF_ERROR(CheckOpen());
  const absl::StatusOr<compiler::ArtifactPointer> parsed = compiler::ParseArtifact(file);
  if (absl::IsFailedPrecondition(parsed.status())) return EntryResult{.status = parsed.status()};
  RETURN_IF_ERROR(parsed.status());
  const GraphStatus info = {
      .id = (*parsed)->key.ToDigest().ToString(), .label = (*parsed)->label, .key = (*parsed)->key};
  EntryResult result = ResultOf(info, parts_.stores.graphs.Import(*parsed));
  parts_.changed();
  if (absl::IsFailedPrecondition(result.status)) return result;
  RETURN_IF_ERROR(result.status);
  result.unused = WhyUnused(info, parts_.stores.graphs.Declared(), buckets().Needs());
  return result;
}

}  // namespace latentd::engine
