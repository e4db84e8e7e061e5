// Files that are no LoRA for the model, or none at all: each is refused, and called what it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "tests/core/adapters/lora/published_models.h"
#include "tests/core/adapters/lora/small_model.h"

namespace latentd::adapters {
namespace {

using ::testing::AllOf;
using testing::FilledTensor;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::StatusIs;
using testing::TensorToWrite;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class LoraRefusalsTest : public LoraFileTest {
 protected:
  // A good LoRA, and more.
  static Tensors With(const Tensors& more) {
    Tensors tensors = {Counted(kKohyaToQ + ".lora_down.weight", {2, 6}),
                       Counted(kKohyaToQ + ".lora_up.weight", {8, 2})};
    tensors.insert(tensors.end(), more.begin(), more.end());
    return tensors;
  }
};

// ComfyUI#5655, #5972: it would draw a picture without the LoRA's effect.
TEST_F(LoraRefusalsTest, TensorsOfNoModuleAreCountedAndNamed) {
  EXPECT_THAT(Error(With({Counted("lora_unet_a.lora_down.weight", {1}),
                          Counted("lora_unet_b.lora_down.weight", {1}),
                          Counted("lora_unet_c.lora_down.weight", {1}),
                          Counted("lora_unet_d.lora_down.weight", {1})})),
              AllOf(HasSubstr("4 of its 6 tensors"), HasSubstr("lora_unet_a.lora_down.weight"),
                    HasSubstr("and 1 more")));
  EXPECT_THAT(Error(With({Counted(kKohyaToQ + ".lora_sideways", {1})})),
              HasSubstr("1 of its 3 tensors"));
}

TEST_F(LoraRefusalsTest, FilesWithoutALoraAreNone) {
  EXPECT_THAT(Error({Counted("some.weight", {1})}), HasSubstr("is no LoRA"));
  EXPECT_THAT(Error({}), HasSubstr("has no tensors"));
  EXPECT_THAT(Error({Counted(kKohyaToQ + ".alpha", {})}), HasSubstr("has no delta"));
}

TEST_F(LoraRefusalsTest, OtherKindsAreCalledByName) {
  const std::pair<const char*, const char*> cases[] = {
      {".on_input", "IA3"},
      {".a1.weight", "GLoRA"},
      {".bm.weight", "GLoRA"},
      {".oft_blocks", "OFT"},
      {".oft_R.weight", "oft_R"},
      {".boft_R", "BOFT"},
      {".set_weight", "set_weight"},
      {".reshape_weight", "reshape_weight"},
      {".bias_indices", "sparse biases"},
      {".ia3_l", "IA3"},
      {".to_k_custom_diffusion.weight", "Custom Diffusion"},
  };
  for (const auto& [suffix, kind] : cases) {
    EXPECT_THAT(Error(With({Counted(kKohyaToQ + suffix, {2})})),
                AllOf(HasSubstr(kind), HasSubstr("not read")))
        << suffix;
  }
  EXPECT_THAT(Error(With({Counted(kKohyaToQ + ".oft_blocks", {2, 2, 2, 2})})), HasSubstr("BOFT"));
  EXPECT_THAT(Error(With({Counted(kKohyaToQ + ".oft_blocks", {2, 2, 2})})), Not(HasSubstr("BOFT")));
}

TEST_F(LoraRefusalsTest, FilesOfOtherModelsAreCalledByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"lora_controlnet", "Control-LoRA"},
      {"bundle_emb.word.clip_l", "bundle_emb"},
      {"lora_prior_unet_blocks_0.lora_down.weight", "Stable Cascade"},
      {"lora_unet_double_blocks_0_img_attn_qkv.lora_down.weight", "FLUX"},
      {"lora_unet_joint_blocks_0_x_block_mlp_fc1.lora_down.weight", "Stable Diffusion 3"},
      {"transformer.transformer_blocks.0.attn.to_q.lora_A.weight", "FLUX, Stable Diffusion 3"},
      {"lora_transformer_single_transformer_blocks_0.lora_down.weight", "FLUX"},
      {"lllite_unet_input_blocks_4_1.down.0.weight", "LLLite"},
      {"image_proj.proj.weight", "IP-Adapter"},
      {"emb_params", "textual inversion"},
      {"clip_g", "textual inversion"},
  };
  for (const auto& [name, what] : cases) {
    EXPECT_THAT(Error({Counted(name, {2, 2})}), HasSubstr(what)) << name;
  }
}

