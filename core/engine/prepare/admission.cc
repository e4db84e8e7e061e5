#include "core/engine/prepare/admission.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/device/device_fault.h"
#include "core/engine/requests/picture_file.h"
#include "core/image/video/video_format.h"
#include "core/pipeline/plan/image_prompts.h"
#include "core/pipeline/plan/latents_file.h"
#include "core/pipeline/plan/video_plan.h"
#include "core/pipeline/units/embeds_file.h"

namespace latentd::engine {
namespace {

using compiler::GraphStore;
using pipeline::BucketPolicy;

// The most that an error lists.
constexpr size_t kMostSizes = 20;

// Client threads build no graph and read no file.
constexpr auto kKnown = pipeline::ModelGraphs::IfUnknown::kRefuse;

const char* NounOf(const pipeline::Plan& plan) {
  return plan.spec.video ? "a video of" : "a picture of";
}

// Stands for all graphs of a size in messages.
compiler::GraphLabel LabelOf(const pipeline::Plan& plan) {
  return {.component = NounOf(plan),
          .width = plan.executed_size.width,
          .height = plan.executed_size.height,
          .rows = plan.rows,
          .frames = plan.executed_size.frames};
}

absl::Status TooLarge(const pipeline::Plan& plan, int64_t needed, int64_t budget) {
  return WithMissingBytes(OutOfMemoryError(absl::StrCat(
                              NounOf(plan), " ", SizeText(plan.executed_size), " needs at least ",
                              needed, " bytes of memory, and the server may hold ", budget)),
                          needed, budget);
}

// The same with the frames of a chunk with which it would fit.
absl::Status WithChunk(const absl::Status& refusal, int chunk) {
  if (chunk == 0) return refusal;
  absl::Status told(refusal.code(), absl::StrCat(refusal.message(), "; with decode_chunk_size ",
                                                 chunk, " it would fit"));
  refusal.ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) { told.SetPayload(type, payload); });
  return WithFacts(std::move(told), {{"decode_chunk_size", absl::StrCat(chunk)}});
}

// Adds what a program can ask for instead.
absl::Status WithSizes(absl::Status refusal, const ModelBucket& asked,
                       const BucketGraphs& buckets) {
  std::vector<std::string> ready;
  for (const BucketGraphs::BucketState& state : buckets.BucketStates()) {
    const bool is_its = state.of.model == asked.model;
    if (is_its && state.bucket.ready && ready.size() < kMostSizes) {
      ready.push_back(SizeText(state.bucket.size));
    }
  }
  return WithFacts(std::move(refusal), {{"requested_size", SizeText(asked.size)},
                                        {"buckets", absl::StrJoin(ready, ",")}});
}

void AddTo(backends::MemoryNeeds& together, const backends::MemoryNeeds& more) {
  together.arena_bytes = std::max(together.arena_bytes, more.arena_bytes);
  together.executable_bytes += more.executable_bytes;
  together.weights.insert(more.weights.begin(), more.weights.end());
  together.making.insert(more.making.begin(), more.making.end());
}

}  // namespace

bool IsCold(const absl::Status& status) {
  const std::string reason = GetReason(status);
  return reason == "GRAPH_COLD" || reason == "COMPILE_FORBIDDEN";
}

void RefusedSizes::Add(const Graphs& graphs, int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (refusals_.size() == kMost) refusals_.pop_front();
  refusals_.push_back({graphs, bytes});
}

void RefusedSizes::SetChunk(const Graphs& graphs, int chunk) {
  absl::MutexLock lock(&mutex_);
  for (Refusal& refusal : refusals_) {
    if (refusal.graphs == graphs) refusal.chunk = chunk;
  }
}

std::optional<RefusedSizes::Refusal> RefusedSizes::Find(const Graphs& graphs) const {
  absl::MutexLock lock(&mutex_);
  for (const Refusal& refusal : refusals_) {
    if (pipeline::Covers(graphs, refusal.graphs, grows_)) return refusal;
  }
  return std::nullopt;
}

Admission::Admission(const Config& config, const Models& models, GraphStore& store,
                     const MemoryBudget& budget)
    : config_(config),
      models_(models),
      store_(store),
      budget_(budget),
      refused_(/*grows=*/!config.vae_tiling_above.has_value()) {}

