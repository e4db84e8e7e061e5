#include "server/generation/conversion/adapter_conversion.h"

#include <cstdint>
#include <string>
#include <utility>

#include "core/base/text/utf8.h"
#include "core/pipeline/spec/request/control_modes.h"

namespace latentd::server::generation {

namespace v1 = ::latent::v1;

namespace {

v1::AdapterKind KindOf(pipeline::AdapterKind kind) {
  switch (kind) {
    case pipeline::AdapterKind::kLora:
      return v1::ADAPTER_KIND_LORA;
    case pipeline::AdapterKind::kTextualInversion:
      return v1::ADAPTER_KIND_TEXTUAL_INVERSION;
    case pipeline::AdapterKind::kControlNet:
      return v1::ADAPTER_KIND_CONTROLNET;
    case pipeline::AdapterKind::kIpAdapter:
      return v1::ADAPTER_KIND_IP_ADAPTER;
    case pipeline::AdapterKind::kUnknown:
      break;
  }
  return v1::ADAPTER_KIND_UNSPECIFIED;
}

}  // namespace

v1::AdapterInfo ToProto(const pipeline::AdapterFacts& facts) {
  v1::AdapterInfo proto;
  proto.set_name(ToUtf8(facts.name));
  proto.set_kind(KindOf(facts.kind));
  proto.set_digest(facts.digest);
  for (const std::string& model : facts.models) proto.add_models(model);
  for (const std::string& warning : facts.warnings) proto.add_warnings(ToUtf8(warning));
  proto.set_rank(facts.rank);
  proto.set_alpha(facts.alpha);
  proto.set_changes(facts.changes);
  proto.set_vectors(facts.vectors);
  for (std::string& mode : pipeline::NamesOfControlModes(facts.control_modes)) {
    proto.add_control_modes(std::move(mode));
  }
  proto.set_variant(facts.variant);
  proto.set_image_tokens(facts.image_tokens);
  for (const int64_t side : facts.image_shape) proto.add_image_embeds_shape(side);
  proto.set_base_model(ToUtf8(facts.base_model));
  proto.set_trigger_phrase(ToUtf8(facts.trigger_phrase));
  for (const std::string& word : facts.trigger_words) proto.add_trigger_words(ToUtf8(word));
  proto.set_clip_skip(ToUtf8(facts.clip_skip));
  proto.set_prediction_type(ToUtf8(facts.prediction_type));
  proto.set_preset(ToUtf8(facts.preset));
  if (facts.recommended_weight) proto.set_recommended_weight(*facts.recommended_weight);
  return proto;
}

}  // namespace latentd::server::generation