class LoraBaseTest : public LoraFileTest {
 protected:
  // The error of a file with these tensors for a published model, OK if it would be read.
  absl::Status ReadFor(const std::string& model, const Tensors& tensors,
                       const Texts& metadata = {}) const {
    for (const PublishedModel& published : PublishedModels()) {
      if (published.name != model) continue;
      const ModelModules modules(ShapesOf(published));
      return ReadLora("film", Write(tensors, metadata), modules).status();
    }
    return absl::NotFoundError(model);
  }

  // A LoRA of rank 1 of cross-attention in the middle, which all UNets have, as kohya writes it.
  static Tensors Middle(int64_t text_features) {
    const std::string module = "lora_unet_mid_block_attentions_0_transformer_blocks_0_attn2_to_k";
    return {FilledTensor(module + ".lora_down.weight", {1, text_features}, 1),
            FilledTensor(module + ".lora_up.weight", {1280, 1}, 1)};
  }

  // A part that two models have in common.
  static Tensors Encoder() {
    const std::string module = "lora_te_text_model_encoder_layers_0_mlp_fc1";
    return {FilledTensor(module + ".lora_down.weight", {1, 768}, 1),
            FilledTensor(module + ".lora_up.weight", {3072, 1}, 1)};
  }
};

TEST_F(LoraBaseTest, AnotherBaseIsToldByShapes) {
  EXPECT_OK(ReadFor("SDXL", Middle(2048)));
  EXPECT_OK(ReadFor("SD 1.5", Middle(768)));
  EXPECT_OK(ReadFor("SD 2.1", Middle(1024)));
  EXPECT_THAT(ReadFor("SDXL", Middle(768)),
              StatusIs(kInvalid, AllOf(HasSubstr("a LoRA for Stable Diffusion 1 "),
                                       HasSubstr("768 features"), HasSubstr("model is SDXL"))));
  EXPECT_THAT(ReadFor("SD 1.5", Middle(2048)),
              StatusIs(kInvalid, AllOf(HasSubstr("a LoRA for SDXL "),
                                       HasSubstr("model is Stable Diffusion 1"))));
  EXPECT_THAT(ReadFor("SD 1.5", Middle(1024)), StatusIs(kInvalid, HasSubstr("Diffusion 2")));
}

TEST_F(LoraBaseTest, AnotherBaseIsToldByMetadata) {
  EXPECT_OK(ReadFor("SDXL", Encoder(), {{"ss_base_model_version", "sdxl_base_v1-0"}}));
  EXPECT_OK(ReadFor("SDXL", Encoder()));
  EXPECT_THAT(ReadFor("SDXL", Encoder(), {{"ss_base_model_version", "sd_v1"}}),
              StatusIs(kInvalid, AllOf(HasSubstr("Stable Diffusion 1"), HasSubstr("metadata"))));
  EXPECT_THAT(ReadFor("SD 1.5", Encoder(),
                      {{"modelspec.architecture", "stable-diffusion-xl-v1-base/lora"}}),
              StatusIs(kInvalid, HasSubstr("SDXL")));
  // Shapes know better.
  EXPECT_OK(ReadFor("SDXL", Middle(2048), {{"ss_base_model_version", "sd_v1"}}));
}

TEST_F(LoraRefusalsTest, ShapesThatDoNotFitAreNamedWithTheRightOnes) {
  EXPECT_THAT(Error({Counted(kKohyaToQ + ".lora_down.weight", {2, 7}),
                     Counted(kKohyaToQ + ".lora_up.weight", {8, 2})}),
              AllOf(HasSubstr(kKohyaToQ + ".lora_down.weight is f32[2,7]"), HasSubstr("[2,6]"),
                    HasSubstr(kToQ)));
  EXPECT_THAT(Error({Counted(kKohyaToQ + ".lora_down.weight", {2, 6}),
                     Counted(kKohyaToQ + ".lora_up.weight", {8, 3})}),
              AllOf(HasSubstr("f32[8,3]"), HasSubstr("[8,2] would be right")));
  EXPECT_THAT(Error({Counted(kKohyaToQ + ".lora_down.weight", {2, 2, 3}),
                     Counted(kKohyaToQ + ".lora_up.weight", {8, 2})}),
              HasSubstr("f32[2,2,3]"));
  EXPECT_THAT(Error({Counted(kKohyaConv + ".diff", {6, 8, 3, 1})}), HasSubstr("[6,8,3,3]"));
  EXPECT_THAT(Error({Counted("lora_unet_mid_block_resnets_0_norm1.lora_down.weight", {1, 8}),
                     Counted("lora_unet_mid_block_resnets_0_norm1.lora_up.weight", {8, 1})}),
              HasSubstr("vector"));
  EXPECT_THAT(Error(With({Counted(kKohyaToQ + ".lora_magnitude_vector", {6})})),
              HasSubstr("[8] would be right"));
}

