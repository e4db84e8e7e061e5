#include "core/weights/containers/recognize/text_encoder_part.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/weights/containers/recognize/refuse_file.h"

namespace latentd::weights {
namespace {

using device::Shape;
using nlohmann::json;

struct EncoderPrefix {
  EncoderPlace place;
  absl::string_view prefix;
};

// The names of transformers follow the first two kinds, those of OpenCLIP the last.
constexpr EncoderPrefix kEncoderPrefixes[] = {
    {EncoderPlace::kFirst, "cond_stage_model.transformer."},
    {EncoderPlace::kFirst, "conditioner.embedders.0.transformer."},
    {EncoderPlace::kFirst, "clip_l.transformer."},
    {EncoderPlace::kFirst, "clip_h.transformer."},
    {EncoderPlace::kFirst, "text_encoders.clip_l.transformer."},
    {EncoderPlace::kFirst, "text_encoder."},
    {EncoderPlace::kFirst, "te1."},
    {EncoderPlace::kFirst, "te."},
    {EncoderPlace::kSecond, "conditioner.embedders.1.transformer."},
    {EncoderPlace::kSecond, "clip_g.transformer."},
    {EncoderPlace::kSecond, "text_encoders.clip_g.transformer."},
    {EncoderPlace::kSecond, "text_encoder_2."},
    {EncoderPlace::kSecond, "te2."},
    {EncoderPlace::kOpenClip, "cond_stage_model.model."},
    {EncoderPlace::kOpenClip, "conditioner.embedders.1.model."},
    {EncoderPlace::kOpenClip, "conditioner.embedders.0.model."},
    {EncoderPlace::kOpenClip, "clip_g."},
    {EncoderPlace::kOpenClip, "clip_h."},
    {EncoderPlace::kOpenClip, ""},
    {EncoderPlace::kFirst, ""},
};

constexpr absl::string_view kResblocks = "transformer.resblocks";
constexpr int64_t kHeadFeatures = 64;
constexpr int64_t kAllLayersOfH = 24;

bool HasEncoder(const PartTensors& tensors, EncoderPlace place) {
  if (place == EncoderPlace::kOpenClip) return tensors.HasUnder(kResblocks);
  return tensors.HasUnder("text_model.encoder") || tensors.HasUnder("encoder.layers.0.layer_norm1");
}

// "text_model." is left out by some.
std::string RootOf(bool has_text_model) { return has_text_model ? "text_model." : ""; }

int64_t WidthOf(const PartTensors& tensors, EncoderPlace place) {
  const std::string root = RootOf(tensors.HasUnder("text_model"));
  const auto found = tensors.by_name.find(place == EncoderPlace::kOpenClip
                                              ? "token_embedding.weight"
                                              : root + "embeddings.token_embedding.weight");
  if (found == tensors.by_name.end()) return 0;
  const Shape& shape = found->second->data.shape();
  return shape.rank() == 2 ? shape[1] : 0;
}

// Sizes of a text encoder, as names and shapes tell them.
struct EncoderSizes {
  int64_t vocabulary = 0, positions = 0, width = 0, hidden = 0, layers = 0, projection = 0;
};

// Takes a text encoder's tensors, whose names a spelling has.
class EncoderReading {
 public:
  EncoderReading(PartTensors tensors, EncoderPlace place, const EncoderRole& role)
      : is_open_clip_(place == EncoderPlace::kOpenClip),
        role_(role),
        reader_(absl::StrCat("the text encoder ", role.title), std::move(tensors)) {
    root_ = is_open_clip_ ? "" : RootOf(reader_.HasUnder("text_model"));
  }

  absl::StatusOr<EncoderPart> Read(const std::string& path) && {
    ReadSizes();
    if (!reader_.has_mistakes()) {
      TakeEmbeddings();
      for (int64_t i = 0; i < sizes_.layers; ++i) TakeLayer(i);
      TakeNorm(is_open_clip_ ? "ln_final" : root_ + "final_layer_norm",
               "text_model.final_layer_norm");
      TakeProjection();
      for (const char* rest : {"visual", "vision_model", "visual_projection"}) reader_.Ignore(rest);
    }
    ASSIGN_OR_RETURN(SourceMap sources, std::move(reader_).Finish(path));
    return EncoderPart{Config(), std::move(sources), pooled_features()};
  }

 private:
  // The name in the file: OpenCLIP's or that of transformers.
  std::string Named(absl::string_view open_clip, absl::string_view transformers) const {
    return is_open_clip_ ? std::string(open_clip) : absl::StrCat(root_, transformers);
  }
  std::string LayerPath(int64_t index) const {
    return absl::StrCat(is_open_clip_ ? std::string(kResblocks) : root_ + "encoder.layers", ".",
                        index);
  }
  std::string TokenName() const {
    return Named("token_embedding.weight", "embeddings.token_embedding.weight");
  }
  std::string PositionName() const {
    return Named("positional_embedding", "embeddings.position_embedding.weight");
  }

  void ReadSizes() {
    sizes_.vocabulary = reader_.Size(TokenName(), 0);
    sizes_.width = reader_.Size(TokenName(), 1);
    sizes_.positions = reader_.Size(PositionName(), 0);
    sizes_.layers =
        reader_.CountUnder(is_open_clip_ ? std::string(kResblocks) : root_ + "encoder.layers");
    if (sizes_.layers < 1) reader_.Refuse("it has no first layer");
    sizes_.hidden =
        reader_.Size(LayerPath(0) + (is_open_clip_ ? ".mlp.c_fc.weight" : ".mlp.fc1.weight"), 0);
    if (!role_.leaves_out_last || sizes_.layers != kAllLayersOfH) return;
    reader_.Ignore(LayerPath(--sizes_.layers));
  }

