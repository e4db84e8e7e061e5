#include "core/pipeline/plan/video_plan.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/families/family/video_family.h"
#include "core/image/decode.h"
#include "core/pipeline/lanes/step_lane.h"
#include "core/pipeline/spec/request/limits.h"

namespace latentd::pipeline {
namespace {

constexpr int64_t kF32Bytes = sizeof(float);
// Antialiasing reflects the image at its edges.
constexpr int kLeastImageSide = 2;

using FoundFields = std::vector<FieldViolation>;

template <typename... Parts>
void AddField(FoundFields& found, const char* field, const Parts&... parts) {
  found.push_back({field, absl::StrCat(parts...)});
}

void CheckVideoImage(const Inputs& inputs, FoundFields& found) {
  if (inputs.image.empty()) return AddField(found, "image", "is required: a video is drawn of it");
  const absl::StatusOr<image::Dimensions> size = image::ReadDimensions(inputs.image);
  if (!size.ok()) return AddField(found, "image", size.status().message());
  if (std::min(size->width, size->height) >= kLeastImageSide) return;
  AddField(found, "image", "is ", size->width, "x", size->height, "; supported: sides from ",
           kLeastImageSide, " on");
}

void CheckCounts(const PictureSpec& spec, FoundFields& found) {
  const int count = spec.num_images_per_prompt.value_or(1);
  if (count < 1 || count > kMaxImagesPerPrompt) {
    AddField(found, "num_videos_per_prompt", "must be 1 to ", kMaxImagesPerPrompt, ", is ", count);
  }
  if (spec.seeds.size() > size_t{kMaxImagesPerPrompt}) {
    AddField(found, "seeds", "has ", spec.seeds.size(), "; supported: at most ",
             kMaxImagesPerPrompt);
  }
  if (spec.seeds.empty()) return;
  if (spec.seed) AddField(found, "seeds", "names each video's: unset seed");
  if (spec.num_images_per_prompt && spec.seeds.size() != static_cast<size_t>(count)) {
    AddField(found, "seeds", "must have one entry for each of ", count, " videos, has ",
             spec.seeds.size());
  }
}

void CheckVideoFields(const PictureSpec& spec, const Traits& traits, FoundFields& found) {
  CheckCounts(spec, found);
  absl::c_move(FindViolationsOf("guidance_interval", spec, traits), std::back_inserter(found));
  if (!spec.sigmas.empty() && spec.num_inference_steps) {
    AddField(found, "sigmas", "says how many steps there are: unset num_inference_steps");
  }
  if (spec.bucket_policy == BucketPolicy::kSnap) {
    AddField(found, "bucket_policy", "must not be BUCKET_POLICY_SNAP: no video is cut out of one");
  }
  const int every = spec.previews_every.value_or(1);
  if (every < 1) AddField(found, "previews.every_n_steps", "must be at least 1, is ", every);
  if (spec.output_latents) AddField(found, "output.format", "must be one of images");
}

void AddFields(const absl::Status& status, const char* otherwise, FoundFields& found) {
  if (status.ok()) return;
  const FoundFields fields = GetFieldViolations(status);
  found.insert(found.end(), fields.begin(), fields.end());
  if (fields.empty()) AddField(found, otherwise, status.message());
}

// Frames of the bucket with these sides, of several the one that comes nearest to the default.
int FramesOf(const ModelRow& model, int width, int height) {
  const int by_default = model.default_size.frames;
  std::optional<int> frames;
  for (const Size& bucket : model.buckets) {
    if (bucket.width != width || bucket.height != height) continue;
    const int distance = std::abs(bucket.frames - by_default);
    if (!frames || distance < std::abs(*frames - by_default)) frames = bucket.frames;
  }
  return frames.value_or(by_default);
}

// The video's spec, with those fields that images have too.
VideoSpec WholeVideoSpec(const PictureSpec& spec, const ModelRow& model) {
  VideoSpec video = *spec.video;
  video.width = spec.width.value_or(model.default_size.width);
  video.height = spec.height.value_or(model.default_size.height);
  if (!video.num_frames) video.num_frames = FramesOf(model, video.width, video.height);
  video.num_inference_steps = spec.num_inference_steps.value_or(model.defaults.steps);
  video.sigmas = spec.sigmas;
  if (!video.decode_chunk_size) {
    const int frames = std::clamp(*video.num_frames, 1, kMostFramesOfVideo);
    video.decode_chunk_size = DefaultChunk(model, frames);
  }
  return video;
}

// Sets what is read of the fields of images.
void FillFromVideo(const VideoSpec& video, const Traits& traits, PictureSpec& spec) {
  spec.width = video.width;
  spec.height = video.height;
  if (spec.sigmas.empty()) spec.num_inference_steps = video.num_inference_steps;
  spec = WithDefaults(std::move(spec), traits, /*image_size=*/nullptr);
  spec.guidance_scale = std::max(video.min_guidance_scale, video.max_guidance_scale);
  spec.has_image = true;
  spec.video = video;
}

absl::Status CheckVideoLatents(const LoadedModel& model, const Inputs& inputs, PictureSpec& spec) {
  spec.has_latents = !inputs.latents.empty();
  if (!spec.has_latents) return absl::OkStatus();
  const int scale = DownscaleOf(model.vae());
  const absl::Status fits = CheckLatentsFile(
      inputs.latents,
      VideoLatentsShape(static_cast<int64_t>(spec.seeds.size()), *spec.video->num_frames,
                        model.latent_channels(), {*spec.height / scale, *spec.width / scale}));
  if (!absl::IsInvalidArgument(fits)) return fits;
  return InvalidFields({{"latents", std::string(fits.message())}});
}

absl::Status AddVideoStage(const LoadedModel& model, const VideoSpec& video, Plan& plan) {
  PlannedStage stage{.model = &model};
  ASSIGN_OR_RETURN(stage.scheduler, model.SchedulerWith({}));
  ASSIGN_OR_RETURN(
      stage.schedule,
      schedulers::MakeSchedule(stage.scheduler, {.num_inference_steps = video.num_inference_steps,
                                                 .sigmas = video.sigmas}));
  const families::VideoFamily& videos = *model.family().videos;
  const int rows = videos.is_guided(video) ? 2 : 1;
  for (int row = 0; row < rows; ++row) {
    families::RowInputs& inputs = stage.prompts.emplace_back();
    inputs.request.push_back({families::kTimeIds, videos.time_ids(video)});
  }
  stage.prompts.back().text.emplace_back();  // the image, in a chunk of no tokens
  if (stage.schedule.steps.size() > size_t{kMaxEvaluations}) {
    return InvalidFields({{"num_inference_steps",
                           absl::StrCat("makes more than ", kMaxEvaluations, " evaluations")}});
  }
  plan.stages.push_back(std::move(stage));
  return absl::OkStatus();
}

// Frames of a row, in elements.
int64_t RowElements(const LoadedModel& model, const StepShape& shape) {
  return shape.frames * model.latent_channels() * shape.height * shape.width;
}

int64_t PixelsOf(Size size) { return int64_t{3} * size.width * size.height; }

// Results of the image encoder, and for a row what a step reads of them.
int64_t EmbedsBytes(const LoadedModel& model) {
  return model.graphs().text_bytes() + model.graphs().request_bytes();
}

StepShape StepShapeOf(const Plan& plan) {
  StepShape shape{plan.rows, static_cast<int>(plan.latents.height),
                  static_cast<int>(plan.latents.width)};
  shape.frames = plan.executed_size.frames;
  return shape;
}

StepShape OfChunk(StepShape shape, int frames) {
  shape.rows = 1;
  shape.frames = frames;
  return shape;
}

// Latents before the steps and after them, those of a chunk, and the image's with those of the
// negative row; noise on the image, on the host and on the device; and what parts of the decoder
// leave for each other.
int64_t OneVideoBytes(const LoadedModel& model, const StepShape& shape, Size size, int chunk) {
  const int64_t latents = RowElements(model, shape) * kF32Bytes;
  return 3 * latents + 3 * latents / shape.frames + 2 * PixelsOf(size) * kF32Bytes +
         model.graphs().FeatureBytesOf(OfChunk(shape, std::min(chunk, shape.frames)));
}

// Pixels of a chunk as its graph gives them and on the host, and those of frames that wait to be
// encoded.
int64_t DecodedBytes(Size size) { return 3 * size.frames * PixelsOf(size); }

}  // namespace

int DefaultChunk(const ModelRow& model, int frames) {
  return model.decode_chunk > 0 ? std::min(model.decode_chunk, frames) : frames;
}

int ChunkAt(const VideoSpec& resolved, int first) {
  return std::min(*resolved.decode_chunk_size, *resolved.num_frames - first);
}

int DecoderPartsOf(const Plan& plan, int frames) {
  return static_cast<int>(absl::c_count_if(plan.graphs, [&](const PlannedGraph& graph) {
    return graph.name.kind == GraphKind::kDecode && graph.name.shape.frames == frames;
  }));
}

int WorkOfPart(int frames, int parts) { return (frames + parts - 1) / parts; }

absl::Status ResolveVideoSpec(const LoadedModel& model, const Traits& traits, const Inputs& inputs,
                              std::vector<FieldViolation> found, Plan& plan) {
  PictureSpec& spec = plan.spec;
  const ModelRow& row = traits.models[model.row().id];
  spec.model = row.name;
  CheckVideoImage(inputs, found);
  CheckVideoFields(spec, traits, found);
  const absl::StatusOr<VideoSpec> video =
      model.family().videos->resolve(model.configs(), WholeVideoSpec(spec, row));
  AddFields(video.status(), "video", found);
  if (!found.empty()) return InvalidFields(found);
  VideoSpec resolved = *video;
  if (*resolved.decode_chunk_size > *resolved.num_frames) {
    plan.warnings.push_back(absl::StrCat("decode_chunk_size ", *resolved.decode_chunk_size,
                                         " is more than the video's ", *resolved.num_frames,
                                         " frames, which are decoded together"));
    resolved.decode_chunk_size = resolved.num_frames;
  }
  AddFields(AddVideoStage(model, resolved, plan),
            resolved.sigmas.empty() ? "num_inference_steps" : "sigmas", found);
  if (!found.empty()) return InvalidFields(found);
  FillFromVideo(resolved, traits, spec);
  return CheckVideoLatents(model, inputs, spec);
}

void CompleteVideoPlan(const LoadedModel& model, const std::vector<int>& row_counts, Plan& plan) {
  const int scale = DownscaleOf(model.vae());
  const Size& size = plan.executed_size;
  PlanRows(*plan.spec.guidance_interval, plan.stages);
  const PlannedStage& stage = plan.stages.front();
  plan.latents = plan.image_latents = {size.height / scale, size.width / scale};
  plan.rows = stage.most_rows();
  plan.spec.scheduler.name = stage.scheduler.full_name();
  plan.alone = plan.spec.batch_invariant && !model.graphs().has_batch_invariant_steps();
  plan.units = UnitsFor(/*stages=*/1, /*image=*/true, /*decoded=*/true);
  plan.graphs = VideoGraphs(plan, *plan.spec.video->decode_chunk_size);
  StepShape shape = StepShapeOf(plan);
  for (int rows : row_counts) {
    if (rows <= plan.rows || plan.alone) continue;
    shape.rows = rows;
    plan.dispensable.push_back({model.row().id, {GraphKind::kStep, shape}});
  }
}

std::vector<PlannedGraph> VideoGraphs(const LoadedModel& model, const StepShape& shape, int chunk) {
  const ModelId id = model.row().id;
  const StepShape one = OfChunk(shape, /*frames=*/1);
  std::vector<PlannedGraph> graphs = {{id, {.kind = GraphKind::kText}},
                                      {id, {.kind = GraphKind::kRequest}},
                                      {id, {GraphKind::kStep, shape}},
                                      {id, {GraphKind::kEncode, one}}};
  const auto add_decode = [&](int frames) {
    if (frames == 0) return;
    const StepShape of = OfChunk(shape, frames);
    const int parts = model.graphs().DecoderPartsOf(of);
    for (int part = 1; part <= parts; ++part) {
      graphs.push_back(
          {id, {.kind = GraphKind::kDecode, .shape = of, .part = parts > 1 ? part : 0}});
    }
    if (!model.graphs().has_decode_fallback()) return;
    graphs.push_back({id, {GraphKind::kDecodeFallback, of}});
  };
  add_decode(chunk);
  add_decode(shape.frames % chunk);
  return graphs;
}

std::vector<PlannedGraph> VideoGraphs(const Plan& plan, int chunk) {
  const LoadedModel& model = *plan.stages.front().model;
  StepShape shape = StepShapeOf(plan);
  std::vector<PlannedGraph> graphs = VideoGraphs(model, shape, chunk);
  if (!plan.may_end_guidance()) return graphs;
  shape.rows = 1;
  graphs.push_back({model.row().id, {GraphKind::kStep, shape}});
  return graphs;
}

int64_t VideoPreviewBytes(const LoadedModel& model, const StepShape& shape) {
  const int64_t terms = int64_t{schedulers::kPredictionTerms} * RowElements(model, shape);
  return 2 * terms * kF32Bytes;
}

int64_t VideoRequestBytes(const LoadedModel& model, const StepShape& shape, Size size, int chunk,
                          int videos) {
  return shape.rows * EmbedsBytes(model) + PixelsOf(size) +
         videos * OneVideoBytes(model, shape, size, chunk) + DecodedBytes(size);
}

int64_t VideoStateBytes(const LoadedModel& model, const StepShape& shape, Size size, int chunk) {
  const std::vector<RowPort> ports =
      model.graphs().StepPorts(RowElements(model, shape), {.frames = shape.frames});
  return StepLane::Bytes(ports, shape.rows) +
         shape.rows *
             (EmbedsBytes(model) + PixelsOf(size) + OneVideoBytes(model, shape, size, chunk)) +
         DecodedBytes(size);
}

}  // namespace latentd::pipeline
