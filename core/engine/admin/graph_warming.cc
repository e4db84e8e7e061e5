#include "core/engine/admin/graph_warming.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/engine/admin/selected_graphs.h"
#include "core/engine/reports/device_reports.h"
#include "core/engine/reports/graph_selection.h"

namespace latentd::engine {
namespace {

using compiler::GraphStatus;
using compiler::GraphStore;
using RowCounts = BucketGraphs::RowCounts;
using Plan = GraphWarming::Plan;

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

void RecordOutcomes(const Plan& plan, const Preparer::Failures& failures, BucketGraphs& buckets) {
  for (const ModelBucket& bucket : plan.buckets) {
    absl::Status outcome = buckets.OutcomeOf(bucket, failures);
    if (outcome.ok()) outcome = buckets.Add(bucket);
    buckets.SetOutcome(bucket, outcome);
  }
}

absl::StatusOr<MemoryPrediction> Predict(const AdminDevice& device, const Plan& plan) {
  return device.buckets().Predict(plan.named, plan.buckets,
                                  [&](const std::function<absl::Status()>& part) -> absl::Status {
                                    RETURN_IF_ERROR(device.CheckNotStopping());
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

}  // namespace

absl::StatusOr<WarmOutcome> GraphWarming::Warm(const GraphSelector& selector, bool dry_run,
                                               const Progress& progress) {
  RETURN_IF_ERROR(devices_.CheckOpen());
  WarmOutcome all;
  int before = 0;  // graphs, on devices that are through
  const std::vector<size_t> left = devices_.Left();
  for (auto next = left.begin(); next != left.end(); ++next) {
    const size_t i = *next;
    int here = 0;
    const auto tell = [&](const WarmProgress& of_device) {
      WarmProgress told = of_device;
      here = of_device.total;
      told.done += before;
      told.total = before + here * static_cast<int>(left.end() - next);  // as if all had as many
      told.entry.status = OfDevice(devices_.names()[i], told.entry.status);
      return progress(told);
    };
    const absl::StatusOr<WarmOutcome> outcome = On(i, selector, dry_run, tell);
    // Drops graphs of buckets that were only asked about, did not fit or were given up.
    devices_[i].stores.graphs.DropUnused();
    if (!outcome.ok()) return OfDevice(devices_.names()[i], outcome.status());
    before += here;
    AddOutcome(*outcome, all);
  }
  return all;
}

absl::StatusOr<WarmOutcome> GraphWarming::On(size_t place, const GraphSelector& selector,
                                             bool dry_run, const Progress& progress) {
  const AdminDevice& device = devices_[place];
  ASSIGN_OR_RETURN(const Plan plan, PlanFor(place, selector));
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
  if (!ended.status.ok()) RETURN_IF_ERROR(device.CheckNotStopping());  // why it was stopped
  RETURN_IF_ERROR(ended.status);
  // A failed graph cannot be predicted either, and has been reported.
  if (const auto predicted = Predict(device, plan); predicted.ok()) {
    ended.counts.predicted = *predicted;
  }
  return ended.counts;
}

std::vector<ModelBucket> GraphWarming::BucketsOn(size_t device,
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
  std::erase_if(
      all, [&](const ModelBucket& bucket) { return devices_.IsElsewhere(device, bucket.model); });
  return all;
}

absl::StatusOr<GraphWarming::Plan> GraphWarming::PlanFor(size_t device,
                                                         const GraphSelector& selector) const {
  const BucketGraphs& buckets = devices_[device].buckets();
  Plan plan{.buckets = BucketsOn(device, selector)};
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
  return Plan{.graphs = plan.graphs, .named = plan.graphs};
}

// Adds graphs named by ids and components, among those of the buckets that are served.
absl::Status GraphWarming::AddNamed(size_t device, const GraphSelector& selector,
                                    GraphHandles& graphs) const {
  if (selector.ids.empty() && selector.components.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const SelectedGraphs selected,
                   SelectOn(devices_, {.ids = selector.ids, .components = selector.components}));
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

}  // namespace latentd::engine