TEST_F(LoraRefusalsTest, PartsThatAreMissingAreNamed) {
  EXPECT_THAT(Error({Counted(kKohyaToQ + ".lora_down.weight", {2, 6})}),
              HasSubstr("no tensor up (lora_up, lora_B)"));
  EXPECT_THAT(Error({Counted(kKohyaToQ + ".lora_up.weight", {8, 2})}),
              HasSubstr("no tensor down (lora_down, lora_A)"));
  EXPECT_THAT(
      Error({Counted(kKohyaToQ + ".hada_w1_b", {2, 6}), Counted(kKohyaToQ + ".hada_w2_b", {2, 6})}),
      HasSubstr("no tensor hada_w1_a"));
  EXPECT_THAT(Error({Counted(kKohyaToQ + ".lokr_w1", {2, 3})}), HasSubstr("no tensor lokr_w2_b"));
  EXPECT_THAT(Error({Counted(kKohyaToQ + ".dora_scale", {8, 1})}), HasSubstr("no delta"));
}

TEST_F(LoraRefusalsTest, TwoChangesOfOneWeightAreAnError) {
  EXPECT_THAT(Error(With({Counted(kKohyaToQ + ".diff", {8, 6})})), HasSubstr("in two ways"));
  EXPECT_THAT(Error(With({Counted(kKohyaToQ + ".dora_scale", {8, 1}),
                          Counted(kKohyaToQ + ".lora_magnitude_vector", {8})})),
              HasSubstr("two magnitudes"));
}

TEST_F(LoraRefusalsTest, AMagnitudeOfAVectorIsAnError) {
  const std::string norm = "lora_unet_mid_block_resnets_0_norm1";
  for (const std::string difference : {".w_norm", ".diff"}) {
    EXPECT_THAT(Error({Counted(norm + difference, {8}), Counted(norm + ".dora_scale", {8, 1})}),
                AllOf(HasSubstr(norm + ".dora_scale"), HasSubstr("its weight is a vector, [8]")));
    EXPECT_THAT(
        Error({Counted(norm + difference, {8}), Counted(norm + ".lora_magnitude_vector", {8})}),
        HasSubstr("its weight is a vector, [8]"));
  }
}

TEST_F(LoraRefusalsTest, PartsOfAWeightsDeltaBesideABiasAloneAreAnError) {
  const std::string module = "lora_unet_down_blocks_0_attentions_0_proj_in";
  const auto bias = Counted(module + ".diff_b", {8});
  EXPECT_OK(Read({bias, Counted(module + ".alpha", {})}).status());
  for (const auto& [suffix, shape] : std::vector<std::pair<std::string, std::vector<int64_t>>>{
           {".dora_scale", {8, 1}}, {".lora_magnitude_vector", {8}}}) {
    EXPECT_THAT(Error({bias, Counted(module + suffix, shape)}),
                AllOf(HasSubstr(module + suffix), HasSubstr("no delta")));
  }
  EXPECT_THAT(Error({Counted(module + ".lora_B.bias", {8})}),
              AllOf(HasSubstr(".lora_B.bias"), HasSubstr("no delta")));
}

TEST_F(LoraRefusalsTest, ADeltaOfAWeightThatTheModuleLacksIsAnError) {
  absl::btree_map<std::string, device::Shape> shapes;
  shapes.emplace("unet/a.bias", device::Shape{4});
  const ModelModules biases(shapes);
  const std::string path =
      Write({Counted("unet.a.lora_A.weight", {1, 4}), Counted("unet.a.lora_B.weight", {4, 1}),
             Counted("unet.a.diff_b", {4})});
  EXPECT_THAT(ReadLora("film", path, biases),
              StatusIs(kInvalid, AllOf(HasSubstr("unet.a.lora_A.weight"), HasSubstr("no delta"))));
}

TEST_F(LoraRefusalsTest, AScaleOfAKindWithoutOneIsAnError) {
  const TensorToWrite scale = FilledTensor(kKohyaToQ + ".scale", {}, 3);
  EXPECT_THAT(Error({Counted(kKohyaToQ + ".diff", {8, 6}), scale}),
              AllOf(HasSubstr(kKohyaToQ + ".scale"), HasSubstr("this kind has not")));
  EXPECT_THAT(Error({Counted(kKohyaToQ + ".lokr_w1", {2, 3}),
                     Counted(kKohyaToQ + ".lokr_w2", {4, 2}), scale}),
              HasSubstr("this kind has not"));
}

