#include "core/engine/prepare/shared_step_graphs.h"

#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/text/text.h"
#include "core/engine/reports/graph_selection.h"
#include "core/weights/checkpoint_file.h"

namespace latentd::engine {
namespace {

using compiler::GetMode;

// In the place of rows of steps that images share.
constexpr int kPreviews = 0, kSplitSteps = -1;

constexpr absl::Duration kBetweenLooks = absl::Minutes(1);

absl::StatusOr<GraphHandles> DeclareOf(const ModelBucket& bucket, int rows, BucketGraphs& buckets) {
  if (rows == kPreviews) return buckets.AddPreviews(bucket);
  return rows == kSplitSteps ? buckets.AddSplitSteps(bucket) : buckets.AddSharedSteps(bucket, rows);
}

}  // namespace

// Larger rows of a model on demand are compiled behind those that are loaded: they come with it.
void SharedStepGraphs::Begin() {
  Shapes loaded, compiled, controlled;
  const BucketGraphs& buckets = *parts_.models.buckets;
  for (const BucketGraphs::BucketState& state : buckets.BucketStates()) {
    if (!state.configured || !state.bucket.ready) continue;
    Shapes& shapes = buckets.IsOnDemand(state.of) ? compiled : loaded;
    if (parts_.config.split != batching::Split::kNever) shapes.emplace_back(kSplitSteps, state.of);
    for (int rows : buckets.SharedRowCounts(state.of.size)) {
      shapes.emplace_back(rows, state.of);
      controlled.emplace_back(rows, state.of);
    }
  }
  if (loaded.empty()) {
    End({});
  } else {
    Submit(std::move(loaded), Steps::kLoaded);
  }
  if (!compiled.empty()) Submit(std::move(compiled), Steps::kCompiled);
  if (!controlled.empty()) Submit(std::move(controlled), Steps::kControlled);
}

// All are declared before the first is tried: lists show what is to come.
void SharedStepGraphs::Submit(Shapes shapes, Steps steps) {
  const bool compile_only = steps != Steps::kLoaded;
  absl::c_stable_sort(shapes, [](const auto& a, const auto& b) { return a.first < b.first; });
  Preparer::Order order = {
      .priority = Preparer::Priority::kSpare,
      .purpose = {.mode = parts_.config.compile_at_start ? GetMode::kCompile : GetMode::kLoad,
                  .reason = compiler::Reason::kStartup,
                  .displaces_nothing = true},
      .compile_only = compile_only,
      // Later graphs would fail with it too.
      .progress =
          [](const auto& done) {
            return GetReason(done.entry.status) != weights::kCheckpointChanged;
          },
      .end =
          [this, compile_only](const Preparer::Ended& ended) {
            compile_only ? Warn(ended.failure_texts) : End(ended);
          }};
  for (const auto& [rows, bucket] : shapes) {
    order.tasks.push_back(steps == Steps::kControlled ? DeclareControlled(bucket, rows)
                                                      : Declare(bucket, rows, /*evicted=*/false));
  }
  parts_.preparer.Submit(std::move(order));
}

void SharedStepGraphs::LoadAgain(const ModelBucket& bucket) {
  if (!parts_.models.buckets->IsServed(bucket) || !MayLookAt(bucket)) return;
  Preparer::Order order = {.priority = Preparer::Priority::kSpare,
                           .purpose = {.mode = GetMode::kLoad, .displaces_nothing = true},
                           .tasks = {Declare(bucket, kPreviews, /*evicted=*/true),
                                     Declare(bucket, kSplitSteps, /*evicted=*/true)}};
  for (int rows : parts_.models.buckets->SharedRowCounts(bucket.size)) {
    order.tasks.push_back(Declare(bucket, rows, /*evicted=*/true));
  }
  parts_.preparer.Submit(std::move(order));
}

bool SharedStepGraphs::MayLookAt(const ModelBucket& bucket) {
  if (!start_is_over_) return false;
  const absl::Time now = parts_.clock.Monotonic();
  absl::MutexLock lock(&mutex_);
  absl::Time& next =
      next_look_.try_emplace(parts_.models.buckets->NameOf(bucket), absl::InfinitePast())
          .first->second;
  if (now < next) return false;
  next = now + kBetweenLooks;
  return true;
}

Preparer::Task SharedStepGraphs::Declare(const ModelBucket& bucket, int rows, bool evicted) const {
  return [=, this](Preparer::Order& order) {
    BucketGraphs& buckets = *parts_.models.buckets;
    auto graphs = DeclareOf(bucket, rows, buckets);
    if (graphs.ok() && rows == kPreviews && buckets.IsOnDemand(bucket)) {
      const auto others = buckets.GraphsOf(bucket, BucketGraphs::RowCounts::kOfPicture);
      if (others.ok()) AddOnce(*others, *graphs);
    }
    if (!graphs.ok()) {
      if (!evicted) Warn({std::string(graphs.status().message())});
      return absl::OkStatus();
    }
    absl::c_copy_if(*graphs, std::back_inserter(order.graphs),
                    [&](const auto& graph) { return !evicted || CanBeLoaded(graph); });
    return absl::OkStatus();
  };
}

Preparer::Task SharedStepGraphs::DeclareControlled(const ModelBucket& bucket, int rows) const {
  return [=, this](Preparer::Order& order) {
    const auto graphs = parts_.models.buckets->AddControlled(bucket, rows);
    if (graphs.ok()) {
      absl::c_copy(*graphs, std::back_inserter(order.graphs));
    } else {
      Warn({std::string(graphs.status().message())});
    }
    return absl::OkStatus();
  };
}

bool SharedStepGraphs::CanBeLoaded(const compiler::GraphHandle& graph) const {
  const compiler::GraphStatus info = parts_.graphs.StatusOf(graph);
  return info.state != GraphState::kReady && (IsCompiled(info.state) || info.loadable);
}

// The state stays as it is: every image that may be asked for can be drawn, and is the same; it
// only shares its steps with fewer others. A server is not taken out of service for that.
void SharedStepGraphs::End(const Preparer::Ended& ended) {
  start_is_over_ = true;
  if (parts_.stop) return;
  parts_.kept.GiveBackAll();
  const WarmOutcome& counts = ended.counts;
  const int ready = counts.compiled + counts.loaded + counts.ready_before;
  parts_.status.Update([&](ServerStatus& status) {
    status.shared_steps = ServerStatus::GraphCount{ready, static_cast<int>(ended.graphs.size())};
  });
  Warn(ended.failure_texts);
}

void SharedStepGraphs::Warn(const std::vector<std::string>& reasons) const {
  if (reasons.empty() || !parts_.config.warn) return;
  parts_.config.warn(absl::StrCat("pictures share fewer rows than they could (--rows): ",
                                  ListSome(reasons, kMostNamed, "; ")));
}

}  // namespace latentd::engine
