#include "tests/golden/video_cases.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/backends/reference/evaluate.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"
#include "core/image/decode.h"
#include "core/image/pixels/fit.h"
#include "core/weights/containers/checkpoint.h"
#include "core/weights/containers/safetensors.h"
#include "tests/golden/case_files.h"
#include "tests/golden/draw_video.h"
#include "tests/golden/losses.h"
#include "tests/golden/network_runner.h"
#include "tests/golden/synthetic_checkpoint.h"
#include "tests/golden/video_pipeline.h"

namespace latentd::golden {
namespace {

using nlohmann::json;

constexpr char kVideoCheckpoint[] = "svd";
constexpr size_t kMaxImageBytes = size_t{1} << 26;
constexpr double kPixelTolerance = 1;

// The checkpoint's configurations, and its networks on a backend.
struct LoadedVideos {
  VideoConfigs configs;
  std::unique_ptr<NetworkRunner> runner;
  std::unique_ptr<VideoPipeline> pipeline, in_parts;
};

absl::StatusOr<LoadedVideos> LoadVideos(const std::string& folder, const Options& options,
                                        backends::Backend& backend) {
  LoadedVideos loaded;
  ASSIGN_OR_RETURN(const weights::Checkpoint checkpoint,
                   weights::Checkpoint::Open({.path = folder, .flag = "video"}));
  ASSIGN_OR_RETURN(loaded.configs, families::svd::ReadVideoConfigs(checkpoint));
  std::map<std::string, weights::SourceMap> components;
  for (const char* component :
       {families::svd::kUnet, families::svd::kVae, families::svd::kImageEncoder}) {
    ASSIGN_OR_RETURN(components[component], checkpoint.LoadWeights(component));
  }
  loaded.runner = std::make_unique<NetworkRunner>(
      backend, components,
      compiler::CompileOptions{options.skip_passes, backends::reference::EvaluateRecipe});
  using Decoder = VideoPipeline::Decoder;
  ASSIGN_OR_RETURN(loaded.pipeline, VideoPipeline::Load(folder, options, Decoder::kWhole, backend));
  ASSIGN_OR_RETURN(loaded.in_parts,
                   VideoPipeline::Load(folder, options, Decoder::kInParts, backend));
  return loaded;
}

template <typename Number>
void Take(const json& from, const char* field, Number& to) {
  if (from.contains(field)) to = from.at(field).get<Number>();
}
void Take(const json& from, const char* field, std::optional<int>& to) {
  if (from.contains(field)) to = from.at(field).get<int>();
}

VideoSpec SpecOf(const json& video_case) {
  VideoSpec spec;
  Take(video_case, "width", spec.width);
  Take(video_case, "height", spec.height);
  Take(video_case, "num_frames", spec.num_frames);
  Take(video_case, "num_inference_steps", spec.num_inference_steps);
  Take(video_case, "sigmas", spec.sigmas);
  Take(video_case, "min_guidance_scale", spec.min_guidance_scale);
  Take(video_case, "max_guidance_scale", spec.max_guidance_scale);
  Take(video_case, "fps", spec.fps);
  Take(video_case, "motion_bucket_id", spec.motion_bucket_id);
  Take(video_case, "noise_aug_strength", spec.noise_aug_strength);
  Take(video_case, "decode_chunk_size", spec.decode_chunk_size);
  Take(video_case, "seed", spec.seed);
  if (video_case.value("resize_mode", "") == "crop") spec.resize_mode = pipeline::ResizeMode::kCrop;
  return spec;
}

VideoExtras ExtrasOf(const json& video_case) {
  VideoExtras extras;
  if (video_case.contains("guidance_interval")) {
    const json& interval = video_case.at("guidance_interval");
    extras.guided = {interval.at(0).get<double>(), interval.at(1).get<double>()};
  }
  if (video_case.contains("latents_seed")) {
    extras.latents_seed = video_case.at("latents_seed").get<uint64_t>();
  }
  return extras;
}

using Frames = std::vector<image::Image>;

// Differences of the frames' bytes.
struct FrameDistances {
  double largest = 0, mean = 0;
};

// Differences from frames, [frames, height, width, 3].
absl::StatusOr<FrameDistances> FrameDistance(const device::ConstBuffer& wanted,
                                             const Frames& frames) {
  const auto count = static_cast<int64_t>(frames.size());
  if (wanted.shape()[0] != count) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " frames instead of ", wanted.shape()[0]));
  }
  int worst = 0;
  int64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto bytes = wanted.Rows(i, i + 1).as<uint8_t>();
    const image::Image& frame = frames[static_cast<size_t>(i)];
    if (frame.height != wanted.shape()[1] || frame.rgb.size() != bytes.size()) {
      return absl::InvalidArgumentError("a frame of another size");
    }
    for (size_t byte = 0; byte < bytes.size(); ++byte) {
      const int difference = std::abs(int{bytes[byte]} - int{frame.rgb[byte]});
      worst = std::max(worst, difference);
      sum += difference;
    }
  }
  return FrameDistances{static_cast<double>(worst),
                        static_cast<double>(sum) / static_cast<double>(wanted.elements())};
}

