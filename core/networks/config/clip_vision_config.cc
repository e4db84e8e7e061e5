#include "core/networks/config/clip_vision_config.h"

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/networks/config/config_reader.h"

namespace latentd::networks {
namespace {

void ReadVisionSizes(ConfigReader& reader, ClipVisionConfig& config) {
  constexpr Range kFeatures = {1, 1 << 16};
  constexpr Range kPixels = {1, 1 << 12};
  config.num_channels = reader.Integer("num_channels", 3, {1, 16});
  config.image_size = reader.Integer("image_size", 224, kPixels);
  config.patch_size = reader.Integer("patch_size", 32, kPixels);
  config.hidden_size = reader.Integer("hidden_size", 768, kFeatures);
  config.intermediate_size = reader.Integer("intermediate_size", 3072, {1, 1 << 18});
  config.projection_dim = reader.Integer("projection_dim", 512, kFeatures);
  config.num_hidden_layers = reader.Integer("num_hidden_layers", 12, {1, 256});
  config.num_attention_heads = reader.Integer("num_attention_heads", 12, {1, 1024});
  if (config.patch_size > config.image_size) {
    reader.Mistake("patch_size",
                   absl::StrCat("is ", config.patch_size, "; supported: at most image_size, ",
                                config.image_size));
  }
  if (config.hidden_size % config.num_attention_heads != 0) {
    reader.Mistake("num_attention_heads",
                   absl::StrCat("is ", config.num_attention_heads,
                                "; supported: divisors of hidden_size, ", config.hidden_size));
  }
}

}  // namespace

absl::StatusOr<ClipVisionConfig> ParseClipVisionConfig(absl::string_view json,
                                                       absl::string_view source) {
  ASSIGN_OR_RETURN(ConfigReader reader,
                   ConfigReader::Parse(json, source, "CLIPVisionModelWithProjection"));
  ClipVisionConfig config;
  reader.Choice("model_type", "clip_vision_model", {"clip_vision_model"});
  if (!reader.IsNull("architectures")) {
    reader.Choices("architectures", {},
                   {"CLIPVisionModelWithProjection", "CLIPVisionModel", "CLIPModel"});
  }
  ReadVisionSizes(reader, config);
  config.activation =
      ParseActivation(reader.Choice("hidden_act", "quick_gelu", {"quick_gelu", "gelu"}));
  config.layer_norm_eps = reader.Positive("layer_norm_eps", 1e-5);
  RETURN_IF_ERROR(reader.Finish(kUnreadByClipVision));
  config.unknown_fields = reader.unknown_fields();
  return config;
}

}  // namespace latentd::networks