  void TakeNorm(const std::string& from, const std::string& to) {
    for (const char* part : {".weight", ".bias"})
      reader_.Take(from + part, to + part, {sizes_.width});
  }

  void TakeLinear(const std::string& from, const std::string& to, int64_t out, int64_t in) {
    reader_.Take(from + ".weight", to + ".weight", {out, in});
    reader_.Take(from + ".bias", to + ".bias", {out});
  }

  void TakeEmbeddings() {
    reader_.Take(TokenName(), "text_model.embeddings.token_embedding.weight",
                 {sizes_.vocabulary, sizes_.width});
    reader_.Take(PositionName(), "text_model.embeddings.position_embedding.weight",
                 {sizes_.positions, sizes_.width});
  }

  // Query, key and value: OpenCLIP has them as rows of one tensor.
  void TakeProjections(const std::string& from, const std::string& to) {
    constexpr const char* kNames[] = {"q_proj", "k_proj", "v_proj"};
    const int64_t width = sizes_.width;
    for (int64_t i = 0; i < 3; ++i) {
      const std::string wanted = absl::StrCat(to, ".self_attn.", kNames[i]);
      if (!is_open_clip_) {
        TakeLinear(absl::StrCat(from, ".self_attn.", kNames[i]), wanted, width, width);
        continue;
      }
      reader_.TakeRows(from + ".attn.in_proj_weight", wanted + ".weight", {3 * width, width},
                       i * width, (i + 1) * width);
      reader_.TakeRows(from + ".attn.in_proj_bias", wanted + ".bias", {3 * width}, i * width,
                       (i + 1) * width);
    }
  }

  void TakeLayer(int64_t index) {
    const std::string from = LayerPath(index);
    const std::string to = absl::StrCat("text_model.encoder.layers.", index);
    const auto named = [&](const char* open_clip, const char* transformers) {
      return from + (is_open_clip_ ? open_clip : transformers);
    };
    TakeProjections(from, to);
    TakeLinear(named(".attn.out_proj", ".self_attn.out_proj"), to + ".self_attn.out_proj",
               sizes_.width, sizes_.width);
    TakeNorm(named(".ln_1", ".layer_norm1"), to + ".layer_norm1");
    TakeNorm(named(".ln_2", ".layer_norm2"), to + ".layer_norm2");
    TakeLinear(named(".mlp.c_fc", ".mlp.fc1"), to + ".mlp.fc1", sizes_.hidden, sizes_.width);
    TakeLinear(named(".mlp.c_proj", ".mlp.fc2"), to + ".mlp.fc2", sizes_.width, sizes_.hidden);
  }

  // A bare parameter multiplies from the right, a layer's weight is its transpose. The name tells:
  // bigG's is square, so that no shape does.
  void TakeProjection() {
    if (!role_.is_projected) {
      reader_.Ignore("text_projection");
      return;
    }
    constexpr absl::string_view kWanted = "text_projection.weight";
    if (reader_.Has("text_projection")) {
      sizes_.projection = reader_.Size("text_projection", 1);
      reader_.TakeTransposed("text_projection", std::string(kWanted),
                             {sizes_.projection, sizes_.width});
      return;
    }
    sizes_.projection = reader_.Size(std::string(kWanted), 0);
    reader_.Take(std::string(kWanted), std::string(kWanted), {sizes_.projection, sizes_.width});
  }

  int64_t pooled_features() const { return role_.is_projected ? sizes_.projection : sizes_.width; }

  absl::StatusOr<std::string> Config() const {
    if (sizes_.width % kHeadFeatures != 0) {
      return absl::InvalidArgumentError(absl::StrCat("the ", sizes_.width, " features of ",
                                                     role_.title, " make no whole heads of ",
                                                     kHeadFeatures, kWhoSaysHeads));
    }
    const json config = {
        {"architectures", {role_.is_projected ? "CLIPTextModelWithProjection" : "CLIPTextModel"}},
        {"eos_token_id", 2},  // means that the state of the largest id is pooled
        {"hidden_act", role_.is_gelu ? "gelu" : "quick_gelu"},
        {"hidden_size", sizes_.width},
        {"intermediate_size", sizes_.hidden},
        {"layer_norm_eps", 1e-5},
        {"max_position_embeddings", sizes_.positions},
        {"model_type", "clip_text_model"},
        {"num_attention_heads", sizes_.width / kHeadFeatures},
        {"num_hidden_layers", sizes_.layers},
        {"projection_dim", pooled_features()},
        {"vocab_size", sizes_.vocabulary}};
    return config.dump(2);
  }

  bool is_open_clip_;
  EncoderRole role_;
  PartReader reader_;
  std::string root_;  // before the names of transformers
  EncoderSizes sizes_;
};

}  // namespace

std::vector<FoundEncoder> FindEncoders(const TensorMap& tensors) {
  std::vector<FoundEncoder> found;
  for (const auto& [place, prefix] : kEncoderPrefixes) {
    const PartTensors part = TensorsUnder(tensors, prefix);
    if (!HasEncoder(part, place)) continue;
    found.push_back({place, std::string(prefix), WidthOf(part, place)});
  }
  return found;
}

bool HasProjection(const TensorMap& tensors, const FoundEncoder& encoder) {
  return tensors.contains(encoder.prefix + "text_projection") ||
         tensors.contains(encoder.prefix + "text_projection.weight");
}

absl::StatusOr<EncoderPart> ReadEncoder(const std::string& path, const TensorMap& tensors,
                                        const FoundEncoder& encoder, const EncoderRole& role) {
  return EncoderReading(TensorsUnder(tensors, encoder.prefix), encoder.place, role).Read(path);
}

}  // namespace latentd::weights