std::vector<FieldViolation> Admission::FindViolations(const GenerateSpec& spec) const {
  std::vector<FieldViolation> violations;
  const int quality = spec.output.quality;
  if (quality < 1 || quality > 100) {
    violations.push_back({"output.quality", absl::StrCat("must be 1 to 100, is ", quality)});
  }
  const int max_priority = config_.priorities.MaxOf(spec.caller);
  if (spec.priority < kMinPriority || spec.priority > max_priority) {
    violations.push_back({"priority", absl::StrCat("must be ", kMinPriority, " to ", max_priority,
                                                   " for this caller, is ", spec.priority)});
  }
  return violations;
}

ModelBucket Admission::AskedBucket(const pipeline::PictureSpec& resolved) const {
  const pipeline::ModelRow& model = models_.pipeline->table().FindOrFirst(resolved.model);
  const int frames = resolved.video ? *resolved.video->num_frames : 1;
  return {model.leader, {*resolved.width, *resolved.height, frames}};
}

absl::StatusOr<pipeline::Size> Admission::ChooseBucket(
    const pipeline::PictureSpec& resolved) const {
  const absl::StatusOr<pipeline::Size> bucket =
      models_.buckets->Choose(AskedBucket(resolved), resolved.bucket_policy);
  return bucket.ok() ? bucket : NoSuchBucket(resolved, bucket.status());
}

absl::StatusOr<pipeline::SharedPlan> Admission::Resolve(const GenerateSpec& spec) const {
  pipeline::PictureSpec asked = spec.picture;
  asked.output_latents = spec.output.format == image::Format::kLatent;
  const pipeline::Inputs none;
  const pipeline::Inputs& inputs = spec.inputs == nullptr ? none : *spec.inputs;
  const auto choose = [this](const pipeline::PictureSpec& resolved) {
    // Text encoders read no size.
    const pipeline::Size size = {*resolved.width, *resolved.height};
    return resolved.output_embeds ? size : ChooseBucket(resolved);
  };
  ASSIGN_OR_RETURN(pipeline::SharedPlan plan,
                   models_.pipeline->Resolve(asked, inputs, choose, FindViolations(spec)));
  if (spec.video_file) RETURN_IF_ERROR(image::CheckBuiltIn(image::TypeOf(spec.video_file->format)));
  return plan;
}

absl::Status Admission::CheckResponseBytes(const GenerateSpec& spec,
                                           const pipeline::Plan& plan) const {
  if (spec.max_response_bytes <= 0) return absl::OkStatus();
  const pipeline::PictureSpec& picture = plan.spec;
  const int64_t bytes =
      *picture.num_images_per_prompt * plan.executed_size.frames *
      (picture.output_embeds ? pipeline::EmbedsFileBytes(plan)
       : picture.output_latents
           ? pipeline::LatentsFileBytes(plan.last_model().latent_channels(), plan.image_latents)
           : MaxEncodedBytes(plan.picture_size(), spec.output.format));
  if (bytes <= spec.max_response_bytes) return absl::OkStatus();
  const std::string limit = absl::StrCat(spec.max_response_bytes);
  return WithFacts(
      WithReason(absl::InvalidArgumentError(absl::StrCat(
                     "the answer could have ", bytes, " bytes of pictures, and may have ", limit)),
                 "RESPONSE_TOO_LARGE"),
      {{"bytes", absl::StrCat(bytes)}, {"limit", limit}});
}

bool Admission::CompilesForRequests() const {
  return config_.allow_cold_requests && !config_.forbid_compile_after_ready;
}

bool Admission::MayCompile(const pipeline::Plan& plan) const {
  return plan.spec.bucket_policy == BucketPolicy::kColdOk && CompilesForRequests();
}

std::string Admission::WhyNotCompiled() const {
  return absl::StrCat("this server does not compile for requests (",
                      config_.forbid_compile_after_ready
                          ? "--forbid-compile-after-ready"
                          : "it was started without --allow-cold-requests",
                      ")");
}

absl::Status Admission::NoSuchBucket(const pipeline::PictureSpec& resolved,
                                     const absl::Status& refusal) const {
  std::string instead;
  if (resolved.bucket_policy == BucketPolicy::kExact && !resolved.video) {
    instead = "; bucket_policy BUCKET_POLICY_SNAP cuts it out of a larger one";
  }
  absl::StrAppend(&instead, "; ",
                  CompilesForRequests() ? "bucket_policy BUCKET_POLICY_COLD_OK compiles for it"
                                        : WhyNotCompiled());
  std::vector<FieldViolation> violations = GetFieldViolations(refusal);
  for (FieldViolation& violation : violations) absl::StrAppend(&violation.description, instead);
  return WithSizes(WithReason(InvalidFields(violations), "NO_SUCH_BUCKET"), AskedBucket(resolved),
                   *models_.buckets);
}

