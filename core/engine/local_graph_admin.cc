#include "core/engine/local_graph_admin.h"

#include <malloc.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/compiler/artifact.h"
#include "core/engine/api/serving.h"
#include "core/engine/reports/device_reports.h"

namespace latentd::engine {
namespace {

using compiler::GraphStatus;
using compiler::GraphStore;
using Device = LocalGraphAdmin::Device;
using RowCounts = BucketGraphs::RowCounts;
using WarmPlan = LocalGraphAdmin::WarmPlan;

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

absl::Status CheckNotStopping(const Device& device) {
  return device.stop ? DrainingError() : absl::OkStatus();
}

absl::Status CheckSizes(const BucketGraphs& buckets, const std::vector<pipeline::Size>& sizes) {
  std::vector<FieldViolation> violations;
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (FieldViolation& found : GetFieldViolations(buckets.CheckSize(sizes[i]))) {
      found.field = absl::StrCat("selector.buckets[", i, "].", found.field);
      violations.push_back(std::move(found));
    }
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

// A bucket has frames where its model draws videos, and only there.
absl::Status CheckFrames(const pipeline::ModelTable& table, const std::vector<ModelBucket>& asked) {
  for (const ModelBucket& bucket : asked) {
    const pipeline::ModelRow& model = table[bucket.model];
    if (model.draws_videos == (bucket.size.frames > 1)) continue;
    if (absl::c_linear_search(model.buckets, bucket.size)) continue;  // a video of one frame
    return InvalidFields(
        {{"selector.buckets",
          absl::StrCat(pipeline::SizeText(bucket.size), ": ", model.name,
                       model.draws_videos ? " draws videos: say how many frames (num_frames)"
                                          : " draws pictures, which have no frames")}});
  }
  return absl::OkStatus();
}

// True if the names have the leader and all that it hands over to.
bool AreAllNamed(const pipeline::Pipeline& pipeline, pipeline::ModelId leader,
                 const std::vector<std::string>& names) {
  return absl::c_all_of(pipeline.Models(), [&](const pipeline::LoadedModel* model) {
    return pipeline.LeaderOf(model->row().id).id != leader ||
           absl::c_linear_search(names, model->row().name);
  });
}

// Counts graphs of the model's own, of the buckets of its leader.
ModelStatus StatusOf(const Device& device, const pipeline::ModelRow& model) {
  ModelStatus status{.name = model.name,
                     .checkpoint = model.checkpoint,
                     .family = model.family,
                     .residency = model.residency,
                     .pinned = device.stores.graphs.IsModelPinned(model.name)};
  GraphHandles counted;
  for (const ModelBucket& bucket : device.buckets().buckets()) {
    if (bucket.model != model.leader) continue;
    const auto graphs = device.buckets().GraphsOf(bucket, RowCounts::kOfPicture);
    if (!graphs.ok()) continue;
    bool all_ready = true;
    for (const compiler::GraphHandle& graph : *graphs) {
      if (graph->user != model.name) continue;
      const GraphStatus info = device.stores.graphs.StatusOf(graph);
      all_ready = all_ready && info.state == GraphState::kReady;
      if (absl::c_linear_search(counted, graph)) continue;
      counted.push_back(graph);
      status.graphs_ready += info.state == GraphState::kReady ? 1 : 0;
      status.last_use = std::max(status.last_use, info.last_use);
    }
    status.loaded = status.loaded || all_ready;
  }
  status.graphs_total = static_cast<int>(counted.size());
  return status;
}

void RecordOutcomes(const WarmPlan& plan, const Preparer::Failures& failures,
                    BucketGraphs& buckets) {
  for (const ModelBucket& bucket : plan.buckets) {
    absl::Status outcome = buckets.OutcomeOf(bucket, failures);
    if (outcome.ok()) outcome = buckets.Add(bucket);
    buckets.SetOutcome(bucket, outcome);
  }
}

absl::StatusOr<MemoryPrediction> Predict(const Device& device, const WarmPlan& plan) {
  return device.buckets().Predict(plan.named, plan.buckets,
                                  [&](const std::function<absl::Status()>& part) -> absl::Status {
                                    RETURN_IF_ERROR(CheckNotStopping(device));
                                    return device.preparer.Run(part);
                                  });
}

void AddOutcome(const WarmOutcome& one, WarmOutcome& all) {
  all.compiled += one.compiled;
  all.loaded += one.loaded;
  all.ready_before += one.ready_before;
  all.failed += one.failed;
  all.predicted = Sum(all.predicted, one.predicted);
}

absl::StatusOr<EntryResult> ImportTo(const Device& device, const GraphStatus& info,
                                     const compiler::ArtifactPointer& artifact) {
  EntryResult result = ResultOf(info, device.stores.graphs.Import(artifact));
  device.changed();
  if (absl::IsFailedPrecondition(result.status)) return result;
  RETURN_IF_ERROR(result.status);
  result.unused = WhyUnused(info, device.stores.graphs.Declared(), device.buckets().Needs());
  return result;
}

}  // namespace

std::vector<size_t> LocalGraphAdmin::Left() const {
  std::vector<size_t> left;
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (!devices_[i].retired) left.push_back(i);
  }
  return left;
}

absl::Status LocalGraphAdmin::CheckOpen() const {
  const bool open = absl::c_all_of(Left(), [this](size_t i) { return devices_[i].open.load(); });
  return open ? absl::OkStatus() : LoadingError();
}

absl::StatusOr<LocalGraphAdmin::Graphs> LocalGraphAdmin::Selected(
    const GraphSelector& selector, bool (*kept)(const GraphStatus&)) const {
  RETURN_IF_ERROR(CheckOpen());
  Graphs graphs(devices_.size());
  std::vector<GraphStatus> all;
  std::vector<BucketNeeds> needs;
  for (const size_t i : Left()) {
    graphs[i] = devices_[i].buckets().Known();
    absl::c_copy(graphs[i], std::back_inserter(all));
    absl::c_move(devices_[i].buckets().Needs(), std::back_inserter(needs));
  }
  ASSIGN_OR_RETURN(const std::vector<GraphStatus> selected,
                   kept != nullptr ? SelectToRelease(selector, all, needs, kept)
                                   : Select(selector, std::move(all), needs));
  std::set<std::string> ids;
  for (const GraphStatus& info : selected) ids.insert(info.id);
  for (std::vector<GraphStatus>& of_device : graphs) {
    std::erase_if(of_device, [&](const GraphStatus& info) { return !ids.contains(info.id); });
  }
  return graphs;
}

absl::StatusOr<std::vector<GraphEntry>> LocalGraphAdmin::List(const GraphSelector& selector) const {
  ASSIGN_OR_RETURN(const Graphs graphs, Selected(selector));
  std::vector<std::vector<GraphEntry>> entries(devices_.size());
  for (size_t i = 0; i < devices_.size(); ++i) {
    absl::c_transform(graphs[i], std::back_inserter(entries[i]), EntryOf);
  }
  return MergeEntries(names_, entries);
}

absl::StatusOr<GraphEntry> LocalGraphAdmin::Find(const std::string& id) const {
  ASSIGN_OR_RETURN(std::vector<GraphEntry> entries, List({.ids = {id}}));
  return std::move(entries.front());
}

absl::StatusOr<WarmOutcome> LocalGraphAdmin::Warm(
    const GraphSelector& selector, bool dry_run,
    const std::function<bool(const WarmProgress&)>& progress) {
  RETURN_IF_ERROR(CheckOpen());
  WarmOutcome all;
  int before = 0;  // graphs, on devices that are through
  const std::vector<size_t> left = Left();
  for (auto next = left.begin(); next != left.end(); ++next) {
    const size_t i = *next;
    int here = 0;
    const auto tell = [&](const WarmProgress& of_device) {
      WarmProgress told = of_device;
      here = of_device.total;
      told.done += before;
      told.total = before + here * static_cast<int>(left.end() - next);  // as if all had as many
      told.entry.status = OfDevice(names_[i], told.entry.status);
      return progress(told);
    };
    const absl::StatusOr<WarmOutcome> outcome = WarmOn(i, selector, dry_run, tell);
    // Drops graphs of buckets that were only asked about, did not fit or were given up.
    devices_[i].stores.graphs.DropUnused();
    if (!outcome.ok()) return OfDevice(names_[i], outcome.status());
    before += here;
    AddOutcome(*outcome, all);
  }
  return all;
}

absl::StatusOr<WarmOutcome> LocalGraphAdmin::WarmOn(
    size_t place, const GraphSelector& selector, bool dry_run,
    const std::function<bool(const WarmProgress&)>& progress) {
  const Device& device = devices_[place];
  ASSIGN_OR_RETURN(const WarmPlan plan, PlanWarm(place, selector));
  if (dry_run) {
    ASSIGN_OR_RETURN(const MemoryPrediction predicted, Predict(device, plan));
    return WarmOutcome{.predicted = predicted};
  }
  Preparer::Ended ended = device.preparer.Prepare(
      {.purpose = {.mode = compiler::GetMode::kRetry,
                   .reason = compiler::Reason::kWarm,
                   .evict_unused_since = device.stores.graphs.MarkWanted(plan.graphs)},
       .graphs = plan.graphs,
       .progress = progress});
  if (ended.status.ok()) RecordOutcomes(plan, ended.failures, device.buckets());
  device.stores.writes.Flush();
  device.changed();
  if (!ended.status.ok()) RETURN_IF_ERROR(CheckNotStopping(device));  // why it was stopped
  RETURN_IF_ERROR(ended.status);
  // A failed graph cannot be predicted either, and has been reported.
  if (const auto predicted = Predict(device, plan); predicted.ok()) {
    ended.counts.predicted = *predicted;
  }
  return ended.counts;
}

bool LocalGraphAdmin::IsElsewhere(size_t device, pipeline::ModelId model) const {
  const auto has = [&](size_t i) { return devices_[i].models.pipeline->table()[model].is_placed; };
  return !has(device) && absl::c_any_of(Left(), has);
}

std::vector<std::string> LocalGraphAdmin::UsersToLoad(size_t device,
                                                      const GraphSelector& selector) const {
  std::vector<std::string> users;
  for (const pipeline::ModelRow& row : devices_[device].models.pipeline->table().rows()) {
    const bool is_wanted = selector.models.empty()
                               ? !selector.ids.empty() || !row.is_on_demand()
                               : absl::c_linear_search(selector.models, row.name);
    if (is_wanted && !IsElsewhere(device, row.id)) users.push_back(row.name);
  }
  return users;
}

std::vector<ModelBucket> LocalGraphAdmin::BucketsToWarm(size_t device,
                                                        const GraphSelector& selector) const {
  const BucketGraphs& buckets = devices_[device].buckets();
  const pipeline::ModelTable& table = devices_[device].models.pipeline->table();
  std::set<int> leaders;
  for (const std::string& name : selector.models) {
    if (const pipeline::ModelRow* model = table.Find(name)) leaders.insert(model->leader.value);
  }
  std::vector<ModelBucket> all;
  if (selector.all || selector.only_models()) {
    all = buckets.buckets();
    std::erase_if(all, [&](const ModelBucket& bucket) {
      return !leaders.empty() && !leaders.contains(bucket.model.value);
    });
  }
  if (leaders.empty()) leaders.insert(table.first().id.value);
  for (const pipeline::Size size : selector.buckets) {
    for (const int leader : leaders) all.push_back({{leader}, size});
  }
  std::erase_if(all, [&](const ModelBucket& bucket) { return IsElsewhere(device, bucket.model); });
  return all;
}

absl::StatusOr<WarmPlan> LocalGraphAdmin::PlanWarm(size_t device,
                                                   const GraphSelector& selector) const {
  const BucketGraphs& buckets = devices_[device].buckets();
  WarmPlan plan{.buckets = BucketsToWarm(device, selector)};
  RETURN_IF_ERROR(CheckSizes(buckets, selector.buckets));
  RETURN_IF_ERROR(CheckFrames(devices_[device].models.pipeline->table(), plan.buckets));
  RETURN_IF_ERROR(buckets.CheckRoomFor(plan.buckets));
  for (const ModelBucket& bucket : plan.buckets) {
    ASSIGN_OR_RETURN(const GraphHandles graphs, buckets.GraphsOf(bucket, RowCounts::kAll));
    AddOnce(graphs, plan.graphs);
  }
  RETURN_IF_ERROR(AddNamed(device, selector, plan.named));
  AddOnce(plan.named, plan.graphs);
  if (selector.models.empty()) return plan;
  const auto is_whole = [&](const ModelBucket& bucket) {
    return AreAllNamed(*devices_[device].models.pipeline, bucket.model, selector.models);
  };
  if (absl::c_all_of(plan.buckets, is_whole)) return plan;
  // A bucket without some of its graphs is no bucket.
  std::erase_if(plan.graphs, [&](const compiler::GraphHandle& graph) {
    return !absl::c_linear_search(selector.models, graph->user);
  });
  return WarmPlan{.graphs = plan.graphs, .named = plan.graphs};
}

// Adds graphs named by ids and components, among those of the buckets that are served.
absl::Status LocalGraphAdmin::AddNamed(size_t device, const GraphSelector& selector,
                                       GraphHandles& graphs) const {
  if (selector.ids.empty() && selector.components.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Graphs selected,
                   Selected({.ids = selector.ids, .components = selector.components}));
  const std::vector<GraphStatus>& infos = selected[device];
  const BucketGraphs& buckets = devices_[device].buckets();
  GraphHandles served;
  for (const ModelBucket& bucket : buckets.buckets()) {
    const auto all = buckets.GraphsOf(bucket, RowCounts::kAll);
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

std::vector<EntryResult> LocalGraphAdmin::ForEach(const Graphs& graphs, Change change) const {
  std::vector<std::vector<EntryResult>> results(devices_.size());
  for (const size_t i : Left()) {
    const Device& device = devices_[i];
    device.stores.writes.Flush();  // lest something is written after it was evicted
    for (const GraphStatus& info : graphs[i]) {
      results[i].push_back(ResultOf(info, change(device, info.id)));
    }
    device.changed();
  }
  return MergeResults(names_, results);
}

// Dispensable graphs are made when there is time and room: a selector that names none of them
// copies without those that are missing.
absl::StatusOr<LocalGraphAdmin::Graphs> LocalGraphAdmin::SelectedToCopy(
    const GraphSelector& selector) const {
  ASSIGN_OR_RETURN(Graphs graphs, Selected(selector));
  std::map<std::string, size_t> sources;  // by id: the first device that has it compiled
  for (size_t i = 0; i < graphs.size(); ++i) {
    for (const GraphStatus& info : graphs[i]) {
      if (IsCompiled(info.state)) sources.emplace(info.id, i);
    }
  }
  std::set<std::string> missing;
  for (size_t i = 0; i < graphs.size(); ++i) {
    std::erase_if(graphs[i], [&](const GraphStatus& info) {
      const auto source = sources.find(info.id);
      if (source != sources.end()) return source->second != i;
      const compiler::GraphLabel& label = info.label;
      const bool dispensable = IsDispensable(label.component, label.part, label.rows);
      return (selector.ids.empty() && dispensable) || !missing.insert(info.id).second;
    });
  }
  return graphs;
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::Save(const GraphSelector& selector) {
  ASSIGN_OR_RETURN(const Graphs graphs, SelectedToCopy(selector));
  std::vector<std::string> names;
  for (const std::vector<GraphStatus>& of_device : graphs) {
    for (const GraphStatus& info : of_device) {
      if (!IsCompiled(info.state)) names.push_back(info.label.ToText());
    }
  }
  if (!names.empty()) {
    return WithReason(absl::FailedPreconditionError(
                          absl::StrCat("not compiled: ", ListSome(names, kMostNamed, "; "))),
                      "NOT_COMPILED");
  }
  return ForEach(graphs, [](const Device& device, const std::string& id) {
    return device.stores.graphs.Save(id);
  });
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::Load(const GraphSelector& selector) {
  ASSIGN_OR_RETURN(Graphs graphs, Selected(selector));
  std::map<const Device*, std::vector<std::string>> users;
  for (const size_t device : Left()) {
    const std::vector<std::string>& here = users[&devices_[device]] = UsersToLoad(device, selector);
    std::erase_if(graphs[device], [&](const compiler::GraphStatus& info) {
      return !info.users.empty() && absl::c_none_of(info.users, [&](const std::string& user) {
        return absl::c_linear_search(here, user);
      });
    });
  }
  return ForEach(graphs, [&](const Device& device, const std::string& id) {
    return device.preparer.Run([&] { return device.stores.graphs.Load(id, users.at(&device)); });
  });
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::Verify(const GraphSelector& selector) {
  ASSIGN_OR_RETURN(const Graphs graphs, Selected(selector));
  return ForEach(graphs, [](const Device& device, const std::string& id) {
    return device.stores.graphs.Verify(id);
  });
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::Evict(const GraphSelector& selector,
                                                                CacheTier tier, bool force) {
  ASSIGN_OR_RETURN(const Graphs graphs, Selected(selector, IsKept(tier)));
  std::vector<EntryResult> results =
      ForEach(graphs, [&](const Device& device, const std::string& id) {
        return device.stores.graphs.Evict(id, tier, force, selector.models);
      });
  for (const size_t i : Left()) {
    devices_[i].buckets().ForgetCold();
    devices_[i].changed();
  }
  malloc_trim(0);  // returns freed memory to the system, for other processes
  return results;
}

absl::StatusOr<std::vector<EntryResult>> LocalGraphAdmin::SetPinned(const GraphSelector& selector,
                                                                    bool pinned) {
  const auto is_pinned = [](const GraphStatus& info) { return info.pinned; };
  ASSIGN_OR_RETURN(const Graphs graphs, Selected(selector, pinned ? nullptr : +is_pinned));
  return ForEach(graphs, [&](const Device& device, const std::string& id) {
    return device.stores.graphs.SetPinned(id, pinned);
  });
}

absl::Status LocalGraphAdmin::Export(const GraphSelector& selector,
                                     const std::function<bool(std::string artifact)>& take) {
  ASSIGN_OR_RETURN(const Graphs graphs, SelectedToCopy(selector));
  for (const size_t i : Left()) {
    for (const GraphStatus& info : graphs[i]) {
      ASSIGN_OR_RETURN(std::string artifact, devices_[i].stores.graphs.Export(info.id));
      if (!take(std::move(artifact))) return absl::CancelledError("stopped while exporting");
    }
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
  std::vector<std::vector<EntryResult>> results(devices_.size());
  for (const size_t i : Left()) {
    ASSIGN_OR_RETURN(EntryResult result, ImportTo(devices_[i], info, *parsed));
    results[i].push_back(std::move(result));
  }
  return MergeResults(names_, results).front();
}

// Graphs are counted on the device that has most of them.
ModelStatus LocalGraphAdmin::StatusOnAll(const pipeline::ModelRow& model) const {
  ModelStatus all;
  for (const size_t i : Left()) {
    ModelStatus here = StatusOf(devices_[i], model);
    here.devices = std::move(all.devices);
    if (here.loaded && names_.size() > 1) here.devices.push_back(names_[i]);
    here.pinned |= all.pinned;
    here.loaded |= all.loaded;
    here.last_use = std::max(here.last_use, all.last_use);
    if (here.graphs_ready < all.graphs_ready) {
      here.graphs_ready = all.graphs_ready;
      here.graphs_total = all.graphs_total;
    }
    all = std::move(here);
  }
  return all;
}

absl::StatusOr<std::vector<ModelStatus>> LocalGraphAdmin::ListModels() const {
  RETURN_IF_ERROR(CheckOpen());
  std::vector<ModelStatus> models;
  for (const pipeline::LoadedModel* model : First().models.pipeline->Models()) {
    models.push_back(StatusOnAll(model->row()));
  }
  return models;
}

absl::Status LocalGraphAdmin::PinModel(const std::string& name, bool pinned) {
  RETURN_IF_ERROR(CheckOpen());
  const pipeline::ModelTable& table = First().models.pipeline->table();
  if (name.empty() || table.Find(name) == nullptr) {
    return WithReason(
        absl::NotFoundError(absl::StrCat("there is no model ", Excerpt(name), "; there are ",
                                         ListSome(table.Names(), kMostNamed))),
        "NO_SUCH_MODEL");
  }
  for (const size_t i : Left()) devices_[i].stores.graphs.SetModelPinned(name, pinned);
  return absl::OkStatus();
}

MemoryReport LocalGraphAdmin::memory() const {
  std::vector<std::string> names;
  std::vector<MemoryReport> reports;
  for (const size_t i : Left()) {
    names.push_back(names_[i]);
    reports.push_back(devices_[i].memory.Report());
  }
  return MergeReports(names, reports);
}

}  // namespace latentd::engine
