#include "core/pipeline/units/image_prompts.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/image/pixels/resize.h"
#include "core/pipeline/graphs/image_prompt_graph.h"
#include "core/pipeline/units/pixels.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using device::Place;

constexpr char kImageField[] = "ip_adapters[0].image";

// CLIP's, by red, green and blue.
constexpr std::array<float, 3> kImageMean = {0.48145466f, 0.4578275f, 0.40821073f};
constexpr std::array<float, 3> kImageDeviation = {0.26862954f, 0.26130258f, 0.27577711f};

const backends::Port& PortOf(const backends::Executable& executable, absl::string_view name) {
  return *std::find_if(executable.inputs().begin(), executable.inputs().end(),
                       [&](const backends::Port& port) { return port.name == name; });
}

absl::StatusOr<image::Image> ReadImage(Request& request) {
  const std::string& file = request.inputs->ip_adapter_images.front();
  ASSIGN_OR_RETURN(const MemoryRoom room, TakeRoomForPixels(file, kImageField));
  return DecodeField(file, kImageField, request.image_warnings);
}

// The middle of the image as CLIP's processor cuts it out, once its shorter side is `side`.
absl::StatusOr<image::Image> CutSquare(const image::Image& image, int side) {
  const int64_t shorter = std::min(image.width, image.height);
  const auto scaled = [&](int of) { return static_cast<int>(int64_t{side} * of / shorter); };
  const absl::StatusOr<image::Image> scaled_image =
      image::ResizeBicubic(image, scaled(image.width), scaled(image.height));
  if (!scaled_image.ok()) {
    return InvalidFields({{kImageField, std::string(scaled_image.status().message())}});
  }
  const image::Image& resized = *scaled_image;
  const int left = (resized.width - side) / 2, top = (resized.height - side) / 2;
  image::Image cut{side, side, {}};
  for (int y = 0; y < side; ++y) {
    const auto row = resized.rgb.begin() + 3 * (int64_t{top + y} * resized.width + left);
    cut.rgb.insert(cut.rgb.end(), row, row + 3 * side);
  }
  return cut;
}

// Planes of the image, normed: [1, 3, side, side].
Buffer NormedPlanes(const image::Image& image) {
  constexpr float kWhite = 255;
  Buffer planes = Buffer::Allocate(DType::kF32, {1, 3, image.height, image.width});
  const absl::Span<float> values = planes.as<float>();
  const size_t pixels = image.rgb.size() / 3;
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    const size_t colour = i % 3;
    values[colour * pixels + i / 3] =
        (static_cast<float>(image.rgb[i]) / kWhite - kImageMean[colour]) / kImageDeviation[colour];
  }
  return planes;
}

absl::StatusOr<Buffer> EncodeImage(const RequestImagePrompt& prompt, const Buffer& pixels,
                                   device::Stream& stream, PendingWork& work) {
  ASSIGN_OR_RETURN(const NamedBuffers outputs, EnqueueGraph(prompt.encoder, {{"pixels", pixels}},
                                                            /*to_host=*/{}, stream, work));
  return outputs.at("image");
}

// The image of the row of the negative prompt: zeros in place of an embedding, but of states of
// patches those of pixels that are zeros once they are normed, as diffusers has it.
absl::StatusOr<Buffer> NegativeImage(const RequestImagePrompt& prompt, const Buffer& pixels,
                                     device::Stream& stream, PendingWork& work) {
  const backends::Port& port = PortOf(*prompt.prompt, "image");
  if (port.shape.rank() == 2) return Buffer::Allocate(DType::kF32, port.shape);
  return EncodeImage(prompt, Buffer::Allocate(DType::kF32, pixels.shape()), stream, work);
}

// The same for every attention.
Buffer ScalesOf(const RequestImagePrompt& prompt, double scale) {
  Buffer scales = Buffer::Allocate(DType::kF32, PortOf(*prompt.prompt, "scales").shape);
  const absl::Span<float> values = scales.as<float>();
  std::fill(values.begin(), values.end(), static_cast<float>(scale));
  return scales;
}

absl::StatusOr<Buffer> EncodeRows(Request& request, device::Stream& stream, PendingWork& work) {
  const RequestImagePrompt& prompt = *request.image_prompt;
  ASSIGN_OR_RETURN(const image::Image image, ReadImage(request));
  const auto side = static_cast<int>(PortOf(*prompt.encoder, "pixels").shape[3]);
  ASSIGN_OR_RETURN(const image::Image square, CutSquare(image, side));
  const Buffer pixels = NormedPlanes(square);
  const auto rows = static_cast<int64_t>(request.plan->stages.front().most_rows());
  const backends::Port& packed = prompt.prompt->outputs().front();
  ASSIGN_OR_RETURN(const Buffer all, prompt.prompt->device().Allocate(
                                         packed.dtype, {rows, packed.shape[1]}, Place::kDevice));
  const Buffer scales = ScalesOf(prompt, *request.spec().ip_adapters.front().scale);
  for (int64_t row = 0; row < rows; ++row) {
    const bool is_negative = row + 1 < rows;
    ASSIGN_OR_RETURN(const Buffer encoded, is_negative ? NegativeImage(prompt, pixels, stream, work)
                                                       : EncodeImage(prompt, pixels, stream, work));
    const NamedBuffers ports = {
        {"image", encoded}, {"scales", scales}, {kImagePromptPort, all.Rows(row, row + 1)}};
    RETURN_IF_ERROR(EnqueueGraph(prompt.prompt, ports, /*to_host=*/{}, stream, work).status());
  }
  return all;
}

}  // namespace

absl::Status EncodeImagePrompt(Picture& picture, device::Stream& stream, PendingWork& work) {
  Request& request = *picture.request;
  if (picture.stage_index != 0 || !request.image_prompt) return absl::OkStatus();
  if (request.image_prompt->rows.has_memory()) return absl::OkStatus();
  ASSIGN_OR_RETURN(request.image_prompt->rows, EncodeRows(request, stream, work));
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
