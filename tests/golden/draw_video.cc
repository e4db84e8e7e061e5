#include "tests/golden/draw_video.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/families/svd/video_graphs.h"
#include "core/families/svd/video_image.h"
#include "core/noise/noise_generator.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/schedulers/schedule.h"
#include "tests/support/safetensors_writer.h"

namespace latentd::golden {
namespace {

using device::Buffer;
using device::ConstBuffer;
using device::DType;
using device::Shape;

Buffer Filled(const Shape& shape, float value) {
  Buffer buffer = Buffer::Allocate(DType::kF32, shape);
  for (float& one : buffer.as<float>()) one = value;
  return buffer;
}

Buffer RowNumbers(int64_t rows, int64_t number) {
  Buffer buffer = Buffer::Allocate(DType::kI64, {rows});
  for (int64_t& one : buffer.as<int64_t>()) one = number;
  return buffer;
}

// One of a graph's outputs, once "finite" says that it is.
absl::StatusOr<ConstBuffer> FiniteOutput(const VideoBuffers& outputs, const std::string& name) {
  const auto found = outputs.find(name), finite = outputs.find("finite");
  if (found == outputs.end() || finite == outputs.end()) {
    return absl::InternalError(absl::StrCat("a graph of the video has no ", name));
  }
  if (absl::c_all_of(finite->second.as<uint8_t>(), [](uint8_t row) { return row == 1; })) {
    return found->second;
  }
  return absl::InternalError(absl::StrCat(name, " of the video is not finite"));
}

class Drawing {
 public:
  Drawing(const VideoConfigs& configs, VideoSpec resolved, DType dtype, const LoadGraph& load,
          const VideoExtras& extras)
      : configs_(configs),
        spec_(std::move(resolved)),
        extras_(extras),
        dtype_(dtype),
        load_(load),
        rows_(families::svd::IsGuided(spec_) ? 2 : 1),
        frames_(*spec_.num_frames),
        channels_(configs.vae.latent_channels),
        height_(spec_.height / configs.vae.downscale()),
        width_(spec_.width / configs.vae.downscale()),
        noise_(spec_.seed) {}

  absl::StatusOr<Video> Run(const image::Image& image) {
    ASSIGN_OR_RETURN(
        schedule_, schedulers::MakeSchedule(
                       configs_.scheduler,
                       {.num_inference_steps = spec_.num_inference_steps, .sigmas = spec_.sigmas}));
    RETURN_IF_ERROR(EncodeImage(image));
    RETURN_IF_ERROR(EncodeLatents(image));
    RETURN_IF_ERROR(Denoise());
    RETURN_IF_ERROR(Decode());
    return std::move(video_);
  }

 private:
  int64_t frame_elements() const { return channels_ * height_ * width_; }
  int64_t elements() const { return frames_ * frame_elements(); }

  absl::StatusOr<ConstBuffer> RunOnce(const absl::StatusOr<graph::Graph>& graph, DType dtype,
                                      const VideoBuffers& inputs, const std::string& output) {
    RETURN_IF_ERROR(graph.status());
    ASSIGN_OR_RETURN(const RunGraph run, load_(*graph, {dtype}));
    ASSIGN_OR_RETURN(const VideoBuffers outputs, run(inputs));
    return FiniteOutput(outputs, output);
  }

  absl::Status EncodeImage(const image::Image& image) {
    ASSIGN_OR_RETURN(const Buffer pixels, EncoderPixels(configs_, image));
    ASSIGN_OR_RETURN(video_.image_embeds, RunOnce(MakeImageEncoderGraph(configs_), dtype_,
                                                  {{"pixel_values", pixels}}, "image_embeds"));
    return absl::OkStatus();
  }

  absl::Status EncodeLatents(const image::Image& image) {
    ASSIGN_OR_RETURN(const Buffer pixels,
                     families::svd::VaePixels(image, spec_.width, spec_.height));
    const VideoBuffers inputs = {
        {"image", pixels},
        {"noise", noise_.Normal({1, 3, spec_.height, spec_.width})},
        {"noise_aug_strength", Filled({1}, static_cast<float>(spec_.noise_aug_strength))}};
    ASSIGN_OR_RETURN(video_.image_latents,
                     RunOnce(MakeImageLatentsGraph(configs_, spec_.height, spec_.width),
                             ImageLatentsDType(configs_, dtype_), inputs, "image_latents"));
    return absl::OkStatus();
  }

  // The image's own in the last row; zeros in the negative one before it.
  Buffer InLastRow(const ConstBuffer& of_image) const {
    const int64_t width = of_image.elements();
    Buffer rows = Buffer::Allocate(DType::kF32, {rows_, width});
    absl::c_copy(of_image.as<float>(), rows.Rows(rows_ - 1, rows_).as<float>().begin());
    return rows;
  }

  template <typename Values>
  Buffer InEveryRow(const Values& values) const {
    Buffer rows = Buffer::Allocate(DType::kF32, {rows_, static_cast<int64_t>(values.size())});
    for (int64_t row = 0; row < rows_; ++row) {
      absl::c_copy(values, rows.Rows(row, row + 1).as<float>().begin());
    }
    return rows;
  }

