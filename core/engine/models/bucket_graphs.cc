#include "core/engine/models/bucket_graphs.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/engine/api/config.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/pipeline/spec/validation.h"

namespace latentd::engine {
namespace {

using compiler::GraphStatus;
using compiler::GraphStore;

constexpr size_t kMostServed = 64;

int64_t Area(pipeline::Size size) { return int64_t{size.width} * size.height * size.frames; }

// Why nothing can be run with this graph unless something is compiled first; null: it can.
const char* ColdnessOf(compiler::GraphState state) {
  switch (state) {
    case compiler::GraphState::kCold:
      return "is not compiled";
    case compiler::GraphState::kCompiling:
      return "is being compiled";
    case compiler::GraphState::kFailed:
      return "failed to load";
    case compiler::GraphState::kCompiled:
    case compiler::GraphState::kLoading:
    case compiler::GraphState::kReady:
      break;
  }
  return nullptr;
}

std::string ColdnessText(const GraphStatus& info) {
  const char* coldness = ColdnessOf(info.state);
  return absl::StrCat(info.label.ToText(), " ", coldness, info.reason.empty() ? "" : ": ",
                      info.reason);
}

std::map<std::string, GraphStatus> ById(std::vector<GraphStatus> list) {
  std::map<std::string, GraphStatus> infos;
  for (GraphStatus& info : list) infos.emplace(info.id, std::move(info));
  return infos;
}

bool IsDispensable(const compiler::GraphLabel& label) {
  return pipeline::IsDispensable(label.component, label.part, label.rows);
}

// True for a step of more rows than a picture has.
bool IsSharedStep(const compiler::GraphLabel& label) {
  return label.rows > pipeline::kMaxRowsOfPicture;
}

}  // namespace

void AddOnce(const GraphHandles& more, GraphHandles& all) {
  for (const compiler::GraphHandle& graph : more) {
    if (std::find(all.begin(), all.end(), graph) == all.end()) all.push_back(graph);
  }
}

ModelBucket BucketOf(const pipeline::Plan& plan) {
  return {plan.stages.front().model->row().leader, plan.executed_size};
}

void ColdSizes::Keep(const ModelBucket& size, const GraphHandles& graphs) {
  Touch(size);
  if (sizes_.empty() || sizes_.front().size != size) sizes_.push_front({.size = size});
  Kept& kept = sizes_.front();
  for (const compiler::GraphHandle& graph : graphs) {
    const bool shared = GraphStore::LabelOf(graph).width == 0;
    const auto end = kept.graphs.end();
    if (shared || std::find(kept.graphs.begin(), end, graph) != end) continue;
    kept.graphs.push_back(graph);
    kept.bytes += GraphStore::DefinitionBytesOf(graph);
  }
  while (sizes_.size() > 1 && bytes() > max_bytes_) sizes_.pop_back();
}

void ColdSizes::Touch(const ModelBucket& size) {
  const auto found = std::find_if(sizes_.begin(), sizes_.end(),
                                  [&](const Kept& kept) { return kept.size == size; });
  if (found != sizes_.end()) sizes_.splice(sizes_.begin(), sizes_, found);
}

size_t ColdSizes::bytes() const {
  size_t bytes = 0;
  for (const Kept& kept : sizes_) bytes += kept.bytes;
  return bytes;
}

BucketGraphs::BucketGraphs(const pipeline::Pipeline& pipeline, GraphStore& store)
    : pipeline_(pipeline), store_(store) {
  for (const pipeline::ModelId leader : pipeline.table().Leaders()) {
    for (const pipeline::Size size : pipeline.BucketsOf(leader)) {
      configured_.push_back({leader, size});
    }
  }
  std::stable_sort(
      configured_.begin(), configured_.end(),
      [](const ModelBucket& a, const ModelBucket& b) { return Area(a.size) > Area(b.size); });
  absl::MutexLock lock(&mutex_);
  for (const ModelBucket& bucket : configured_) {
    served_.push_back(Declare(bucket, RowCounts::kOfPicture));
  }
}

BucketGraphs::Served BucketGraphs::Declare(const ModelBucket& bucket, RowCounts counts) const {
  Served served{.bucket = bucket};
  absl::StatusOr<GraphHandles> graphs = GraphsOf(bucket, counts);
  served.outcome = graphs.status();
  if (graphs.ok()) served.graphs = *std::move(graphs);
  return served;
}

std::vector<ModelBucket> BucketGraphs::buckets() const {
  absl::MutexLock lock(&mutex_);
  std::vector<ModelBucket> all;
  for (const Served& served : served_) all.push_back(served.bucket);
  return all;
}

std::vector<pipeline::Size> BucketGraphs::ConfiguredOf(pipeline::ModelId model) const {
  std::vector<pipeline::Size> sizes;
  for (const ModelBucket& bucket : configured_) {
    if (bucket.model == model) sizes.push_back(bucket.size);
  }
  return sizes;
}

bool BucketGraphs::IsOnDemand(const ModelBucket& bucket) const {
  return pipeline_.table()[bucket.model].is_on_demand();
}

std::string BucketGraphs::NameOf(const ModelBucket& bucket) const {
  const pipeline::ModelRow& row = pipeline_.table()[bucket.model];
  const bool is_first = row.id == pipeline_.table().first().id;
  return is_first ? SizeText(bucket.size) : absl::StrCat(row.name, " ", SizeText(bucket.size));
}

absl::StatusOr<pipeline::Size> BucketGraphs::Choose(const ModelBucket& asked,
                                                    pipeline::BucketPolicy policy) const {
  std::vector<batching::Bucket> listed;
  std::set<std::string> ready;
  {
    absl::MutexLock lock(&mutex_);
    for (const Served& served : served_) {
      const auto& [model, size] = served.bucket;
      if (model != asked.model) continue;
      listed.push_back({size.width, size.height, size.frames});
      const bool matters = policy == pipeline::BucketPolicy::kSnap;
      if (matters && StateOf(served).bucket.ready) ready.insert(SizeText(size));
    }
  }
  const auto is_ready = [&](batching::Bucket bucket) { return ready.contains(SizeText(bucket)); };
  ASSIGN_OR_RETURN(const batching::Bucket bucket,
                   batching::Buckets(listed).Choose(
                       {asked.size.width, asked.size.height, asked.size.frames}, policy, is_ready));
  return pipeline::Size{bucket.width, bucket.height, bucket.frames};
}

BucketGraphs::Served* BucketGraphs::Find(const ModelBucket& bucket) {
  return const_cast<Served*>(static_cast<const BucketGraphs*>(this)->Find(bucket));
}

const BucketGraphs::Served* BucketGraphs::Find(const ModelBucket& bucket) const {
  const auto found = std::find_if(served_.begin(), served_.end(),
                                  [&](const Served& served) { return served.bucket == bucket; });
  return found == served_.end() ? nullptr : &*found;
}

bool BucketGraphs::IsServed(const ModelBucket& bucket) const {
  absl::MutexLock lock(&mutex_);
  return Find(bucket) != nullptr;
}

void BucketGraphs::KeepCold(const ModelBucket& bucket, const GraphHandles& graphs) {
  absl::MutexLock lock(&mutex_);
  const Served* served = Find(bucket);
  GraphHandles own;
  absl::c_copy_if(graphs, std::back_inserter(own), [&](const compiler::GraphHandle& graph) {
    return served == nullptr || !absl::c_linear_search(served->graphs, graph);
  });
  if (!own.empty()) cold_.Keep(bucket, own);
}

void BucketGraphs::Touch(const ModelBucket& bucket) {
  absl::MutexLock lock(&mutex_);
  cold_.Touch(bucket);
}

// Counted for each model by itself.
absl::Status BucketGraphs::CheckRoomFor(absl::Span<const ModelBucket> buckets) const {
  std::map<int, std::set<std::string>> more;
  absl::MutexLock lock(&mutex_);
  for (const ModelBucket& bucket : buckets) {
    if (Find(bucket) == nullptr) {
      more[bucket.model.value].insert(SizeText(bucket.size));
    }
  }
  for (const auto& [model, sizes] : more) {
    const auto is_its = [id = model](const Served& served) {
      return served.bucket.model.value == id;
    };
    const auto there = static_cast<size_t>(std::count_if(served_.begin(), served_.end(), is_its));
    if (there + sizes.size() <= kMostServed) continue;
    return WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            "a model has at most ", kMostServed, " buckets; there are ", there, ", and ",
            sizes.size(),
            " more are asked for: evict some that are not configured, from both tiers")),
        "TOO_MANY_BUCKETS");
  }
  return absl::OkStatus();
}