TEST_F(LoraRefusalsTest, ScalesBeyondFloat32AreAnError) {
  const double alpha = 1e300;
  const std::string bytes(reinterpret_cast<const char*>(&alpha), sizeof(alpha));
  EXPECT_THAT(Error(With({TensorToWrite{kKohyaToQ + ".alpha", "F64", {}, bytes}})),
              AllOf(HasSubstr(kKohyaToQ), HasSubstr("beyond float32")));
  EXPECT_THAT(Error(With({}), {{"lora_adapter_metadata", R"({"unet.lora_alpha": -1e300})"}}),
              HasSubstr("beyond float32"));
}

TEST_F(LoraRefusalsTest, AFactorWholeAndInPartsIsAnError) {
  EXPECT_THAT(
      Error({Counted(kKohyaToQ + ".lokr_w1", {2, 3}), Counted(kKohyaToQ + ".lokr_w2", {4, 2}),
             Counted(kKohyaToQ + ".lokr_w2_a", {4, 2})}),
      HasSubstr("one factor in two ways"));
  EXPECT_THAT(
      Error({Counted(kKohyaToQ + ".lokr_w1", {2, 3}), Counted(kKohyaToQ + ".lokr_w2", {4, 2}),
             Counted(kKohyaToQ + ".lokr_w1_b", {4, 2})}),
      HasSubstr("one factor in two ways"));
}

TEST_F(LoraRefusalsTest, AMiddlePartOfALinearIsAnError) {
  EXPECT_THAT(Error(With({Counted(kKohyaToQ + ".lora_mid.weight", {2, 2})})),
              HasSubstr("no convolution"));
}

TEST_F(LoraRefusalsTest, ABiasThatTheModelLacksIsAnError) {
  EXPECT_THAT(Error({Counted(kKohyaToQ + ".diff_b", {8})}), HasSubstr("which has none"));
}

TEST_F(LoraRefusalsTest, ValuesThatAreNotFiniteAreAnError) {
  const auto down = [](const std::string& dtype, const std::string& last, size_t bytes) {
    std::string data(12 * bytes, '\0');
    data.replace(data.size() - bytes, bytes, last);
    return TensorToWrite{kKohyaToQ + ".lora_down.weight", dtype, {2, 6}, data};
  };
  const TensorToWrite bad[] = {down("F32", std::string("\0\0\x80\x7f", 4), 4),
                               down("F32", std::string("\1\0\xc0\xff", 4), 4),
                               down("F16", std::string("\0\x7c", 2), 2),
                               down("F16", std::string("\1\xfe", 2), 2),
                               down("BF16", std::string("\x80\x7f", 2), 2),
                               down("F8_E4M3", "\x7f", 1),
                               down("F8_E5M2", "\x7c", 1),
                               down("F64", std::string("\0\0\0\0\0\0\xf0\x7f", 8), 8)};
  for (const TensorToWrite& tensor : bad) {
    EXPECT_THAT(Error({tensor, Counted(kKohyaToQ + ".lora_up.weight", {8, 2})}),
                AllOf(HasSubstr("lora_down"), HasSubstr("not finite")))
        << tensor.dtype;
  }
  // The greatest values of each.
  const TensorToWrite good[] = {down("F32", std::string("\xff\xff\x7f\x7f", 4), 4),
                                down("F16", std::string("\xff\x7b", 2), 2),
                                down("BF16", std::string("\x7f\xff", 2), 2),
                                down("F8_E4M3", "\x7e", 1), down("F8_E5M2", "\x7b", 1)};
  for (const TensorToWrite& tensor : good) {
    EXPECT_OK(Read({tensor, Counted(kKohyaToQ + ".lora_up.weight", {8, 2})}).status())
        << tensor.dtype;
  }
  EXPECT_THAT(Error(With({FilledTensor(kKohyaToQ + ".alpha", {},
                                       std::numeric_limits<float>::quiet_NaN())})),
              HasSubstr("one finite number"));
  EXPECT_THAT(Error(With({FilledTensor(kKohyaToQ + ".alpha", {2}, 1)})), HasSubstr("f32[2]"));
  EXPECT_THAT(Error(With({TensorToWrite{kKohyaToQ + ".alpha", "I32", {}, std::string(4, '\1')}})),
              AllOf(HasSubstr("I32"), HasSubstr("I64 or U8 would be right")));
}