  // All rows have the same latents, whose history is zeros.
  Buffer FirstState() {
    const Shape shape = {1, frames_, channels_, height_, width_};
    const Buffer drawn = extras_.latents_seed
                             ? noise::NoiseGenerator(*extras_.latents_seed).Normal(shape)
                             : noise_.Normal(shape);
    const auto scale = static_cast<float>(schedule_.initial_noise_scale);
    Buffer state = Buffer::Allocate(DType::kF32, {rows_, schedulers::kStateRows, elements()});
    for (int64_t row = 0; row < rows_; ++row) {
      absl::c_transform(drawn.as<float>(), state.Rows(row, row + 1).as<float>().begin(),
                        [&](float number) { return number * scale; });
    }
    return state;
  }

  Buffer Tables() const {
    std::vector<float> table(static_cast<size_t>(pipeline::kMaxEvaluations) *
                             schedulers::kLineElements);
    schedulers::WriteTable(schedule_, absl::MakeSpan(table));
    return InEveryRow(table).Reshaped(
        {rows_, pipeline::kMaxEvaluations, static_cast<int64_t>(schedulers::kLineElements)});
  }

  VideoBuffers StepInputs() {
    return {{"state", FirstState()},
            {"step", RowNumbers(rows_, 0)},
            {"table", Tables()},
            {"text_rows", RowNumbers(rows_, rows_ - 1)},
            {"guidance_scale", InEveryRow(families::svd::GuidanceByFrame(spec_))},
            {"image_latents", InLastRow(video_.image_latents)},
            {"image_embeds", InLastRow(video_.image_embeds)},
            {"time_ids", InEveryRow(families::svd::TimeIdsOf(spec_))}};
  }

  absl::Status Denoise() {
    ASSIGN_OR_RETURN(const graph::Graph graph,
                     MakeVideoStepGraph(configs_, {rows_, frames_, height_, width_}));
    ASSIGN_OR_RETURN(const RunGraph run, load_(graph, {dtype_}));
    VideoBuffers inputs = StepInputs();
    const auto steps = static_cast<double>(schedule_.steps.size());
    const int begin = static_cast<int>(extras_.guided.start * steps);
    const int end = static_cast<int>(extras_.guided.stop * steps);
    int number = 0;
    for (const schedulers::StepCoefficients& step : schedule_.steps) {
      const bool is_guided = number >= begin && number < end;
      inputs["negative_rows"] = RowNumbers(rows_, is_guided ? 0 : rows_ - 1);
      ++number;
      inputs["noise"] = InEveryRow(NoiseOf(step).as<float>());
      ASSIGN_OR_RETURN(const VideoBuffers outputs, run(inputs));
      ASSIGN_OR_RETURN(inputs["state"], FiniteOutput(outputs, "state"));
      inputs["step"] = outputs.at("step");
    }
    video_.latents = Buffer::Allocate(DType::kF32, {frames_, channels_, height_, width_});
    // x comes first in a row's state.
    std::memcpy(video_.latents.data(), inputs.at("state").data(), video_.latents.bytes());
    return absl::OkStatus();
  }

  Buffer NoiseOf(const schedulers::StepCoefficients& step) {
    const Shape shape = {1, frames_, channels_, height_, width_};
    return step.draws_noise ? noise_.Normal(shape) : Buffer::Allocate(DType::kF32, shape);
  }

  absl::Status Decode() {
    const int64_t chunk = std::min<int64_t>(*spec_.decode_chunk_size, frames_);
    RunGraph run;
    for (int64_t begin = 0; begin < frames_; begin += chunk) {
      const int64_t end = std::min(begin + chunk, frames_);
      if (run == nullptr || end - begin < chunk) {
        ASSIGN_OR_RETURN(const graph::Graph graph,
                         MakeFramesGraph(configs_, {1, end - begin, height_, width_}));
        ASSIGN_OR_RETURN(run, load_(graph, {dtype_}));
      }
      ASSIGN_OR_RETURN(const VideoBuffers outputs,
                       run({{"latents", video_.latents.Rows(begin, end)}}));
      ASSIGN_OR_RETURN(const ConstBuffer pixels, FiniteOutput(outputs, "pixels"));
      for (int64_t i = 0; i < end - begin; ++i) AddFrame(pixels.Rows(i, i + 1));
    }
    return absl::OkStatus();
  }

  void AddFrame(const ConstBuffer& pixels) {
    const auto bytes = pixels.as<uint8_t>();
    video_.frames.push_back({spec_.width, spec_.height, {bytes.begin(), bytes.end()}});
  }

  const VideoConfigs& configs_;
  const VideoSpec spec_;
  const VideoExtras extras_;
  const DType dtype_;
  const LoadGraph& load_;
  const int64_t rows_, frames_, channels_, height_, width_;  // latents
  noise::NoiseGenerator noise_;
  schedulers::Schedule schedule_;
  Video video_;
};

}  // namespace

std::string LatentsFileOf(const VideoSpec& spec, const VideoExtras& extras) {
  if (!extras.latents_seed) return "";
  const std::vector<int64_t> shape = {1, spec.num_frames.value(), 4, spec.height / 8,
                                      spec.width / 8};
  const Buffer noise = noise::NoiseGenerator(*extras.latents_seed).Normal(Shape(shape));
  const auto values = noise.as<float>();
  return testing::SafetensorsBytes(
      {testing::F32Tensor("latents", shape, {values.begin(), values.end()})});
}

absl::StatusOr<Video> DrawVideo(const VideoConfigs& configs, const VideoSpec& spec,
                                const image::Image& image, DType dtype, const LoadGraph& load,
                                const VideoExtras& extras) {
  ASSIGN_OR_RETURN(VideoSpec resolved, ResolveVideo(configs, spec));
  return Drawing(configs, std::move(resolved), dtype, load, extras).Run(image);
}

}  // namespace latentd::golden