bool Admission::ReadsPrompts(const pipeline::Plan& plan) const {
  const pipeline::ReadyPrompts& ready = models_.pipeline->ready_prompts();
  return plan.chunks() <= ready.chunks && (ready.blends || plan.blends() == 0);
}

// " for prompts of 2 chunks (...)", or nothing.
std::string Admission::ForRequestText(const pipeline::Plan& plan) const {
  const pipeline::ReadyPrompts& ready = models_.pipeline->ready_prompts();
  if (ReadsPrompts(plan)) {
    const bool controlled = !plan.controls.empty(), has_image = !plan.image_prompts.empty();
    if (!controlled && !has_image) return "";
    if (controlled && has_image) {
      return " with a ControlNet and an IP-Adapter at once (compiled at the start are those for "
             "one)";
    }
    if (has_image && (plan.image_prompts.size() > 1 || plan.image_prompts.front().images > 1)) {
      return " with several images as prompts (compiled at the start are those for one)";
    }
    return absl::StrCat(controlled ? " with the ControlNet " : " with the IP-Adapter ",
                        controlled ? plan.spec.controls.front().name
                                   : plan.spec.ip_adapters[plan.image_prompts.front().index].name,
                        " (compiled at the start are those for what --adapters has then)");
  }
  if (plan.chunks() <= ready.chunks) {
    return " for weights below 1 in Compel's syntax (the server was started without "
           "--prompt-blends)";
  }
  return absl::StrCat(" for prompts of ", plan.chunks(),
                      " chunks (--prompt-chunks of the server is ", ready.chunks, ")");
}

// " for chunks of 4 frames (...)", or nothing.
std::string Admission::ForChunksText(const pipeline::Plan& plan) const {
  if (IsInBucketsChunks(plan)) return "";
  const pipeline::ModelRow& model = plan.stages.front().model->row();
  return absl::StrCat(" for chunks of ", *plan.spec.video->decode_chunk_size,
                      " frames (it is for those of ",
                      pipeline::DefaultChunk(model, plan.executed_size.frames), ")");
}

// " with steps of 1 row, which guidance_stop needs (...)", or nothing.
std::string Admission::ForRowsText(const pipeline::Plan& plan) const {
  if (plan.spec.output_embeds) return "";
  const std::vector<int> ready = models_.pipeline->RowCountsAt(plan.executed_size);
  const auto text = [&](int rows, absl::string_view use) {
    return absl::StrCat(" with steps of ", rows, rows == 1 ? " row" : " rows", ", which ", use,
                        " (--rows of the server is ", absl::StrJoin(ready, ","), ")");
  };
  if (!absl::c_linear_search(ready, plan.rows)) {
    return text(plan.rows, plan.guided() ? "guidance needs" : "images without guidance need");
  }
  if (!plan.may_end_guidance() || absl::c_linear_search(ready, 1)) return "";
  const bool stops = plan.spec.guidance_stop == pipeline::GuidanceStop::kAuto;
  return text(1, stops ? "guidance_stop needs" : "guidance_interval needs");
}

// "80x64 is not ready", or "80x64 is not one of 96x64, 64x64" where it is no bucket.
std::string Admission::NotReadyText(const pipeline::Plan& plan) const {
  const ModelBucket bucket = BucketOf(plan);
  const std::vector<pipeline::Size> configured = models_.buckets->ConfiguredOf(bucket.model);
  const std::string name = models_.buckets->NameOf(bucket);
  if (absl::c_linear_search(configured, bucket.size)) {
    return absl::StrCat(name, " is not ready", ForRequestText(plan), ForChunksText(plan),
                        ForRowsText(plan));
  }
  std::vector<std::string> names;
  for (const pipeline::Size& bucket : configured) names.push_back(SizeText(bucket));
  return absl::StrCat(name, " is not one of ", ListSome(names, kMostSizes));
}

absl::Status Admission::ColdBucket(const pipeline::Plan& plan, const absl::Status& why) const {
  const pipeline::PictureSpec& resolved = plan.spec;
  const std::string not_ready = NotReadyText(plan);
  if (resolved.bucket_policy != BucketPolicy::kColdOk) {
    return WithSizes(
        WithReason(absl::FailedPreconditionError(absl::StrCat(not_ready, ": ", why.message())),
                   "BUCKET_COLD"),
        AskedBucket(resolved), *models_.buckets);
  }
  return WithSizes(WithReason(absl::FailedPreconditionError(absl::StrCat(
                                  not_ready, "; ", WhyNotCompiled(), ": ", why.message())),
                              "COMPILE_FORBIDDEN"),
                   AskedBucket(resolved), *models_.buckets);
}

