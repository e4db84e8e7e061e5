#include "core/engine/shared_step_graphs.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/out_of_memory.h"
#include "core/base/text.h"
#include "core/device/device_fault.h"
#include "core/engine/graph_admin.h"
#include "core/engine/graph_selection.h"
#include "core/weights/checkpoint_file.h"

namespace latentd::engine {
namespace {

using compiler::GetMode;
using compiler::GraphHandle;
using compiler::GraphStore;

constexpr absl::Duration kBetweenLooks = absl::Minutes(1);

struct Shape {
  pipeline::Size bucket;
  int rows = 0;  // rows of a shared step; 0: graphs for previews
};

std::string FailureText(const GraphHandle& graph, const absl::Status& failure) {
  const std::string name = GraphStore::LabelOf(graph).ToText();
  const std::string message(failure.message());
  return absl::StartsWith(message, name) ? message : absl::StrCat(name, ": ", message);
}

// True if later tries would fail with it too.
bool EndsAll(const absl::Status& failure) {
  return device::IsFault(failure) || GetReason(failure) == weights::kCheckpointChanged;
}

// The graph's lane: its label, but for the rows.
compiler::GraphLabel LaneOf(const GraphHandle& graph) {
  compiler::GraphLabel lane = GraphStore::LabelOf(graph);
  lane.rows = 0;
  return lane;
}

}  // namespace

struct SharedStepGraphs::Round {
  bool is_start = false;
  compiler::Purpose purpose;
  std::vector<Shape> shapes;
  size_t declared = 0;  // number of declared shapes
  GraphHandles graphs;  // graphs of these
  size_t tried = 0;     // number of tried graphs
  int ready = 0;
  std::vector<std::string> failures;
  std::vector<compiler::GraphLabel> full;  // lanes that there is no memory in for more rows
};

void SharedStepGraphs::Begin() {
  const auto round = std::make_shared<Round>();
  round->is_start = true;
  round->purpose = {.mode = parts_.config.compile_at_start ? GetMode::kCompile : GetMode::kLoad,
                    .reason = compiler::Reason::kStartup,
                    .displaces_nothing = true};
  const BucketGraphs& buckets = *parts_.models.buckets;
  for (const BucketGraphs::BucketState& state : buckets.BucketStates()) {
    if (!state.configured || !state.bucket.ready) continue;
    const pipeline::Size bucket = state.bucket.size;
    for (int rows : buckets.SharedRowCounts(bucket)) round->shapes.push_back({bucket, rows});
  }
  absl::c_stable_sort(round->shapes,
                      [](const Shape& a, const Shape& b) { return a.rows < b.rows; });
  if (round->shapes.empty()) return End(*round);
  Start(round);
}

void SharedStepGraphs::Wait() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&begin_is_over_));
}

void SharedStepGraphs::LoadAgain(pipeline::Size bucket) {
  if (!parts_.models.buckets->IsServed(bucket) || !MayLookAt(bucket)) return;
  const auto round = std::make_shared<Round>();
  round->purpose = {.mode = GetMode::kLoad, .displaces_nothing = true};
  round->shapes.push_back({bucket, 0});
  for (int rows : parts_.models.buckets->SharedRowCounts(bucket)) {
    round->shapes.push_back({bucket, rows});
  }
  Start(round);
}

bool SharedStepGraphs::MayLookAt(pipeline::Size bucket) {
  const absl::Time now = parts_.clock.Monotonic();
  absl::MutexLock lock(&mutex_);
  if (!begin_is_over_) return false;
  absl::Time& next = next_look_.try_emplace(SizeText(bucket), absl::InfinitePast()).first->second;
  if (now < next) return false;
  next = now + kBetweenLooks;
  return true;
}

void SharedStepGraphs::Start(const RoundPointer& round) {
  parts_.preparing.Continue([this, round] { TakeTurn(round); });
}

void SharedStepGraphs::TakeTurn(const RoundPointer& round) {
  bool more = false;
  const absl::Status turn = CatchOutOfMemory([&] {
    more = !parts_.stop && (DeclareNext(*round) || TryNext(*round));
    if (more) Start(round);
    return absl::OkStatus();
  });
  if (!more || !turn.ok()) End(*round);
}

// All of them before the first is tried: lists show what is to come.
bool SharedStepGraphs::DeclareNext(Round& round) {
  if (round.declared == round.shapes.size()) return false;
  const Shape& shape = round.shapes[round.declared++];
  BucketGraphs& buckets = *parts_.models.buckets;
  const auto graphs = shape.rows == 0 ? buckets.AddPreviews(shape.bucket)
                                      : buckets.AddSharedSteps(shape.bucket, shape.rows);
  if (!graphs.ok()) {
    round.failures.emplace_back(graphs.status().message());
    return true;
  }
  round.graphs.insert(round.graphs.end(), graphs->begin(), graphs->end());
  return true;
}

bool SharedStepGraphs::TryNext(Round& round) {
  if (round.tried == round.graphs.size()) return false;
  const GraphHandle& graph = round.graphs[round.tried++];
  return !EndsAll(Try(round, graph));
}

absl::Status SharedStepGraphs::Try(Round& round, const GraphHandle& graph) {
  if (absl::c_linear_search(round.full, LaneOf(graph))) return absl::OkStatus();
  if (!round.is_start && !CanBeLoaded(graph)) return absl::OkStatus();
  const absl::Status status =
      CatchOutOfMemory([&] { return parts_.graphs.Get(graph, round.purpose).status(); });
  if (status.ok()) ++round.ready;
  if (absl::IsResourceExhausted(status)) round.full.push_back(LaneOf(graph));
  // A refusal to compile is no failure, and a device that fails is shown elsewhere.
  const bool is_told = status.ok() || GetReason(status) == "GRAPH_COLD" || device::IsFault(status);
  if (!is_told) round.failures.push_back(FailureText(graph, status));
  return status;
}

bool SharedStepGraphs::CanBeLoaded(const GraphHandle& graph) const {
  const auto info = parts_.graphs.Find(GraphStore::IdOf(graph));
  return info.ok() && info->state != GraphState::kReady &&
         (IsCompiled(info->state) || info->loadable);
}

void SharedStepGraphs::End(const Round& round) {
  if (!round.is_start) return;
  CatchOutOfMemory([&] {
    if (parts_.stop) return absl::OkStatus();
    parts_.kept.GiveBackAll();
    Tell(round);
    return absl::OkStatus();
  }).IgnoreError();
  absl::MutexLock lock(&mutex_);
  begin_is_over_ = true;
}

// The state stays as it is: every picture that may be asked for can be drawn, and is the same; it
// only shares its steps with fewer others. A server is not taken out of service for that.
void SharedStepGraphs::Tell(const Round& round) {
  const int total = static_cast<int>(round.graphs.size());
  parts_.board.Update([&](ServerStatus& status) {
    status.shared_steps = ServerStatus::GraphCount{round.ready, total};
  });
  if (round.failures.empty() || !parts_.config.warn) return;
  parts_.config.warn(absl::StrCat("pictures share fewer rows than they could (--rows): ",
                                  ListSome(round.failures, kMostNamed, "; ")));
}

}  // namespace latentd::engine
