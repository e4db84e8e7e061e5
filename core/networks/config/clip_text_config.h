// The fields that transformers' CLIPTextModel and CLIPTextModelWithProjection read from their
// config.json. A value beyond that is an error that names it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/networks/layers/layers.h"

namespace latentd::networks {

enum class ClipTextKind : uint8_t { kPlain, kWithProjection };

struct ClipTextConfig {
  ClipTextKind kind = ClipTextKind::kPlain;
  int64_t vocab_size = 49408;
  int64_t hidden_size = 512;
  int64_t intermediate_size = 2048;
  int64_t projection_dim = 512;  // size of the pooled output; read iff kWithProjection
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 8;
  int64_t max_position_embeddings = 77;
  Activation activation = Activation::kQuickGelu;
  double layer_norm_eps = 1e-5;
  int64_t eos_token_id = 49407;
  std::vector<std::string> unknown_fields = {};  // ConfigReader's

  int64_t pooled_features() const {
    return kind == ClipTextKind::kWithProjection ? projection_dim : hidden_size;
  }
};

// CLIPTextModel or CLIPTextModelWithProjection, as model_index.json names it.
absl::StatusOr<ClipTextKind> ParseClipTextKind(absl::string_view class_name);

// `source` names the file or component in errors. The config.json does not tell the kind.
absl::StatusOr<ClipTextConfig> ParseClipTextConfig(absl::string_view json, absl::string_view source,
                                                   ClipTextKind kind);

// Position in `ids` (one sequence) of the token whose state is pooled, by the convention that the
// config selects: with eos_token_id 2, which old configs have by mistake, that of the largest id;
// otherwise the first eos_token_id. 0 if there is none, as transformers has it. REQUIRES: ids is
// not empty.
int64_t EosPosition(const ClipTextConfig& config, absl::Span<const int64_t> ids);

}  // namespace latentd::networks
