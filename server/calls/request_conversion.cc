#include "server/calls/request_conversion.h"

#include <memory>
#include <utility>

#include "server/calls/field_conversion.h"
#include "server/calls/request_form.h"

namespace latentd::server::calls {
namespace {

namespace v1 = ::latent::v1;

image::Format FromProto(v1::Format format) {
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

image::EncodeOptions FromProto(const v1::Output& output) {
  image::EncodeOptions options;
  options.format = FromProto(output.format());
  if (output.has_quality()) options.quality = output.quality();
  if (output.has_embed_parameters()) options.embed_parameters = output.embed_parameters();
  return options;
}

}  // namespace

ConvertedRequest ToSpec(v1::GenerateRequest request) {
  ConvertedRequest converted;
  converted.violations = CheckForm(request);
  engine::GenerateSpec& spec = converted.spec;
  spec.request_id = request.request_id();
  spec.output = FromProto(request.output());
  spec.priority = request.priority();
  SetFields(request, spec.picture);
  if (request.has_image() || request.has_mask_image() || request.has_latents()) {
    spec.inputs = std::make_shared<const pipeline::Inputs>(
        pipeline::Inputs{.image = std::move(*request.mutable_image()),
                         .mask_image = std::move(*request.mutable_mask_image()),
                         .latents = std::move(*request.mutable_latents())});
  }
  return converted;
}

}  // namespace latentd::server::calls
