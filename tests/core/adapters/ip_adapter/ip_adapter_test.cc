// IP-Adapters by the names and shapes of what their files have, and what is refused.
#include "core/adapters/ip_adapter/ip_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/adapters/ip_adapter/ip_adapter_weights.h"
#include "core/base/files/files.h"
#include "core/device/buffer.h"
#include "core/graph/graph_builder.h"
#include "core/networks/clip_vision.h"
#include "core/networks/cross_attentions.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::adapters {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr int64_t kImageFeatures = 24, kTokens = 4;

// The configuration of a case of networks.json: one level down with attention, and a middle.
networks::Unet2dConditionConfig Unet() {
  const auto cases = nlohmann::json::parse(
      ReadFile(::latentd::testing::SourcePath("tests/golden/networks.json"), size_t{1} << 24)
          .value());
  for (const nlohmann::json& one : cases) {
    if (one["name"] != "unet_sdxl_base_small") continue;
    return networks::ParseUnet2dConditionConfig(one["config"].dump(), "config.json").value();
  }
  return {};
}

void Add(const std::string& name, std::initializer_list<int64_t> dims,
         weights::TensorMap& tensors) {
  tensors[name].data = device::Buffer::Allocate(device::DType::kF32, device::Shape(dims));
}

// Widths of attentions in the order of files: down, up, middle.
std::vector<int64_t> WidthsInFiles(const networks::Unet2dConditionConfig& unet) {
  std::vector<int64_t> outer, middle;
  for (const networks::CrossAttention& one : networks::CrossAttentionsOf(unet)) {
    (one.is_middle ? middle : outer).push_back(one.features);
  }
  outer.insert(outer.end(), middle.begin(), middle.end());
  return outer;
}

LoraFile BaseFile(const networks::Unet2dConditionConfig& unet) {
  LoraFile file{.path = "ip.safetensors", .tensors = {}, .metadata = {}};
  const int64_t text = unet.cross_attention_dim;
  Add("image_proj.proj.weight", {kTokens * text, kImageFeatures}, file.tensors);
  Add("image_proj.proj.bias", {kTokens * text}, file.tensors);
  Add("image_proj.norm.weight", {text}, file.tensors);
  Add("image_proj.norm.bias", {text}, file.tensors);
  int index = 1;
  for (const int64_t width : WidthsInFiles(unet)) {
    for (const char* weight : {"to_k_ip", "to_v_ip"}) {
      Add(absl::StrCat("ip_adapter.", index, ".", weight, ".weight"), {width, text}, file.tensors);
    }
    index += 2;
  }
  return file;
}

ImageEncoderFile Encoder(int64_t projection, int64_t hidden = 32) {
  ImageEncoderFile file{
      .path = "image_encoder/model.safetensors",
      .config = absl::StrCat(R"({"hidden_size": )", hidden, R"(, "projection_dim": )", projection,
                             R"(, "num_attention_heads": 2, "num_hidden_layers": 1,
                                 "intermediate_size": 40, "image_size": 28, "patch_size": 14})"),
      .tensors = {}};
  const auto config = networks::ParseClipVisionConfig(file.config, file.path).value();
  graph::GraphBuilder b;
  b.Output("image", networks::ClipVision(b, config, "encoder",
                                         b.Input("pixels", device::DType::kF32, {1, 3, 28, 28},
                                                 graph::Rate::kStep)));
  const graph::Graph network = std::move(b).Build().value();
  for (const graph::ValueId id : network.Select(graph::Op::kWeight)) {
    const graph::Node& weight = network.node(id);
    file.tensors[weight.name.substr(weight.name.find('/') + 1)].data =
        device::Buffer::Allocate(device::DType::kF32, weight.shape);
  }
  return file;
}

TEST(IpAdapter, IsReadByNamesAndShapes) {
  const networks::Unet2dConditionConfig unet = Unet();
  const std::vector<ImageEncoderFile> encoders = {Encoder(40), Encoder(kImageFeatures, 36)};
  ASSERT_OK_AND_ASSIGN(const IpAdapter adapter,
                       MakeIpAdapter("ip", BaseFile(unet), encoders, unet));
  EXPECT_EQ(adapter.variant(), "base");
  EXPECT_EQ(adapter.config.tokens, kTokens);
  EXPECT_EQ(adapter.config.image_features, kImageFeatures);
  EXPECT_EQ(adapter.encoder.hidden_size, 36);  // the first one that fits
}