absl::Status BucketGraphs::Add(const ModelBucket& bucket) {
  Served added = Declare(bucket, RowCounts::kAll);
  RETURN_IF_ERROR(CheckRoomFor({bucket}));
  absl::MutexLock lock(&mutex_);
  Served* known = Find(bucket);
  if (known == nullptr) {
    served_.push_back(std::move(added));
  } else {
    AddOnce(added.graphs, known->graphs);
  }
  return absl::OkStatus();
}

void BucketGraphs::ForgetCold() {
  const std::map<std::string, GraphStatus> infos = ById(store_.List());
  const auto is_cold = [&](const compiler::GraphHandle& graph) {
    const auto info = infos.find(GraphStore::IdOf(graph));
    return info == infos.end() || info->second.label.width == 0 ||
           info->second.state == compiler::GraphState::kCold;
  };
  {
    absl::MutexLock lock(&mutex_);
    const auto added = served_.begin() + static_cast<ptrdiff_t>(configured_.size());
    const auto forgotten = std::remove_if(added, served_.end(), [&](const Served& served) {
      return std::all_of(served.graphs.begin(), served.graphs.end(), is_cold);
    });
    served_.erase(forgotten, served_.end());
  }
  store_.DropUnused();
}

absl::Status BucketGraphs::CheckSize(pipeline::Size bucket) const {
  pipeline::PictureSpec spec;
  spec.prompt = "any";
  spec.width = bucket.width;
  spec.height = bucket.height;
  std::vector<FieldViolation> violations = pipeline::FindViolations(spec, pipeline_.traits());
  // Only the size is checked: violations of other fields are a request's, not the bucket's.
  std::erase_if(violations, [](const FieldViolation& violation) {
    return violation.field != "width" && violation.field != "height";
  });
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

absl::StatusOr<GraphHandles> BucketGraphs::GraphsOf(const ModelBucket& bucket,
                                                    RowCounts counts) const {
  const auto& [model, size] = bucket;
  RETURN_IF_ERROR(CheckSize(size));
  GraphHandles all;
  for (int rows : pipeline_.RowCountsAt(size)) {
    if (counts == RowCounts::kOfPicture && rows > pipeline::kMaxRowsOfPicture) continue;
    ASSIGN_OR_RETURN(const GraphHandles graphs, pipeline_.GraphsOf(model, size, rows));
    AddOnce(graphs, all);
  }
  if (counts == RowCounts::kOfPicture) return all;
  ASSIGN_OR_RETURN(const GraphHandles previews, pipeline_.PreviewGraphsOf(model, size));
  AddOnce(previews, all);
  ASSIGN_OR_RETURN(const GraphHandles split, pipeline_.SplitStepsOf(model, size));
  AddOnce(split, all);
  return all;
}

absl::StatusOr<GraphHandles> BucketGraphs::AddSharedSteps(const ModelBucket& bucket, int rows) {
  ASSIGN_OR_RETURN(GraphHandles steps, pipeline_.GraphsOf(bucket.model, bucket.size, rows));
  std::erase_if(steps, [](const compiler::GraphHandle& graph) {
    return !IsSharedStep(GraphStore::LabelOf(graph));
  });
  Keep(bucket, steps);
  return steps;
}

absl::StatusOr<GraphHandles> BucketGraphs::AddPreviews(const ModelBucket& bucket) {
  ASSIGN_OR_RETURN(GraphHandles previews, pipeline_.PreviewGraphsOf(bucket.model, bucket.size));
  Keep(bucket, previews);
  return previews;
}

absl::StatusOr<GraphHandles> BucketGraphs::AddSplitSteps(const ModelBucket& bucket) {
  ASSIGN_OR_RETURN(GraphHandles steps, pipeline_.SplitStepsOf(bucket.model, bucket.size));
  Keep(bucket, steps);
  return steps;
}

absl::StatusOr<GraphHandles> BucketGraphs::AddControlled(const ModelBucket& bucket, int rows) {
  ASSIGN_OR_RETURN(GraphHandles graphs,
                   pipeline_.ControlledStepsOf(bucket.model, bucket.size, rows));
  absl::MutexLock lock(&mutex_);
  if (Served* served = Find(bucket)) AddOnce(graphs, served->controlled);
  return graphs;
}

GraphHandles BucketGraphs::ControlNetGraphs() const {
  GraphHandles all;
  for (const pipeline::ModelId leader : pipeline_.table().Leaders()) {
    AddOnce(pipeline_.ControlNetGraphsOf(leader, ConfiguredOf(leader)), all);
  }
  return all;
}

void BucketGraphs::Keep(const ModelBucket& bucket, const GraphHandles& graphs) {
  absl::MutexLock lock(&mutex_);
  if (Served* served = Find(bucket)) AddOnce(graphs, served->graphs);
}

std::vector<int> BucketGraphs::SharedRowCounts(pipeline::Size bucket) const {
  std::vector<int> counts = pipeline_.RowCountsAt(bucket);
  std::erase_if(counts, [](int rows) { return rows <= pipeline::kMaxRowsOfPicture; });
  return counts;
}

std::vector<BucketNeeds> BucketGraphs::Needs() const {
  std::vector<BucketNeeds> all;
  absl::MutexLock lock(&mutex_);
  for (const Served& served : served_) {
    BucketNeeds& needs = all.emplace_back(BucketNeeds{served.bucket.size, {}});
    for (const compiler::GraphHandle& graph : served.graphs) {
      needs.ids.insert(GraphStore::IdOf(graph));
    }
  }
  return all;
}

std::vector<GraphStatus> BucketGraphs::Known() const {
  std::vector<GraphStatus> infos = store_.List();
  std::set<std::string> served_ids;
  for (BucketNeeds& needs : Needs()) served_ids.merge(needs.ids);
  const auto unknown = [&](const GraphStatus& info) {
    return info.state == compiler::GraphState::kCold && !served_ids.contains(info.id);
  };
  infos.erase(std::remove_if(infos.begin(), infos.end(), unknown), infos.end());
  return infos;
}

absl::Status BucketGraphs::CheckKnownCompiled(const pipeline::Plan& plan) const {
  ASSIGN_OR_RETURN(const GraphHandles graphs,
                   pipeline_.HandlesOf(plan, pipeline::ModelGraphs::IfUnknown::kRefuse,
                                       pipeline::Pipeline::Of::kModels));
  std::set<std::string> cold;
  for (const compiler::GraphHandle& graph : graphs) {
    const GraphStatus info = store_.StatusOf(graph);
    if (ColdnessOf(info.state) != nullptr && !info.loadable) cold.insert(ColdnessText(info));
  }
  if (cold.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      ListSome(std::vector<std::string>(cold.begin(), cold.end()), kMostNamed, "; "));
}

absl::StatusOr<MemoryPrediction> BucketGraphs::Predict(GraphHandles graphs,
                                                       absl::Span<const ModelBucket> buckets,
                                                       const Turn& take_turn) const {
  MemoryTally tally;
  for (const ModelBucket& bucket : buckets) {
    ASSIGN_OR_RETURN(const GraphHandles more, GraphsOf(bucket, RowCounts::kAll));
    graphs.insert(graphs.end(), more.begin(), more.end());
    for (int rows : pipeline_.RowCountsAt(bucket.size)) {
      tally.AddState(pipeline_.StateBytes(bucket.size, rows));
    }
  }
  std::set<compiler::GraphHandle> added;
  for (const compiler::GraphHandle& graph : graphs) {
    if (!added.insert(graph).second) continue;
    RETURN_IF_ERROR(take_turn([&]() -> absl::Status {
      ASSIGN_OR_RETURN(const backends::MemoryNeeds needs, store_.Predict(graph));
      tally.Add(GraphStore::IdOf(graph), needs);
      return absl::OkStatus();
    }));
  }
  return tally.prediction();
}

absl::Status BucketGraphs::OutcomeOf(
    const ModelBucket& bucket,
    const std::map<compiler::GraphHandle, absl::Status>& failures) const {
  ASSIGN_OR_RETURN(const GraphHandles graphs, GraphsOf(bucket, RowCounts::kOfPicture));
  for (const compiler::GraphHandle& graph : graphs) {
    const auto failed = failures.find(graph);
    if (failed != failures.end()) return failed->second;
  }
  return absl::OkStatus();
}

void BucketGraphs::SetOutcome(const ModelBucket& bucket, const absl::Status& outcome) {
  absl::MutexLock lock(&mutex_);
  if (Served* served = Find(bucket)) served->outcome = outcome;
}

absl::Status BucketGraphs::MemoryFailure(const ModelBucket& bucket) {
  absl::MutexLock lock(&mutex_);
  const Served* served = Find(bucket);
  const bool failed = served != nullptr && absl::IsResourceExhausted(served->outcome);
  return failed ? served->outcome : absl::OkStatus();
}

std::vector<BucketGraphs::BucketState> BucketGraphs::BucketStates() const {
  absl::MutexLock lock(&mutex_);
  std::vector<BucketState> all;
  for (const Served& served : served_) all.push_back(StateOf(served));
  for (size_t i = 0; i < all.size(); ++i) all[i].configured = i < configured_.size();
  return all;
}

// Errors that the graphs' states do not show count too: not declarable, or too large to fit.
BucketGraphs::BucketState BucketGraphs::StateOf(const Served& served) const {
  BucketState state{
      .of = served.bucket,
      .bucket = {.model = pipeline_.table()[served.bucket.model].name, .size = served.bucket.size}};
  if (served.graphs.empty() || absl::IsResourceExhausted(served.outcome)) {
    state.bucket.reason = std::string(served.outcome.message());
    return state;
  }
  state.warm = true;
  for (const compiler::GraphHandle& graph : served.graphs) {
    if (IsDispensable(GraphStore::LabelOf(graph))) continue;
    const GraphStatus info = store_.StatusOf(graph);
    state.warm = state.warm && info.state == compiler::GraphState::kReady;
    if (!state.bucket.reason.empty() || ColdnessOf(info.state) == nullptr) continue;
    if (info.loadable && served.outcome.ok()) continue;
    state.bucket.reason = ColdnessText(info);
  }
  state.bucket.ready = state.bucket.reason.empty();
  return state;
}

}  // namespace latentd::engine
