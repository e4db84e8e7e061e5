#include "core/models/clip_text_config.h"

#include <algorithm>

#include "core/base/status_macros.h"
#include "core/models/config_reader.h"

namespace latentd::models {
namespace {

// Where configs name it, the eos token of before transformers 4.31.
constexpr int64_t kMistakenEosToken = 2;

// What transformers writes into every model's config and CLIP's text models do not read.
void IgnoreGenericFields(ConfigReader& reader) {
  reader.Ignore({"_name_or_path",
                 "_attn_implementation",
                 "_attn_implementation_autoset",
                 "_commit_hash",
                 "_diffusers_version",
                 "dtype",
                 "torch_dtype",
                 "transformers_version",
                 "attention_dropout",
                 "dropout",
                 "initializer_factor",
                 "initializer_range",
                 "bos_token_id",
                 "pad_token_id",
                 "sep_token_id",
                 "decoder_start_token_id",
                 "gradient_checkpointing",
                 "return_dict",
                 "output_hidden_states",
                 "output_attentions",
                 "torchscript",
                 "use_cache",
                 "tie_word_embeddings",
                 "tie_encoder_decoder",
                 "chunk_size_feed_forward",
                 "id2label",
                 "label2id",
                 "problem_type",
                 "task_specific_params",
                 "finetuning_task",
                 "tokenizer_class",
                 "prefix"});
  // How a generating model would draw its next token.
  reader.Ignore({"bad_words_ids",
                 "begin_suppress_tokens",
                 "diversity_penalty",
                 "do_sample",
                 "early_stopping",
                 "encoder_no_repeat_ngram_size",
                 "exponential_decay_length_penalty",
                 "forced_bos_token_id",
                 "forced_eos_token_id",
                 "length_penalty",
                 "max_length",
                 "min_length",
                 "no_repeat_ngram_size",
                 "num_beam_groups",
                 "num_beams",
                 "num_return_sequences",
                 "output_scores",
                 "remove_invalid_values",
                 "repetition_penalty",
                 "return_dict_in_generate",
                 "suppress_tokens",
                 "temperature",
                 "tf_legacy_loss",
                 "top_k",
                 "top_p",
                 "typical_p"});
}

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
  reader.Refuse({"add_cross_attention", "cross_attention_hidden_size", "is_decoder",
                 "is_encoder_decoder", "use_bfloat16"});
  reader.RefuseUnlessEmpty("pruned_heads");
  IgnoreGenericFields(reader);
  RETURN_IF_ERROR(reader.Finish());
  return config;
}

int64_t EosPosition(const ClipTextConfig& config, absl::Span<const int64_t> ids) {
  if (config.eos_token_id == kMistakenEosToken) {
    return std::max_element(ids.begin(), ids.end()) - ids.begin();
  }
  const auto found = std::find(ids.begin(), ids.end(), config.eos_token_id);
  return found == ids.end() ? 0 : found - ids.begin();
}

}  // namespace latentd::models
