#include "core/weights/containers/recognize/image_encoder_part.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/weights/containers/recognize/part_reader.h"
#include "core/weights/containers/recognize/refuse_file.h"

namespace latentd::weights {
namespace {

using nlohmann::json;

constexpr absl::string_view kVisualBlocks = "transformer.resblocks";
// ViT-H's, which Stable Video Diffusion has.
constexpr int64_t kImageHeadFeatures = 80;

class ImageEncoderReading {
 public:
  explicit ImageEncoderReading(PartTensors tensors)
      : reader_("the image encoder", std::move(tensors)) {}

  absl::StatusOr<ImageEncoderPart> Read(const std::string& path) && {
    ReadSizes();
    if (!reader_.has_mistakes()) {
      TakeEmbeddings();
      for (int64_t i = 0; i < layers_; ++i) TakeLayer(i);
      TakeNorm("ln_post", "vision_model.post_layernorm");
      reader_.TakeTransposed("proj", "visual_projection.weight", {projection_, width_});
    }
    ASSIGN_OR_RETURN(SourceMap sources, std::move(reader_).Finish(path));
    return ImageEncoderPart{Config(path), std::move(sources)};
  }

 private:
  void ReadSizes() {
    width_ = reader_.Size("conv1.weight", 0);
    colours_ = reader_.Size("conv1.weight", 1);
    patch_ = reader_.Size("conv1.weight", 2);
    positions_ = reader_.Size("positional_embedding", 0);
    projection_ = reader_.Size("proj", 1);
    layers_ = reader_.CountUnder(kVisualBlocks);
    if (layers_ < 1) return reader_.Refuse("it has no first layer");
    hidden_ = reader_.Size(absl::StrCat(kVisualBlocks, ".0.mlp.c_fc.weight"), 0);
    while ((patches_ + 1) * (patches_ + 1) < positions_) ++patches_;
    if (patches_ * patches_ + 1 == positions_) return;
    reader_.Refuse(
        absl::StrCat("its ", positions_, " positions are not those of a square and one"));
  }

  void TakeEmbeddings() {
    const std::string to = "vision_model.embeddings.";
    reader_.Take("class_embedding", to + "class_embedding", {width_});
    reader_.Take("conv1.weight", to + "patch_embedding.weight", {width_, colours_, patch_, patch_});
    reader_.Take("positional_embedding", to + "position_embedding.weight", {positions_, width_});
    TakeNorm("ln_pre", "vision_model.pre_layrnorm");
  }

  void TakeNorm(const std::string& from, const std::string& to) {
    reader_.Take(from + ".weight", to + ".weight", {width_});
    reader_.Take(from + ".bias", to + ".bias", {width_});
  }

  void TakeLinear(const std::string& from, const std::string& to, int64_t out, int64_t in) {
    reader_.Take(from + ".weight", to + ".weight", {out, in});
    reader_.Take(from + ".bias", to + ".bias", {out});
  }

  void TakeLayer(int64_t index) {
    const std::string from = absl::StrCat(kVisualBlocks, ".", index);
    const std::string to = absl::StrCat("vision_model.encoder.layers.", index);
    constexpr const char* kFused[] = {"q_proj", "k_proj", "v_proj"};
    for (int64_t i = 0; i < 3; ++i) {
      const std::string wanted = absl::StrCat(to, ".self_attn.", kFused[i]);
      reader_.TakeRows(from + ".attn.in_proj_weight", wanted + ".weight", {3 * width_, width_},
                       i * width_, (i + 1) * width_);
      reader_.TakeRows(from + ".attn.in_proj_bias", wanted + ".bias", {3 * width_}, i * width_,
                       (i + 1) * width_);
    }
    TakeLinear(from + ".attn.out_proj", to + ".self_attn.out_proj", width_, width_);
    TakeNorm(from + ".ln_1", to + ".layer_norm1");
    TakeNorm(from + ".ln_2", to + ".layer_norm2");
    TakeLinear(from + ".mlp.c_fc", to + ".mlp.fc1", hidden_, width_);
    TakeLinear(from + ".mlp.c_proj", to + ".mlp.fc2", width_, hidden_);
  }

  absl::StatusOr<std::string> Config(const std::string& path) const {
    if (width_ % kImageHeadFeatures != 0) {
      return RefuseFile(path, ": the ", width_,
                        " features of its image encoder make no whole heads of ",
                        kImageHeadFeatures, kWhoSaysHeads);
    }
    const json config = {{"architectures", {"CLIPVisionModelWithProjection"}},
                         {"hidden_act", "gelu"},
                         {"hidden_size", width_},
                         {"image_size", patches_ * patch_},
                         {"intermediate_size", hidden_},
                         {"layer_norm_eps", 1e-5},
                         {"model_type", "clip_vision_model"},
                         {"num_attention_heads", width_ / kImageHeadFeatures},
                         {"num_channels", colours_},
                         {"num_hidden_layers", layers_},
                         {"patch_size", patch_},
                         {"projection_dim", projection_}};
    return config.dump(2);
  }

  PartReader reader_;
  int64_t width_ = 0, colours_ = 0, patch_ = 0, positions_ = 0, projection_ = 0, layers_ = 0,
          hidden_ = 0;
  int64_t patches_ = 0;  // along a side
};

}  // namespace

absl::StatusOr<std::optional<ImageEncoderPart>> ReadImageEncoder(const std::string& path,
                                                                 const TensorMap& tensors) {
  PartTensors part = TensorsUnder(tensors, kImageEncoderPrefix);
  if (part.by_name.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(ImageEncoderPart read, ImageEncoderReading(std::move(part)).Read(path));
  return std::optional<ImageEncoderPart>(std::move(read));
}

}  // namespace latentd::weights