absl::Status Admission::CheckCold(const pipeline::Plan& plan) const {
  const bool needs_buckets_graphs = !plan.spec.output_embeds && IsInBucketsChunks(plan);
  if (needs_buckets_graphs) RETURN_IF_ERROR(CheckRoom(BucketOf(plan)));
  if (MayCompile(plan)) return CheckNotRefused(plan);
  const absl::Status compiled = models_.buckets->CheckKnownCompiled(plan);
  return compiled.ok() ? compiled : ColdBucket(plan, compiled);
}

void Admission::AddLoadTime(const pipeline::Plan& plan, LoadTime& load) const {
  absl::StatusOr<GraphHandles> graphs = models_.pipeline->HandlesOf(plan, kKnown);
  // Adapters that were never merged take about as long as the model did.
  const bool is_new = plan.adapters != 0 && IsCold(graphs.status());
  if (is_new) graphs = models_.pipeline->HandlesOf(plan, kKnown, pipeline::Pipeline::Of::kModels);
  load.known = load.known && graphs.ok() && !is_new;
  if (!graphs.ok()) return;
  for (const compiler::GraphHandle& graph : *graphs) {
    if (!is_new && absl::c_linear_search(load.counted, graph)) continue;
    if (!is_new) load.counted.push_back(graph);
    const compiler::GraphStatus info = store_.StatusOf(graph);
    if (!is_new && info.state == compiler::GraphState::kReady) continue;
    load.time += info.load_time;
    const bool is_learned = info.load_time > absl::ZeroDuration();
    load.known = load.known && is_learned && info.state != compiler::GraphState::kCold;
  }
}

Room Admission::RoomFor(const pipeline::Plan& plan) const {
  const absl::StatusOr<GraphHandles> graphs = models_.pipeline->HandlesOf(plan, kKnown);
  if (!graphs.ok() || !CheckNotRefused(plan).ok()) return Room::kNone;
  backends::MemoryNeeds together;
  for (const compiler::GraphHandle& graph : *graphs) {
    if (store_.StatusOf(graph).state == compiler::GraphState::kReady) continue;
    const auto needs = store_.Predict(graph);
    if (!needs.ok()) return Room::kNone;
    AddTo(together, *needs);
  }
  const compiler::GraphLabel label = LabelOf(plan);
  if (store_.CheckRoom(label, together, store_.MarkWanted(*graphs)).ok()) return Room::kNow;
  return store_.CheckRoomOnceIdle(label, together, *graphs).ok() ? Room::kOnceDrawn : Room::kNone;
}

absl::Status Admission::CheckLoadTime(const pipeline::Plan& plan, absl::Duration slack) const {
  LoadTime load;
  AddLoadTime(plan, load);
  if (load.time <= slack) return absl::OkStatus();
  return WithReason(
      absl::DeadlineExceededError(absl::StrCat(
          "the model has to be loaded first, which takes some ", absl::FormatDuration(load.time),
          ", and the deadline is in ", absl::FormatDuration(slack))),
      "PREDICTED_OVERRUN");
}

// Asks of a bucket that did not fit the last time if it does now, evicting what is idle.
absl::Status Admission::CheckRoom(const ModelBucket& bucket) const {
  absl::Status failure = models_.buckets->MemoryFailure(bucket);
  if (failure.ok()) return failure;
  ASSIGN_OR_RETURN(const GraphHandles graphs,
                   models_.buckets->GraphsOf(bucket, BucketGraphs::RowCounts::kOfPicture));
  const uint64_t now = store_.MarkWanted(graphs);
  for (const compiler::GraphHandle& graph : graphs) {
    RETURN_IF_ERROR(store_.CheckRoom(graph, now));
  }
  return absl::OkStatus();
}

bool Admission::IsInBucketsChunks(const pipeline::Plan& plan) const {
  if (!plan.spec.video) return true;
  const pipeline::ModelRow& model = plan.stages.front().model->row();
  return *plan.spec.video->decode_chunk_size ==
         pipeline::DefaultChunk(model, plan.executed_size.frames);
}