// ip_adapter.1, 3, ... go down, then up, then through the middle.
TEST(IpAdapter, NumbersAreModules) {
  const networks::Unet2dConditionConfig unet = Unet();
  const weights::TensorMap named = WithModuleNames(BaseFile(unet).tensors, unet);
  const std::vector<networks::CrossAttention> attentions = networks::CrossAttentionsOf(unet);
  ASSERT_TRUE(named.contains(attentions.front().path + ".to_k_ip.weight"));
  size_t middles = 0;
  for (const auto& attention : attentions) middles += attention.is_middle ? 1 : 0;
  ASSERT_GT(middles, 0u);
  weights::TensorMap last;
  Add(absl::StrCat("ip_adapter.", 2 * attentions.size() - 1, ".to_v_ip.weight"), {1}, last);
  Add(absl::StrCat("ip_adapter.", 2 * (attentions.size() - middles) - 1, ".to_v_ip.weight"), {1},
      last);
  const weights::TensorMap renamed = WithModuleNames(last, unet);
  EXPECT_TRUE(renamed.contains(absl::StrCat("mid_block.attentions.0.transformer_blocks.",
                                            middles - 1, ".attn2.to_v_ip.weight")));
  EXPECT_TRUE(renamed.contains(attentions.back().path + ".to_v_ip.weight"));
  EXPECT_THAT(attentions.back().path, HasSubstr("up_blocks."));
}

TEST(IpAdapter, OfAnotherKindIsRefusedByItsName) {
  for (const auto& [tensor, name] :
       {std::pair{"image_proj.proj.2.weight", "FaceID"},
        std::pair{"image_proj.proj.3.weight", "full-face"},
        std::pair{"image_proj.perceiver_resampler.proj_in.weight", "FaceID plus"}}) {
    LoraFile file{.path = "ip.safetensors", .tensors = {}, .metadata = {}};
    Add(tensor, {4, 4}, file.tensors);
    EXPECT_THAT(MakeIpAdapter("ip", file, {}, Unet()),
                StatusIs(kInvalid, AllOf(HasSubstr("ip.safetensors: is a "), HasSubstr(name))));
  }
}

TEST(IpAdapter, SaysWhatDoesNotFit) {
  const networks::Unet2dConditionConfig unet = Unet();
  const std::vector<ImageEncoderFile> encoders = {Encoder(kImageFeatures)};
  const auto made = [&](const LoraFile& file) { return MakeIpAdapter("ip", file, encoders, unet); };
  LoraFile lacks = BaseFile(unet);
  lacks.tensors.erase("ip_adapter.1.to_v_ip.weight");
  EXPECT_THAT(made(lacks), StatusIs(kInvalid, HasSubstr("it lacks ")));
  LoraFile more = BaseFile(unet);
  Add("ip_adapter.0.to_q_lora.down.weight", {4, 4}, more.tensors);
  EXPECT_THAT(made(more),
              StatusIs(kInvalid, HasSubstr("ip_adapter.0.to_q_lora.down.weight is no part of it")));
  LoraFile other = BaseFile(unet);
  Add("image_proj.norm.weight", {8}, other.tensors);
  EXPECT_THAT(made(other),
              StatusIs(kInvalid, HasSubstr("for another model: it makes tokens of 8")));
  LoraFile many = BaseFile(unet);
  Add("image_proj.norm.weight", {1}, many.tensors);
  EXPECT_THAT(made(many), StatusIs(kInvalid, HasSubstr("tokens of an image")));
  LoraFile flat = BaseFile(unet);
  Add("image_proj.proj.weight", {8}, flat.tensors);
  EXPECT_THAT(made(flat), StatusIs(kInvalid, HasSubstr("it lacks image_proj.proj.weight")));
  LoraFile empty{.path = "ip.safetensors", .tensors = {}, .metadata = {}};
  EXPECT_THAT(made(empty), StatusIs(kInvalid, HasSubstr("is no whole IP-Adapter")));
}

TEST(IpAdapter, NamesTheEncoderThatItWants) {
  const networks::Unet2dConditionConfig unet = Unet();
  EXPECT_THAT(MakeIpAdapter("ip", BaseFile(unet), {}, unet),
              StatusIs(kInvalid,
                       AllOf(HasSubstr("embeddings of 24 features"), HasSubstr("there is none"))));
  const std::vector<ImageEncoderFile> others = {Encoder(40), {.path = "odd", .config = "{"}};
  EXPECT_THAT(MakeIpAdapter("ip", BaseFile(unet), others, unet),
              StatusIs(kInvalid, AllOf(HasSubstr("image_encoder/model.safetensors has 40"),
                                       HasSubstr("odd"))));
}

// The next one that fits counts, and without one the adapter says what is wrong with the first.
TEST(IpAdapter, PassesOverEncodersThatAreBroken) {
  const networks::Unet2dConditionConfig unet = Unet();
  ImageEncoderFile lacks = Encoder(kImageFeatures), wrong = Encoder(kImageFeatures);
  lacks.tensors.erase("visual_projection.weight");
  Add("visual_projection.weight", {kImageFeatures, 7}, wrong.tensors);
  ImageEncoderFile unread{.path = "far/model.safetensors", .problem = "far is not whole"};
  for (const ImageEncoderFile& broken : {lacks, wrong}) {
    EXPECT_THAT(MakeIpAdapter("ip", BaseFile(unet), {broken, unread}, unet),
                StatusIs(kInvalid,
                         AllOf(HasSubstr("that of image_encoder/model.safetensors: "),
                               HasSubstr("visual_projection.weight"), HasSubstr("; far is not"))));
    EXPECT_OK(MakeIpAdapter("ip", BaseFile(unet), {broken, Encoder(kImageFeatures)}, unet));
  }
}

}  // namespace
}  // namespace latentd::adapters
