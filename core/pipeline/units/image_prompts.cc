#include "core/pipeline/units/image_prompts.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/image/pixels/resize.h"
#include "core/pipeline/graphs/image_prompt_graph.h"
#include "core/pipeline/picture/pixels.h"
#include "core/pipeline/plan/image_embeds.h"
#include "core/pipeline/plan/image_prompts.h"

namespace latentd::pipeline {
namespace {

using device::Buffer;
using device::DType;
using device::Place;

// CLIP's, by red, green and blue.
constexpr std::array<float, 3> kImageMean = {0.48145466f, 0.4578275f, 0.40821073f};
constexpr std::array<float, 3> kImageDeviation = {0.26862954f, 0.26130258f, 0.27577711f};

const backends::Port& PortOf(const backends::Executable& executable, absl::string_view name) {
  return *std::find_if(executable.inputs().begin(), executable.inputs().end(),
                       [&](const backends::Port& port) { return port.name == name; });
}

absl::StatusOr<image::Image> ReadImage(Request& request, const std::string& file,
                                       const std::string& field) {
  ASSIGN_OR_RETURN(const MemoryRoom room, TakeRoomForPixels(file, field));
  return DecodeField(file, field, request.image_warnings);
}

// The middle of the image as CLIP's processor cuts it out, once its shorter side is `side`.
absl::StatusOr<image::Image> CutSquare(const image::Image& image, const std::string& field,
                                       int side) {
  const int64_t shorter = std::min(image.width, image.height);
  const auto scaled = [&](int of) { return static_cast<int>(int64_t{side} * of / shorter); };
  const absl::StatusOr<image::Image> scaled_image =
      image::ResizeBicubic(image, scaled(image.width), scaled(image.height));
  if (!scaled_image.ok()) {
    return InvalidFields({{field, std::string(scaled_image.status().message())}});
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

// Pixels of the images of the adapter with that index, as the encoder reads them.
absl::StatusOr<std::vector<Buffer>> PixelsOf(Request& request, size_t index, int side) {
  std::vector<Buffer> pixels;
  for (const std::string& file : request.inputs->ip_adapter_images[index]) {
    const std::string field = ImagePromptField(index, pixels.size());
    ASSIGN_OR_RETURN(const image::Image image, ReadImage(request, file, field));
    ASSIGN_OR_RETURN(const image::Image square, CutSquare(image, field, side));
    pixels.push_back(NormedPlanes(square));
  }
  return pixels;
}

// Results of the encoder for images, one behind the other, in the first rows of what the prompt
// reads.
absl::StatusOr<Buffer> EncodeImages(const RequestImagePrompt& prompt,
                                    const std::vector<Buffer>& pixels, device::Stream& stream,
                                    PendingWork& work) {
  const backends::Port& port = PortOf(*prompt.prompt, "image");
  ASSIGN_OR_RETURN(const Buffer all,
                   prompt.encoder->device().Allocate(port.dtype, port.shape, Place::kDevice));
  for (size_t i = 0; i < pixels.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    RETURN_IF_ERROR(EnqueueGraph(prompt.encoder,
                                 {{"pixels", pixels[i]}, {"image", all.Rows(row, row + 1)}},
                                 /*to_host=*/{}, stream, work)
                        .status());
  }
  return all;
}

// The images of the row of the negative prompt: zeros in place of embeddings, but of states of
// patches those of pixels that are zeros once they are normed, as diffusers has it.
absl::StatusOr<Buffer> NegativeImages(const RequestImagePrompt& prompt, device::Stream& stream,
                                      PendingWork& work) {
  const backends::Port& port = PortOf(*prompt.prompt, "image");
  if (port.shape.rank() == 2) return Buffer::Allocate(port.dtype, port.shape);
  const backends::Port& pixels = PortOf(*prompt.encoder, "pixels");
  const std::vector<Buffer> black = {Buffer::Allocate(pixels.dtype, pixels.shape)};
  ASSIGN_OR_RETURN(const Buffer all, EncodeImages(prompt, black, stream, work));
  for (int64_t row = 1; row < port.shape[0]; ++row) {
    RETURN_IF_ERROR(prompt.encoder->device().Copy(all.Rows(0, 1), all.Rows(row, row + 1), stream));
  }
  return all;
}

Buffer ScalesOf(const RequestImagePrompt& prompt, const std::vector<double>& factors) {
  Buffer scales = Buffer::Allocate(DType::kF32, PortOf(*prompt.prompt, "scales").shape);
  absl::c_transform(factors, scales.as<float>().begin(),
                    [](double factor) { return static_cast<float>(factor); });
  return scales;
}

// Embeddings that the request brings for a row in place of what the encoder would give.
absl::StatusOr<Buffer> GivenImages(const RequestImagePrompt& prompt, const HostTensor& embeds,
                                   bool is_negative, device::Stream& stream, PendingWork& work) {
  ASSIGN_OR_RETURN(Buffer given,
                   prompt.prompt->device().Allocate(
                       DType::kF32, PortOf(*prompt.prompt, "image").shape, Place::kPinned));
  if (ReadImageEmbeds(embeds, is_negative, given.as<float>())) return given;
  return NegativeImages(prompt, stream, work);
}

// Inputs of the prompt graph for each of the picture's rows, the negative prompt's first.
absl::StatusOr<std::vector<Buffer>> ImagesOfRows(Request& request, size_t index, int64_t rows,
                                                 device::Stream& stream, PendingWork& work) {
  const RequestImagePrompt& prompt = request.image_prompts[index];
  const size_t in_spec = request.plan->image_prompts[index].index;
  const HostTensor* embeds = ImageEmbedsOf(*request.inputs, in_spec);
  std::vector<Buffer> pixels, all;
  if (embeds == nullptr) {
    const auto side = static_cast<int>(PortOf(*prompt.encoder, "pixels").shape[3]);
    ASSIGN_OR_RETURN(pixels, PixelsOf(request, in_spec, side));
  }
  for (int64_t row = 0; row < rows; ++row) {
    const bool is_negative = row + 1 < rows;
    if (embeds != nullptr) {
      ASSIGN_OR_RETURN(all.emplace_back(), GivenImages(prompt, *embeds, is_negative, stream, work));
    } else {
      ASSIGN_OR_RETURN(all.emplace_back(), is_negative
                                               ? NegativeImages(prompt, stream, work)
                                               : EncodeImages(prompt, pixels, stream, work));
    }
  }
  return all;
}

absl::StatusOr<Buffer> EncodeRows(Request& request, size_t index, device::Stream& stream,
                                  PendingWork& work) {
  const RequestImagePrompt& prompt = request.image_prompts[index];
  const size_t in_spec = request.plan->image_prompts[index].index;
  const auto rows = static_cast<int64_t>(request.plan->stages.front().most_rows());
  const backends::Port& packed = prompt.prompt->outputs().front();
  ASSIGN_OR_RETURN(const Buffer all, prompt.prompt->device().Allocate(
                                         packed.dtype, {rows, packed.shape[1]}, Place::kDevice));
  const Buffer scales = ScalesOf(prompt, request.spec().ip_adapters[in_spec].attention_scales);
  ASSIGN_OR_RETURN(const std::vector<Buffer> images,
                   ImagesOfRows(request, index, rows, stream, work));
  for (int64_t row = 0; row < rows; ++row) {
    const NamedBuffers ports = {{"image", images[static_cast<size_t>(row)]},
                                {"scales", scales},
                                {kImagePromptPort, all.Rows(row, row + 1)}};
    RETURN_IF_ERROR(EnqueueGraph(prompt.prompt, ports, /*to_host=*/{}, stream, work).status());
  }
  return all;
}

}  // namespace

absl::Status EncodeImagePrompts(Picture& picture, device::Stream& stream, PendingWork& work) {
  Request& request = *picture.request;
  if (picture.stage_index != 0) return absl::OkStatus();
  for (size_t i = 0; i < request.image_prompts.size(); ++i) {
    if (request.image_prompts[i].rows.has_memory()) continue;
    ASSIGN_OR_RETURN(request.image_prompts[i].rows, EncodeRows(request, i, stream, work));
  }
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
