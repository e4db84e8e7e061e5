#include "core/networks/config/clip_text_config.h"

#include <algorithm>

#include "core/base/errors/status_macros.h"
#include "core/networks/config/config_reader.h"

namespace latentd::networks {
namespace {

// The eos token of before transformers 4.31, which some configs name instead of the right one.
constexpr int64_t kMistakenEosToken = 2;

void ReadSizes(ConfigReader& reader, ClipTextConfig& config) {
  constexpr Range kFeatures = {1, 1 << 16};
  config.vocab_size = reader.Integer("vocab_size", 49408, {1, 1 << 24});
  config.hidden_size = reader.Integer("hidden_size", 512, kFeatures);
  config.intermediate_size = reader.Integer("intermediate_size", 2048, {1, 1 << 18});
  config.projection_dim = reader.IntegerOrNull("projection_dim", kFeatures).value_or(512);
  config.num_hidden_layers = reader.Integer("num_hidden_layers", 12, {1, 256});
  config.num_attention_heads = reader.Integer("num_attention_heads", 8, {1, 1024});
  config.max_position_embeddings = reader.Integer("max_position_embeddings", 77, {1, 1 << 16});
  if (config.hidden_size % config.num_attention_heads != 0) {
    reader.Mistake("num_attention_heads",
                   absl::StrCat("is ", config.num_attention_heads,
                                "; supported: divisors of hidden_size, ", config.hidden_size));
  }
}

}  // namespace

absl::StatusOr<ClipTextKind> ParseClipTextKind(absl::string_view class_name) {
  if (class_name == "CLIPTextModel") return ClipTextKind::kPlain;
  if (class_name == "CLIPTextModelWithProjection") return ClipTextKind::kWithProjection;
  return absl::InvalidArgumentError(
      absl::StrCat("text encoder class \"", class_name.substr(0, 64),
                   "\"; supported: CLIPTextModel, CLIPTextModelWithProjection"));
}

absl::StatusOr<ClipTextConfig> ParseClipTextConfig(absl::string_view json, absl::string_view source,
                                                   ClipTextKind kind) {
  const absl::string_view class_name =
      kind == ClipTextKind::kPlain ? "CLIPTextModel" : "CLIPTextModelWithProjection";
  ASSIGN_OR_RETURN(ConfigReader reader, ConfigReader::Parse(json, source, class_name));
  ClipTextConfig config;
  config.kind = kind;
  reader.Choice("model_type", "clip_text_model", {"clip_text_model"});
  // Not which of them: the class is model_index.json's to choose.
  if (!reader.IsNull("architectures")) {
    reader.Choices("architectures", {},
                   {"CLIPTextModel", "CLIPTextModelWithProjection", "CLIPModel"});
  }
  ReadSizes(reader, config);
  if (kind == ClipTextKind::kWithProjection && reader.IsNull("projection_dim")) {
    reader.Mistake("projection_dim", "is null; supported: an integer");
  }
  config.activation =
      ParseActivation(reader.Choice("hidden_act", "quick_gelu", {"quick_gelu", "gelu"}));
  config.layer_norm_eps = reader.Positive("layer_norm_eps", 1e-5);
  config.eos_token_id = reader.Integer("eos_token_id", 49407, {0, 1 << 24});
  RETURN_IF_ERROR(reader.Finish(kUnreadByClipText));
  config.unknown_fields = reader.unknown_fields();
  return config;
}

int64_t EosPosition(const ClipTextConfig& config, absl::Span<const int64_t> ids) {
  if (config.eos_token_id == kMistakenEosToken) {
    return std::max_element(ids.begin(), ids.end()) - ids.begin();
  }
  const auto found = std::find(ids.begin(), ids.end(), config.eos_token_id);
  return found == ids.end() ? 0 : found - ids.begin();
}

}  // namespace latentd::networks