// True where the budget has been asked for what it needs: at start, or when its bucket was added.
bool Admission::IsServed(const pipeline::Plan& plan) const {
  const ModelBucket bucket = BucketOf(plan);
  return plan.adapters == 0 && ReadsPrompts(plan) && IsInBucketsChunks(plan) &&
         models_.buckets->IsServed(bucket) && !models_.buckets->IsOnDemand(bucket);
}

absl::Status Admission::CheckNotRefused(const pipeline::Plan& plan) const {
  if (IsServed(plan)) return absl::OkStatus();
  const auto refused = refused_.Find(plan.graphs);
  if (!refused.has_value() || refused->bytes <= budget_.bytes()) return absl::OkStatus();
  return WithChunk(TooLarge(plan, refused->bytes, budget_.bytes()), refused->chunk);
}

// Refuses what it can as early as possible: before the next graph is planned. What was
// planned stays in memory for who makes it ready, or leaves with the graphs' handles.
absl::Status Admission::CheckFitsAsAsked(const pipeline::Plan& plan, const GraphHandles& graphs,
                                         uint64_t evict_unused_since,
                                         absl::FunctionRef<bool()> is_wanted) {
  const pipeline::Size size = plan.executed_size;
  if (IsServed(plan)) return absl::OkStatus();
  const compiler::GraphLabel label = LabelOf(plan);
  const auto check_room = [&](const backends::MemoryNeeds& needs) {
    return store_.CheckRoom(label, needs, evict_unused_since);
  };
  RETURN_IF_ERROR(check_room({}));  // planning itself needs memory
  backends::MemoryNeeds together;
  MemoryTally tally;
  const bool draws = !plan.spec.output_embeds;
  const int decode_chunk = plan.spec.video ? *plan.spec.video->decode_chunk_size : 0;
  tally.AddState(draws
                     ? models_.pipeline->StateBytes(size, label.rows, plan.chunks(), decode_chunk) +
                           label.rows * pipeline::ImagePromptRowBytes(plan)
                     : plan.state_bytes);
  for (const compiler::GraphHandle& graph : graphs) {
    if (!is_wanted()) return absl::CancelledError("the request was cancelled");
    if (store_.Get(graph, {.mode = compiler::GetMode::kReady}).ok()) continue;
    const auto needs = store_.Predict(graph);
    const bool ends = absl::IsResourceExhausted(needs.status()) || device::IsFault(needs.status());
    if (ends) return needs.status();
    if (!needs.ok()) continue;  // the request fails with it when its graphs are made ready
    AddTo(together, *needs);
    tally.Add(GraphStore::IdOf(graph), *needs);
    const int64_t needed = tally.prediction().total();
    if (needed <= budget_.bytes()) continue;
    if (draws) refused_.Add(plan.graphs, needed);  // all graphs of a picture, not text's alone
    return TooLarge(plan, needed, budget_.bytes());
  }
  return check_room(together);
}

int Admission::ChunkThatFits(const pipeline::Plan& plan, uint64_t evict_unused_since,
                             absl::FunctionRef<bool()> is_wanted) {
  pipeline::Plan smaller = plan;
  std::vector<RefusedSizes::Graphs> refused = {plan.graphs};
  for (int chunk = *plan.spec.video->decode_chunk_size / 2; chunk > 0 && is_wanted(); chunk /= 2) {
    smaller.spec.video->decode_chunk_size = chunk;
    smaller.graphs = pipeline::VideoGraphs(plan, chunk);
    const absl::StatusOr<GraphHandles> graphs =
        models_.pipeline->HandlesOf(smaller, pipeline::ModelGraphs::IfUnknown::kBuild);
    if (!graphs.ok()) return 0;
    if (CheckFitsAsAsked(smaller, *graphs, evict_unused_since, is_wanted).ok()) {
      for (const RefusedSizes::Graphs& larger : refused) refused_.SetChunk(larger, chunk);
      return chunk;
    }
    refused.push_back(smaller.graphs);
  }
  return 0;
}

absl::Status Admission::CheckFits(const pipeline::Plan& plan, const GraphHandles& graphs,
                                  uint64_t evict_unused_since,
                                  absl::FunctionRef<bool()> is_wanted) {
  const absl::Status known = CheckNotRefused(plan);
  if (!known.ok()) return known;
  absl::Status fits = CheckFitsAsAsked(plan, graphs, evict_unused_since, is_wanted);
  if (!plan.spec.video || !absl::IsResourceExhausted(fits)) return fits;
  return WithChunk(fits, ChunkThatFits(plan, evict_unused_since, is_wanted));
}

}  // namespace latentd::engine
