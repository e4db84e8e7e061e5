#include "server/generation/conversion/request_conversion.h"

#include <memory>
#include <utility>

#include "server/generation/conversion/field_conversion.h"
#include "server/generation/conversion/request_form.h"
#include "server/generation/conversion/video_conversion.h"

namespace latentd::server::generation {
namespace {

namespace v1 = ::latent::v1;

// Any that guides: the negative prompt is encoded too.
constexpr double kGuided = 2;

image::Format FormatOf(v1::Format format) {
  switch (format) {
    case v1::FORMAT_JPEG:
      return image::Format::kJpeg;
    case v1::FORMAT_WEBP:
      return image::Format::kWebp;
    case v1::FORMAT_RAW_RGB8:
      return image::Format::kRawRgb8;
    case v1::FORMAT_LATENT:
      return image::Format::kLatent;
    default:  // an unknown value is a violation of its own
      return image::Format::kPng;
  }
}

// The numbers are moved out of the message.
pipeline::HostTensor TakeTensor(v1::Tensor& tensor) {
  return {.type = FromProto(tensor.dtype()),
          .shape = {tensor.shape().begin(), tensor.shape().end()},
          .data = std::move(*tensor.mutable_data())};
}

pipeline::Embeds PromptEmbeds(v1::GenerateRequest& request) {
  pipeline::Embeds embeds;
  if (request.has_prompt_embeds()) embeds.states = TakeTensor(*request.mutable_prompt_embeds());
  if (request.has_pooled_prompt_embeds()) {
    embeds.pooled = TakeTensor(*request.mutable_pooled_prompt_embeds());
  }
  return embeds;
}

pipeline::Embeds NegativeEmbeds(v1::GenerateRequest& request) {
  pipeline::Embeds embeds;
  if (request.has_negative_prompt_embeds()) {
    embeds.states = TakeTensor(*request.mutable_negative_prompt_embeds());
  }
  if (request.has_negative_pooled_prompt_embeds()) {
    embeds.pooled = TakeTensor(*request.mutable_negative_pooled_prompt_embeds());
  }
  return embeds;
}

// All images of an adapter; empty: it has none.
std::vector<std::string> ImagesOf(v1::IpAdapter& adapter) {
  std::vector<std::string> images;
  if (adapter.image().empty() && adapter.more_images().empty()) return images;
  images.push_back(std::move(*adapter.mutable_image()));
  for (std::string& image : *adapter.mutable_more_images()) images.push_back(std::move(image));
  return images;
}

// Null: it brings none.
pipeline::SharedInputs InputsOf(v1::GenerateRequest& request) {
  pipeline::Inputs inputs = {.prompt = PromptEmbeds(request), .negative = NegativeEmbeds(request)};
  const bool files = request.has_image() || request.has_mask_image() || request.has_latents();
  const bool has_listed = request.controls_size() > 0 || request.ip_adapters_size() > 0;
  if (!files && !has_listed && !inputs.prompt.given() && !inputs.negative.given()) return nullptr;
  for (v1::Control& control : *request.mutable_controls()) {
    inputs.control_images.push_back(std::move(*control.mutable_image()));
  }
  for (v1::IpAdapter& one : *request.mutable_ip_adapters()) {
    inputs.ip_adapter_images.push_back(ImagesOf(one));
    auto& embeds = inputs.ip_adapter_embeds.emplace_back();
    if (one.has_image_embeds()) embeds = TakeTensor(*one.mutable_image_embeds());
  }
  inputs.image = std::move(*request.mutable_image());
  inputs.mask_image = std::move(*request.mutable_mask_image());
  inputs.latents = std::move(*request.mutable_latents());
  return std::make_shared<const pipeline::Inputs>(std::move(inputs));
}

}  // namespace

image::EncodeOptions OptionsOf(const v1::Output& output) {
  image::EncodeOptions options;
  options.format = FormatOf(output.format());
  if (output.has_quality()) options.quality = output.quality();
  if (output.has_embed_parameters()) options.embed_parameters = output.embed_parameters();
  return options;
}

pipeline::HostTensor::Type FromProto(v1::Tensor::Dtype dtype) {
  using Type = pipeline::HostTensor::Type;
  if (dtype == v1::Tensor::DTYPE_FLOAT16) return Type::kFloat16;
  return dtype == v1::Tensor::DTYPE_BFLOAT16 ? Type::kBFloat16 : Type::kFloat32;
}

ConvertedRequest ToSpec(v1::GenerateRequest request) {
  return ToSpec(ParsedRequest{std::move(request)});
}

ConvertedRequest ToSpec(ParsedRequest parsed) {
  if (parsed.video) return ToSpec(*std::move(parsed.video));
  v1::GenerateRequest& request = parsed.request;
  ConvertedRequest converted;
  converted.violations = CheckForm(request, /*draws=*/!parsed.embeds);
  engine::GenerateSpec& spec = converted.spec;
  spec.request_id = request.request_id();
  spec.output = OptionsOf(request.output());
  spec.priority = request.priority();
  SetFields(request, spec.picture);
  spec.inputs = InputsOf(request);
  if (parsed.embeds) {
    spec.picture.output_embeds = parsed.embeds;
    spec.picture.guidance_scale = kGuided;
    spec.output.format = image::Format::kEmbeds;
  }
  return converted;
}

}  // namespace latentd::server::generation