absl::StatusOr<std::vector<Measure>> MeasuresOf(const weights::TensorMap& expected,
                                                const Video& video, const Frames& by_units) {
  std::vector<Measure> measures;
  const std::pair<const char*, device::ConstBuffer> tensors[] = {
      {"image_embeds", video.image_embeds},
      {"image_latents", video.image_latents},
      {"latents", video.latents}};
  for (const auto& [name, actual] : tensors) {
    ASSIGN_OR_RETURN(const device::ConstBuffer wanted, FindTensor(expected, name));
    ASSIGN_OR_RETURN(const double distance, Distance(wanted, actual, Scale::kRelative));
    measures.push_back({name, distance, kVideoTolerance});
  }
  ASSIGN_OR_RETURN(const device::ConstBuffer frames, FindTensor(expected, "frames"));
  ASSIGN_OR_RETURN(const FrameDistances pixels, FrameDistance(frames, video.frames));
  measures.push_back({"pixels", pixels.largest, kPixelTolerance});
  ASSIGN_OR_RETURN(const FrameDistances of_units, FrameDistance(frames, by_units));
  measures.push_back({"pixels of units", of_units.largest, kPixelTolerance});
  return measures;
}

// Losses in a lesser precision, beside those of diffusers.
absl::StatusOr<std::vector<Measure>> LossesOf(const std::string& name, const Losses& losses,
                                              const weights::TensorMap& expected,
                                              const Video& video, const Frames& by_units) {
  std::vector<Measure> measures;
  const auto measure = [&](const char* what, const char* as, double loss) {
    const std::optional<double> own = losses.Of(name, what);
    if (own) measures.push_back({as, loss, kVideoLossFactor * *own, Bound::kAtMost, own});
    return own.has_value();
  };
  ASSIGN_OR_RETURN(const device::ConstBuffer latents, FindTensor(expected, "latents"));
  ASSIGN_OR_RETURN(const double lost, Distance(latents, video.latents, Scale::kRootMeanSquare));
  ASSIGN_OR_RETURN(const device::ConstBuffer frames, FindTensor(expected, "frames"));
  ASSIGN_OR_RETURN(const FrameDistances pixels, FrameDistance(frames, video.frames));
  ASSIGN_OR_RETURN(const FrameDistances of_units, FrameDistance(frames, by_units));
  if (measure("latents", "latents", lost) && measure("pixels", "pixels", pixels.mean) &&
      measure("pixels", "pixels of units", of_units.mean)) {
    return measures;
  }
  return absl::NotFoundError(absl::StrCat("losses.json has not what diffusers loses of ", name));
}

absl::StatusOr<std::string> ImageFileOf(const json& video_case, const Options& options) {
  return ReadFile(
      absl::StrCat(options.cases, "/pictures/", video_case.value("image", ""), "-0.png"),
      kMaxImageBytes);
}