TEST_F(LoraRefusalsTest, RanksThatNoLoraHasAreAnError) {
  EXPECT_THAT(Error({TensorToWrite{kKohyaToQ + ".lora_down.weight", "F32", {0, 6}, ""},
                     Counted(kKohyaToQ + ".lora_up.weight", {8, 2})}),
              HasSubstr("no elements"));
  const int64_t rank = 5000;
  EXPECT_THAT(Error({FilledTensor(kKohyaToQ + ".lora_down.weight", {rank, 6}, 0),
                     FilledTensor(kKohyaToQ + ".lora_up.weight", {8, rank}, 0)}),
              AllOf(HasSubstr("rank is 5000"), HasSubstr("4096")));
}

TEST_F(LoraRefusalsTest, DtypesThatAreNoFloatsAreAnError) {
  for (const char* dtype : {"I64", "I32", "U8"}) {
    const size_t size = dtype[1] == '6' ? 8 : dtype[1] == '3' ? 4 : 1;
    EXPECT_THAT(
        Error({TensorToWrite{
                   kKohyaToQ + ".lora_down.weight", dtype, {2, 6}, std::string(12 * size, '\0')},
               Counted(kKohyaToQ + ".lora_up.weight", {8, 2})}),
        HasSubstr("can be used"))
        << dtype;
  }
}

TEST_F(LoraRefusalsTest, BrokenFilesSayHow) {
  const std::string path = Path("film.safetensors");
  const auto message = [&](const std::string& bytes) {
    testing::WriteFile(path, bytes);
    return std::string(ReadLora("film", path, modules_).status().message());
  };
  const std::string good = testing::SafetensorsBytes(With({}));
  EXPECT_THAT(message(good.substr(0, 40)), HasSubstr("truncated"));
  EXPECT_THAT(message(good.substr(0, good.size() - 4)), HasSubstr("truncated"));
  EXPECT_THAT(message("\x80\x02}q\x01."), HasSubstr("pickle"));
  EXPECT_THAT(message(std::string("PK\x03\x04", 4) + std::string(60, 'x')), HasSubstr("pickle"));
  EXPECT_THAT(message(testing::SafetensorsBytes(
                  R"({"a.lora_down.weight":{"dtype":"F32","shape":[4294967296,4294967296,4],)"
                  R"("data_offsets":[0,0]}})",
                  "")),
              HasSubstr("impossible number"));
  EXPECT_THAT(ReadLora("film", Path("absent"), modules_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent")));
}

TEST_F(LoraRefusalsTest, FoldersSayWhatTheyLack) {
  testing::WriteFile(Path("folder/readme.md"), "x");
  EXPECT_THAT(ReadLora("film", Path("folder"), modules_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("adapter_model.safetensors")));
  testing::WriteFile(Path("pickled/adapter_model.bin"), "\x80\x02}q\x01.");
  EXPECT_THAT(ReadLora("film", Path("pickled"), modules_), StatusIs(kInvalid, HasSubstr("pickle")));
}

TEST_F(LoraRefusalsTest, ConfigurationsOfPeftThatCannotBeRead) {
  const auto error = [&](const std::string& config) {
    return Error(With({}), {{"lora_adapter_metadata", config}});
  };
  EXPECT_THAT(error("{"), HasSubstr("lora_adapter_metadata"));
  EXPECT_THAT(error(R"({"unet.lora_alpha": "8"})"), HasSubstr("unet.lora_alpha is no number"));
  EXPECT_THAT(error(R"({"unet.use_rslora": 1})"), HasSubstr("unet.use_rslora"));
  EXPECT_THAT(error(R"({"unet.alpha_pattern": []})"), HasSubstr("alpha_pattern is no object"));
  EXPECT_THAT(error(R"({"unet.alpha_pattern": {"a": "b"}})"), HasSubstr("is no number"));
  EXPECT_THAT(error(R"({"unet.alpha_pattern": {"(a+)+": 1}})"), HasSubstr("regular expression"));
  for (const char* empty : {"", "^"}) {
    EXPECT_THAT(error(absl::StrCat(R"({"unet.alpha_pattern": {")", empty, R"(": 1}})")),
                HasSubstr("empty"));
  }
  std::string many = R"({"unet.alpha_pattern": {"a": 1)";
  for (int i = 0; i < 10'000; ++i) absl::StrAppend(&many, ", \"a", i, "\": 1");
  EXPECT_THAT(error(absl::StrCat(many, "}}")), HasSubstr("10001 patterns"));
  Write(With({}), {}, "loha/adapter_model.safetensors");
  testing::WriteFile(Path("loha/adapter_config.json"), R"({"peft_type": "LOHA"})");
  EXPECT_THAT(ReadLora("film", Path("loha"), modules_), StatusIs(kInvalid, HasSubstr("LOHA")));
}

}  // namespace
}  // namespace latentd::adapters
