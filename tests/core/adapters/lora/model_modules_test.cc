// Finds every module of published networks by every name that files of LoRAs have for it.
#include "core/adapters/lora/model_modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "tests/core/adapters/lora/published_models.h"

namespace latentd::adapters {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string Flat(absl::string_view path) { return absl::StrReplaceAll(path, {{".", "_"}}); }

// "unet/conv_in", or several with commas, or nothing.
std::string Found(const ModelModules& modules, const std::string& spelling) {
  return absl::StrJoin(modules.Find(spelling), ",", [](std::string* text, const Module* module) {
    absl::StrAppend(text, module->component, "/", module->path);
  });
}

ModelModules Published(const std::string& name) {
  for (const PublishedModel& model : PublishedModels()) {
    if (model.name == name) return ModelModules(ShapesOf(model));
  }
  ADD_FAILURE() << name;
  return ModelModules({});
}

TEST(ModelModulesTest, NoTwoModulesOfAPublishedModelAreSpelledAlike) {
  for (const PublishedModel& model : PublishedModels()) {
    EXPECT_THAT(ModelModules(ShapesOf(model)).ambiguous(), IsEmpty()) << model.name;
  }
}

TEST(ModelModulesTest, FindsEveryModuleOfAUnetByItsNamesInLdmAndDiffusers) {
  for (const PublishedModel& model : PublishedModels()) {
    const ModelModules modules(ShapesOf(model));
    int count = 0;
    for (const PublishedModule& module : ModulesOf(model.parts[0].list)) {
      const std::string& own = module.wanted.at(0);
      for (const std::string& path : {module.stored, own}) {
        for (const std::string& spelling :
             {"lora_unet_" + Flat(path), "unet." + path, "diffusion_model." + path, path,
              "lycoris_" + Flat(path)}) {
          ASSERT_EQ(Found(modules, spelling), "unet/" + own) << model.name << " " << spelling;
        }
      }
      ++count;
    }
    EXPECT_GT(count, 100) << model.name;
  }
}

TEST(ModelModulesTest, FindsAnAttentionsOutputWithoutItsNumber) {
  const ModelModules modules = Published("SDXL");
  const std::string own = "mid_block.attentions.0.transformer_blocks.9.attn2.to_out";
  const std::string ldm = "middle_block.1.transformer_blocks.9.attn2.to_out";
  for (const std::string& path : {own, ldm}) {
    EXPECT_EQ(Found(modules, "unet." + path), "unet/" + own + ".0");
    EXPECT_EQ(Found(modules, "lora_unet_" + Flat(path)), "unet/" + own + ".0");
  }
}

// The numbers of SDXL and SD 1.5 as they are written down in kohya's and ComfyUI's code.
TEST(ModelModulesTest, KnowsWhichBlocksHaveAttentionAndSamplers) {
  const ModelModules xl = Published("SDXL"), early = Published("SD 1.5");
  EXPECT_EQ(Found(xl, "lora_unet_input_blocks_4_1_proj_in"),
            "unet/down_blocks.1.attentions.0.proj_in");
  EXPECT_EQ(Found(xl, "lora_unet_input_blocks_8_1_proj_in"),
            "unet/down_blocks.2.attentions.1.proj_in");
  EXPECT_EQ(Found(xl, "lora_unet_output_blocks_5_1_proj_in"),
            "unet/up_blocks.1.attentions.2.proj_in");
  EXPECT_EQ(Found(xl, "lora_unet_output_blocks_5_2_conv"), "unet/up_blocks.1.upsamplers.0.conv");
  EXPECT_EQ(Found(xl, "lora_unet_input_blocks_6_0_op"), "unet/down_blocks.1.downsamplers.0.conv");
  EXPECT_EQ(Found(xl, "lora_unet_label_emb_0_2"), "unet/add_embedding.linear_2");
  EXPECT_EQ(Found(xl, "lora_unet_output_blocks_8_1_proj_in"), "");
  EXPECT_EQ(Found(early, "lora_unet_output_blocks_2_1_conv"), "unet/up_blocks.0.upsamplers.0.conv");
  EXPECT_EQ(Found(early, "lora_unet_output_blocks_11_1_proj_in"),
            "unet/up_blocks.3.attentions.2.proj_in");
  EXPECT_EQ(Found(early, "lora_unet_output_blocks_2_1_proj_in"), "");
}

TEST(ModelModulesTest, FindsEveryModuleOfATextEncoder) {
  struct Case {
    std::string model, list, component;
    std::vector<std::string> dotted, flat;
  };
  const Case cases[] = {
      {"SD 1.5", "clip_l", "text_encoder", {"text_encoder.", "clip_l.", ""}, {"lora_te_"}},
      {"SD 2.1", "open_clip_h", "text_encoder", {"text_encoder.", "clip_h."}, {"lora_te_"}},
      {"SDXL",
       "clip_l",
       "text_encoder",
       {"text_encoder.", "text_encoders.clip_l.transformer.", "clip_l.", "clip_l.transformer.", ""},
       {"lora_te1_", "lora_te_"}},
      {"SDXL",
       "open_clip_g",
       "text_encoder_2",
       {"text_encoder_2.", "text_encoders.clip_g.transformer.", "clip_g.", "clip_g.transformer."},
       {"lora_te2_"}},
      {"refiner",
       "open_clip_g",
       "text_encoder_2",
       {"text_encoder_2.", "text_encoder."},
       {"lora_te_", "lora_te2_"}},
  };
  for (const Case& c : cases) {
    const ModelModules modules = Published(c.model);
    for (const PublishedModule& module : ModulesOf(c.list)) {
      for (const std::string& own : module.wanted) {
        const std::string wanted = c.component + "/" + own;
        const std::string bare(absl::StripPrefix(own, "text_model."));
        for (const std::string& path : {own, bare}) {
          for (const std::string& prefix : c.dotted) {
            ASSERT_EQ(Found(modules, prefix + path), wanted) << c.model << " " << prefix << path;
          }
          for (const std::string& prefix : c.flat) {
            ASSERT_EQ(Found(modules, prefix + Flat(path)), wanted) << prefix << Flat(path);
          }
        }
      }
    }
  }
}

TEST(ModelModulesTest, FindsTextAttentionByTheNamesOfOldProcessors) {
  const ModelModules modules = Published("SDXL");
  const std::string layer = "text_model.encoder.layers.11.self_attn.";
  for (const auto& [old, own] : std::vector<std::pair<std::string, std::string>>{
           {"to_q", "q_proj"}, {"to_k", "k_proj"}, {"to_v", "v_proj"}, {"to_out", "out_proj"}}) {
    EXPECT_EQ(Found(modules, "text_encoder." + layer + old), "text_encoder/" + layer + own);
  }
}

TEST(ModelModulesTest, FindsLayersOfOpenClipByItsNames) {
  const ModelModules modules = Published("SDXL");
  int stacked = 0;
  for (const PublishedModule& module : ModulesOf("open_clip_g")) {
    if (!absl::StartsWith(module.stored, "transformer.")) continue;
    const std::string stored = absl::StrReplaceAll(module.stored, {{"in_proj_weight", "in_proj"}});
    std::vector<std::string> wanted;
    for (const std::string& own : module.wanted) wanted.push_back("text_encoder_2/" + own);
    ASSERT_EQ(Found(modules, "clip_g." + stored), absl::StrJoin(wanted, ",")) << stored;
    ASSERT_EQ(Found(modules, "lora_te2_" + Flat(stored)), absl::StrJoin(wanted, ","));
    if (wanted.size() == 3) ++stacked;
  }
  EXPECT_EQ(stacked, 32);
}

// Rows of a fused projection are divided into three equal parts.
TEST(ModelModulesTest, FindsNoFusedProjectionOfPartsThatDiffer) {
  const std::string layer = "text_encoder_2/text_model.encoder.layers.0.self_attn.";
  absl::btree_map<std::string, device::Shape> shapes = {{layer + "q_proj.weight", {4, 4}},
                                                        {layer + "k_proj.weight", {4, 4}},
                                                        {layer + "v_proj.weight", {4, 4}}};
  const std::string fused = "clip_g.transformer.resblocks.0.attn.in_proj";
  EXPECT_THAT(ModelModules(shapes).Find(fused), SizeIs(3));
  shapes[layer + "v_proj.bias"] = {4};
  EXPECT_THAT(ModelModules(shapes).Find(fused), IsEmpty());
  shapes.erase(layer + "v_proj.bias");
  shapes[layer + "k_proj.weight"] = {2, 4};
  EXPECT_THAT(ModelModules(shapes).Find(fused), IsEmpty());
}

// OneTrainer#47.
TEST(ModelModulesTest, FindsTheTextProjectionOfTheSecondEncoder) {
  EXPECT_EQ(Found(Published("SDXL"), "lora_te2_text_projection"), "text_encoder_2/text_projection");
  EXPECT_EQ(Found(Published("SD 1.5"), "lora_te2_text_projection"), "");
}

// OneTrainer#885.
TEST(ModelModulesTest, FindsLdmNamesWithDotsBehindUnet) {
  EXPECT_EQ(Found(Published("SDXL"), "unet.output_blocks.5.1.transformer_blocks.1.ff.net.0.proj"),
            "unet/up_blocks.1.attentions.2.transformer_blocks.1.ff.net.0.proj");
}

TEST(ModelModulesTest, AModelWithoutSomeEncoderFindsNoneOfItsModules) {
  const ModelModules refiner = Published("refiner"), early = Published("SD 1.5");
  EXPECT_EQ(Found(refiner, "lora_te1_text_model_encoder_layers_0_mlp_fc1"), "");
  EXPECT_EQ(Found(early, "lora_te2_text_model_encoder_layers_0_mlp_fc1"), "");
}

TEST(ModelModulesTest, TellsFeaturesOfText) {
  EXPECT_EQ(Published("SD 1.5").text_features(), 768);
  EXPECT_EQ(Published("SD 2.1").text_features(), 1024);
  EXPECT_EQ(Published("SDXL").text_features(), 2048);
  EXPECT_EQ(Published("refiner").text_features(), 1280);
  EXPECT_EQ(ModelModules({}).text_features(), 0);
}

TEST(ModelModulesTest, ASpellingOfTwoModulesFindsNeither) {
  const ModelModules modules({{"unet/a.b.weight", {1}}, {"unet/a_b.weight", {1}}});
  EXPECT_THAT(modules.ambiguous(), ElementsAre("unet: a_b"));
  EXPECT_THAT(modules.Find("lora_unet_a_b"), IsEmpty());
  EXPECT_THAT(modules.Find("unet.a.b"), SizeIs(1));
}

TEST(ModelModulesTest, KnowsShapesOfWeightsAndBiases) {
  const ModelModules modules({{"unet/a.weight", {2, 3}},
                              {"unet/a.bias", {2}},
                              {"unet/b.bias", {4}},
                              {"vae/a.weight", {1}},
                              {"unet/c.other", {1}}});
  ASSERT_THAT(modules.modules(), SizeIs(2));
  const Module& a = modules.modules()[0];
  EXPECT_EQ(a.weight, device::Shape({2, 3}));
  EXPECT_EQ(a.bias, device::Shape({2}));
  EXPECT_EQ(a.WeightName(), "unet/a.weight");
  EXPECT_EQ(a.BiasName(), "unet/a.bias");
  EXPECT_EQ(modules.modules()[1].weight, std::nullopt);
}

}  // namespace
}  // namespace latentd::adapters