// A case's video by each way to draw it.
struct DrawnVideo {
  Video video;                // network by network
  Frames by_units, by_parts;  // unit by unit, and so by a decoder in parts
};

absl::StatusOr<DrawnVideo> DrawCase(const json& video_case, const LoadedVideos& loaded,
                                    const Options& options) {
  const VideoSpec spec = SpecOf(video_case);
  const VideoExtras extras = ExtrasOf(video_case);
  ASSIGN_OR_RETURN(const std::string file, ImageFileOf(video_case, options));
  ASSIGN_OR_RETURN(image::Image image, image::Decode(file));
  if (spec.resize_mode == pipeline::ResizeMode::kCrop) {
    ASSIGN_OR_RETURN(image, image::ResizeToCover(image, spec.width, spec.height));
  }
  // Network by network fp8 is bf16; unit by unit it is what a server has.
  const device::DType dtype = options.IsInBf16() ? device::DType::kBF16 : options.precision;
  DrawnVideo drawn;
  ASSIGN_OR_RETURN(drawn.video,
                   DrawVideo(
                       loaded.configs, spec, image, dtype,
                       [&](const graph::Graph& graph, const graph::Precision& precision) {
                         return loaded.runner->Load(graph, precision);
                       },
                       extras));
  ASSIGN_OR_RETURN(drawn.by_units, loaded.pipeline->Draw(spec, extras, file));
  ASSIGN_OR_RETURN(drawn.by_parts, loaded.in_parts->Draw(spec, extras, file));
  if (drawn.by_units.empty()) return absl::InternalError("a video without frames");
  return drawn;
}

absl::StatusOr<std::vector<Measure>> RunVideo(const json& video_case, const LoadedVideos& loaded,
                                              const Options& options) {
  const std::string name = video_case.value("name", "");
  ASSIGN_OR_RETURN(
      const weights::TensorMap expected,
      weights::ReadSafetensors(absl::StrCat(options.cases, "/videos/", name, ".safetensors")));
  ASSIGN_OR_RETURN(const DrawnVideo drawn, DrawCase(video_case, loaded, options));
  std::vector<Measure> measures;
  if (options.IsExact()) {
    ASSIGN_OR_RETURN(measures, MeasuresOf(expected, drawn.video, drawn.by_units));
  } else {
    ASSIGN_OR_RETURN(const Losses losses, Losses::Read(options));
    ASSIGN_OR_RETURN(measures, LossesOf(name, losses, expected, drawn.video, drawn.by_units));
  }
  // Frames of the decoder in parts are the bytes of it as a whole, in every precision.
  const bool same = drawn.by_units == drawn.by_parts;
  measures.push_back({"frames by parts", same ? 0.0 : 1.0, 0});
  return measures;
}

}  // namespace

void RunVideoCases(const Options& options, backends::Backend& backend, Report& report) {
  const absl::StatusOr<json> cases = ReadJsonFile(options.cases + "/videos.json");
  if (!cases.ok()) return report.Failed("videos", cases.status());
  std::unique_ptr<const SyntheticCheckpoint> written;
  LoadedVideos loaded;
  for (const json& video_case : *cases) {
    const std::string name = video_case.value("name", "");
    if (!options.Selects(name)) continue;
    if (loaded.runner == nullptr) {
      auto checkpoint = SyntheticCheckpoint::Write(options, kVideoCheckpoint);
      if (!checkpoint.ok()) return report.Failed("videos", checkpoint.status());
      written = *std::move(checkpoint);
      auto videos = LoadVideos(written->path(), options, backend);
      if (!videos.ok()) return report.Failed("videos", videos.status());
      loaded = *std::move(videos);
    }
    const auto measures = RunVideo(video_case, loaded, options);
    if (measures.ok()) report.Measured(name, *measures);
    if (!measures.ok()) report.Failed(name, measures.status());
  }
}

}  // namespace latentd::golden
