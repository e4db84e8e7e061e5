#include "core/weights/containers/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::weights {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FilledTensor;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::WriteFile;
using testing::WriteSafetensors;

constexpr char kModelIndex[] = R"({
  "_class_name": "StableDiffusionXLPipeline",
  "_diffusers_version": "0.42.1",
  "force_zeros_for_empty_prompt": true,
  "add_watermarker": null,
  "image_encoder": [null, null],
  "scheduler": ["diffusers", "EulerDiscreteScheduler"],
  "tokenizer": ["transformers", "CLIPTokenizer"],
  "text_encoder": ["transformers", "CLIPTextModel"],
  "unet": ["diffusers", "UNet2DConditionModel"],
  "vae": ["diffusers", "AutoencoderKL"]
})";

// A checkpoint directory that tests spoil; nothing but model_index.json is in it at first.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() { WriteFile(Path("model_index.json"), kModelIndex); }

  std::string Path(const std::string& name) const { return directory_.File("checkpoint/" + name); }
  std::string Root() const { return directory_.File("checkpoint"); }

  void WriteTensor(const std::string& file, const std::string& name, float value = 1) const {
    WriteSafetensors(Path(file), {FilledTensor(name, {2}, value)});
  }

  absl::StatusOr<SourceMap> Load(const std::string& component,
                                 const std::string& variant = "") const {
    ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open({Root(), variant}));
    return checkpoint.LoadWeights(component);
  }

  testing::TemporaryDirectory directory_;
};

float FirstValue(const SourceMap& tensors, const std::string& name) {
  return tensors.at(name).from[0].data.as<float>()[0];
}

TEST_F(CheckpointTest, KnowsItsComponents) {
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open({Root()}));
  EXPECT_EQ(checkpoint.path(), Root());
  EXPECT_EQ(checkpoint.pipeline_class(), "StableDiffusionXLPipeline");
  EXPECT_EQ(checkpoint.components().size(), 5u);
  EXPECT_EQ(checkpoint.components().at("vae"), (Component{"diffusers", "AutoencoderKL"}));
  EXPECT_FALSE(checkpoint.Has("image_encoder"));
  EXPECT_FALSE(checkpoint.Has("add_watermarker"));
}

// model_index.json need not name a tiny VAE, since no pipeline of diffusers has one.
TEST_F(CheckpointTest, HasATinyVaeWhereItsFolderIs) {
  EXPECT_FALSE(Checkpoint::Open({Root()})->Has("vae_tiny"));
  WriteFile(Path("vae_tiny/config.json"), "{}");
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open({Root()}));
  EXPECT_EQ(checkpoint.components().at("vae_tiny"), (Component{"diffusers", "AutoencoderTiny"}));
  EXPECT_EQ(*checkpoint.ConfigText("vae_tiny"), "{}");
  WriteFile(Path("model_index.json"), R"({"vae_tiny": [null, null]})");
  EXPECT_FALSE(Checkpoint::Open({Root()})->Has("vae_tiny"));
}

TEST_F(CheckpointTest, OptionsHaveDiffusersDefaults) {
  WriteFile(Path("model_index.json"), "{}");
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open({Root()}));
  EXPECT_TRUE(checkpoint.force_zeros_for_empty_prompt());
  EXPECT_FALSE(checkpoint.requires_aesthetics_score());
}

TEST_F(CheckpointTest, OptionsAreRead) {
  WriteFile(Path("model_index.json"),
            R"({"force_zeros_for_empty_prompt": false, "requires_aesthetics_score": true})");
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open({Root()}));
  EXPECT_FALSE(checkpoint.force_zeros_for_empty_prompt());
  EXPECT_TRUE(checkpoint.requires_aesthetics_score());
}

TEST_F(CheckpointTest, GivesConfigsAndFolders) {
  WriteFile(Path("vae/config.json"), R"({"latent_channels": 4})");
  WriteFile(Path("scheduler/scheduler_config.json"), R"({"steps_offset": -Infinity})");
  WriteFile(Path("tokenizer/vocab.json"), "{}");
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open({Root()}));
  EXPECT_EQ(*checkpoint.ConfigText("vae"), R"({"latent_channels": 4})");
  EXPECT_EQ(*checkpoint.SchedulerConfigText(), R"({"steps_offset": -Infinity})");
  EXPECT_EQ(checkpoint.Tokenizer("tokenizer")->directory, Path("tokenizer"));
}

TEST_F(CheckpointTest, SumsUpWeightSizes) {
  WriteSafetensors(Path("unet/diffusion_pytorch_model.safetensors"),
                   {FilledTensor("a", {3}, 1), {"b", "F16", {5}, std::string(10, '\0')}});
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open({Root()}));
  ASSERT_OK_AND_ASSIGN(const WeightSize size, checkpoint.SizeOf("unet"));
  EXPECT_EQ(size.bytes, 22);
  EXPECT_EQ(size.elements, 8);
}

// Choice of files.

TEST_F(CheckpointTest, ReadsFilesOfBothLibraries) {
  WriteTensor("unet/diffusion_pytorch_model.safetensors", "conv_in.bias");
  WriteTensor("text_encoder/model.safetensors", "final_layer_norm.bias");
  EXPECT_TRUE(Load("unet")->contains("conv_in.bias"));
  EXPECT_TRUE(Load("text_encoder")->contains("text_model.final_layer_norm.bias"));
}

TEST_F(CheckpointTest, PrefersFilesWithoutASuffix) {
  WriteTensor("unet/diffusion_pytorch_model.safetensors", "a", 32);
  WriteTensor("unet/diffusion_pytorch_model.fp16.safetensors", "a", 16);
  EXPECT_EQ(FirstValue(*Load("unet"), "a"), 32);
}

TEST_F(CheckpointTest, ReadsTheVariantThatIsAskedFor) {
  WriteTensor("unet/diffusion_pytorch_model.safetensors", "a", 32);
  WriteTensor("unet/diffusion_pytorch_model.fp16.safetensors", "a", 16);
  EXPECT_EQ(FirstValue(*Load("unet", "fp16"), "a"), 16);
}

TEST_F(CheckpointTest, ReadsFp16WhereNothingElseIs) {
  WriteTensor("text_encoder/model.fp16.safetensors", "a", 16);
  EXPECT_EQ(FirstValue(*Load("text_encoder"), "text_model.a"), 16);
}

TEST_F(CheckpointTest, ReadsPlainFilesOfAComponentWithoutTheVariant) {
  WriteTensor("unet/diffusion_pytorch_model.fp16.safetensors", "a", 16);
  WriteTensor("vae/diffusion_pytorch_model.safetensors", "a", 32);
  EXPECT_EQ(FirstValue(*Load("vae", "fp16"), "a"), 32);
}

TEST_F(CheckpointTest, RefusesAVariantThatNoComponentHas) {
  WriteTensor("unet/diffusion_pytorch_model.safetensors", "a");
  EXPECT_THAT(Load("unet", "fp16"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no tensors of the variant fp16")));
}

TEST_F(CheckpointTest, RefusesAVariantThatIsAPath) {
  EXPECT_THAT(Load("unet", "../../x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("../../x")));
}

TEST_F(CheckpointTest, FollowsTheLinksOfASnapshot) {
  // As in the Hugging Face cache: snapshots/REVISION/unet/FILE -> ../../../blobs/DIGEST.
  WriteSafetensors(directory_.File("blobs/0123"), {FilledTensor("a", {2}, 7)});
  WriteFile(directory_.File("blobs/4567"), kModelIndex);
  const std::string snapshot = directory_.File("snapshots/89ab");
  std::filesystem::create_directories(snapshot + "/unet");
  std::filesystem::create_symlink("../../../blobs/0123",
                                  snapshot + "/unet/diffusion_pytorch_model.safetensors");
  std::filesystem::create_symlink("../../blobs/4567", snapshot + "/model_index.json");
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open({snapshot}));
  ASSERT_OK_AND_ASSIGN(const SourceMap tensors, checkpoint.LoadWeights("unet"));
  EXPECT_EQ(FirstValue(tensors, "a"), 7);
}

TEST_F(CheckpointTest, GivesTensorsOfOldFilesTodaysNames) {
  WriteTensor("vae/diffusion_pytorch_model.safetensors", "mid.query.bias", 2);
  WriteTensor("text_encoder/model.safetensors", "final_layer_norm.bias", 3);
  EXPECT_EQ(FirstValue(*Load("vae"), "mid.to_q.bias"), 2);
  EXPECT_EQ(FirstValue(*Load("text_encoder"), "text_model.final_layer_norm.bias"), 3);
}

TEST_F(CheckpointTest, SaysThatALinkLeadsNowhere) {
  std::filesystem::create_directories(Path("unet"));
  std::filesystem::create_symlink("../gone", Path("unet/diffusion_pytorch_model.safetensors"));
  EXPECT_THAT(Load("unet"), StatusIs(absl::StatusCode::kNotFound,
                                     AllOf(HasSubstr("diffusion_pytorch_model.safetensors"),
                                           HasSubstr("a symbolic link to ../gone"))));
}

// Shards.

struct ShardNames {
  std::string variant, index, first, second;
};

class ShardedCheckpointTest : public CheckpointTest,
                              public ::testing::WithParamInterface<ShardNames> {};

TEST_P(ShardedCheckpointTest, ReadsAllShards) {
  const ShardNames& names = GetParam();
  WriteFile(Path("unet/" + names.index),
            absl::StrCat(R"({"metadata":{"total_size":16},"weight_map":{"a":")", names.first,
                         R"(","b":")", names.second, R"("}})"));
  WriteTensor("unet/" + names.first, "a", 1);
  WriteTensor("unet/" + names.second, "b", 2);
  ASSERT_OK_AND_ASSIGN(const SourceMap tensors, Load("unet", names.variant));
  EXPECT_EQ(tensors.size(), 2u);
  EXPECT_EQ(FirstValue(tensors, "a"), 1);
  EXPECT_EQ(FirstValue(tensors, "b"), 2);
}

INSTANTIATE_TEST_SUITE_P(
    AllSpellings, ShardedCheckpointTest,
    ::testing::Values(ShardNames{"", "diffusion_pytorch_model.safetensors.index.json",
                                 "diffusion_pytorch_model-00001-of-00002.safetensors",
                                 "diffusion_pytorch_model-00002-of-00002.safetensors"},
                      ShardNames{"", "model.safetensors.index.json",
                                 "model-00001-of-00002.safetensors",
                                 "model-00002-of-00002.safetensors"},
                      ShardNames{"fp16", "diffusion_pytorch_model.safetensors.index.fp16.json",
                                 "diffusion_pytorch_model.fp16-00001-of-00002.safetensors",
                                 "diffusion_pytorch_model.fp16-00002-of-00002.safetensors"},
                      ShardNames{"fp16", "diffusion_pytorch_model.safetensors.index.fp16.json",
                                 "diffusion_pytorch_model-00001-of-00002.fp16.safetensors",
                                 "diffusion_pytorch_model-00002-of-00002.fp16.safetensors"},
                      ShardNames{"fp16", "diffusion_pytorch_model.safetensors.fp16.index.json",
                                 "diffusion_pytorch_model-00001-of-00002.fp16.safetensors",
                                 "diffusion_pytorch_model-00002-of-00002.fp16.safetensors"}));

class ShardIndexTest : public CheckpointTest {
 protected:
  absl::StatusOr<SourceMap> LoadWithIndex(const std::string& text) {
    WriteFile(Path("unet/diffusion_pytorch_model.safetensors.index.json"), text);
    return Load("unet");
  }
};

TEST_F(ShardIndexTest, NamesAMissingShard) {
  EXPECT_THAT(LoadWithIndex(R"({"weight_map":{"a":"part-1.safetensors"}})"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr(Path("unet/part-1.safetensors")), HasSubstr("a shard of"),
                             HasSubstr("index.json"))));
}

TEST_F(ShardIndexTest, NamesATensorThatItsShardLacks) {
  WriteTensor("unet/part-1.safetensors", "a");
  EXPECT_THAT(
      LoadWithIndex(R"({"weight_map":{"a":"part-1.safetensors","b":"part-1.safetensors"}})"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("part-1.safetensors lacks tensor b"), HasSubstr("index.json"))));
}

TEST_F(ShardIndexTest, TakesEachTensorFromTheShardThatTheIndexNames) {
  WriteSafetensors(Path("unet/part-1.safetensors"),
                   {FilledTensor("a", {2}, 1), FilledTensor("b", {2}, 1)});
  WriteTensor("unet/part-2.safetensors", "b", 2);
  ASSERT_OK_AND_ASSIGN(
      const SourceMap tensors,
      LoadWithIndex(R"({"weight_map":{"a":"part-1.safetensors","b":"part-2.safetensors"}})"));
  EXPECT_EQ(FirstValue(tensors, "b"), 2);
}

// A whole file is there too: diffusers reads by the index, transformers the file.
TEST_F(ShardIndexTest, IsPreferredWhereDiffusersReadsIt) {
  const std::string stale = R"({"weight_map":{"a":"gone.safetensors"}})";
  for (const std::string variant : {"", "fp16"}) {
    const std::string dot = variant.empty() ? "" : "." + variant;
    WriteTensor("vae/diffusion_pytorch_model" + dot + ".safetensors", "a");
    WriteFile(Path("vae/diffusion_pytorch_model.safetensors.index" + dot + ".json"), stale);
    WriteTensor("text_encoder/model" + dot + ".safetensors", "a");
    WriteFile(Path("text_encoder/model.safetensors.index" + dot + ".json"), stale);
    EXPECT_THAT(Load("vae", variant),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("gone.safetensors")));
    EXPECT_OK(Load("text_encoder", variant));
  }
}

TEST_F(ShardIndexTest, RefusesShardsOutsideOfTheFolder) {
  WriteTensor("secret.safetensors", "a");
  for (const std::string& shard :
       {std::string("../secret.safetensors"), Path("secret.safetensors"), std::string(".."),
        std::string("x/../../secret.safetensors"), std::string("secret.json"), std::string(""),
        std::string("a\\u0000.safetensors")}) {
    EXPECT_THAT(LoadWithIndex(absl::StrCat(R"({"weight_map":{"a":")", shard, R"("}})")),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("tensor a"), HasSubstr("in the same folder"))))
        << shard;
  }
}

TEST_F(ShardIndexTest, RefusesAnIndexThatIsNone) {
  for (const char* text : {"{}", R"({"weight_map":[]})", R"({"weight_map":{}})"}) {
    EXPECT_THAT(LoadWithIndex(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("weight_map")))
        << text;
  }
  EXPECT_THAT(LoadWithIndex(R"({"weight_map":{"a":5}})"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tensor a")));
  EXPECT_THAT(LoadWithIndex("{"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("index.json is not JSON")));
}

// Folders that are no checkpoint.

TEST_F(CheckpointTest, SaysWhatToPassInsteadOfNothing) {
  EXPECT_THAT(Checkpoint::Open({"/nowhere/sdxl"}),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("/nowhere/sdxl"), HasSubstr("No such file"),
                             HasSubstr("diffusers checkpoint directory"))));
}

TEST_F(CheckpointTest, RefusesAModelIndexOfAnotherForm) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "model_index.json is not JSON"},
      {"[]", "not an object"},
      {R"({"vae":["diffusers"]})", "\"vae\""},
      {R"({"vae":["diffusers",null]})", "\"vae\""},
      {R"({"vae":"AutoencoderKL"})", "\"vae\""},
      {R"({"_class_name":5})", "\"_class_name\""},
      {R"({"requires_aesthetics_score":"yes"})", "must be true or false"},
  };
  for (const auto& [text, reason] : cases) {
    WriteFile(Path("model_index.json"), text);
    EXPECT_THAT(Checkpoint::Open({Root()}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("model_index.json"), HasSubstr(reason))))
        << text;
  }
}

// As diffusers does, whatever form they have.
TEST_F(CheckpointTest, PassesOverEntriesThatNoSdxlPipelineReads) {
  WriteFile(Path("model_index.json"), R"({
      "_class_name": "StableDiffusionXLPipeline", "_note": 1, "add_watermarker": true,
      "unet": ["diffusers", "UNet2DConditionModel"], "vae": null, "image_encoder": [null, null],
      "../x": ["diffusers", "AutoencoderKL"], "controlnet": ["diffusers", "ControlNetModel"],
      "feature_extractor": null, "requires_safety_checker": true, "safety_checker": ["x"],
      "tiles": [1, 2, 3], "trained": false})");
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open({Root()}));
  EXPECT_THAT(checkpoint.passed_over(), ElementsAre("../x", "controlnet", "requires_safety_checker",
                                                    "safety_checker", "tiles"));
  EXPECT_TRUE(checkpoint.Has("unet"));
  EXPECT_FALSE(checkpoint.Has("vae"));
  EXPECT_FALSE(checkpoint.Has("../x"));
}

TEST_F(CheckpointTest, TakesNullForFalse) {
  WriteFile(Path("model_index.json"),
            R"({"force_zeros_for_empty_prompt": null, "requires_aesthetics_score": null})");
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open({Root()}));
  EXPECT_FALSE(checkpoint.force_zeros_for_empty_prompt());
  EXPECT_FALSE(checkpoint.requires_aesthetics_score());
}

TEST_F(CheckpointTest, NamesAComponentThatIsNotThere) {
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open({Root()}));
  EXPECT_THAT(
      checkpoint.ConfigText("text_encoder_2"),
      StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("names no component text_encoder_2"),
                                                  HasSubstr("it names scheduler, text_encoder"))));
  EXPECT_THAT(checkpoint.Tokenizer("tokenizer"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr(Path("tokenizer")), HasSubstr("CLIPTokenizer"))));
}

TEST_F(CheckpointTest, RefusesConfigsThatAreNotJson) {
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open({Root()}));
  const std::string file = Path("unet/config.json");
  const std::string deep = R"({"a":)" + std::string(10'000, '[') + std::string(10'000, ']') + "}";
  const std::pair<std::string, std::string> cases[] = {
      {"", "is not JSON"},
      {"{\"a\": 1,}", "is not JSON: it goes wrong at byte"},
      {"5", "not an object"},
      {"[1]", "not an object"},
      {"{\"a\":\"\xff\"}", "is not JSON"},
      {deep, "nested more than 64 deep"},
      {"{\"a\":\"" + std::string(2 << 20, 'x') + "\"}", "longer than 1048576 bytes"},
  };
  for (const auto& [text, reason] : cases) {
    WriteFile(file, text);
    EXPECT_THAT(checkpoint.ConfigText("unet"), StatusIs(absl::StatusCode::kInvalidArgument,
                                                        AllOf(HasSubstr(file), HasSubstr(reason))));
  }
}

TEST_F(CheckpointTest, NamesAMissingConfig) {
  WriteTensor("unet/diffusion_pytorch_model.safetensors", "a");
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open({Root()}));
  EXPECT_THAT(checkpoint.ConfigText("unet"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(Path("unet/config.json"))));
}

TEST_F(CheckpointTest, SaysThatPickledFilesAreNotRead) {
  WriteFile(Path("unet/diffusion_pytorch_model.bin"), "x");
  EXPECT_THAT(Load("unet"), StatusIs(absl::StatusCode::kNotFound,
                                     AllOf(HasSubstr("it has diffusion_pytorch_model.bin"),
                                           HasSubstr("safe_serialization=True"))));
}

TEST_F(CheckpointTest, SaysThatAFolderIsEmpty) {
  std::filesystem::create_directories(Path("unet"));
  EXPECT_THAT(Load("unet"), StatusIs(absl::StatusCode::kNotFound,
                                     AllOf(HasSubstr(Path("unet")), HasSubstr("it has nothing"))));
}

}  // namespace
}  // namespace latentd::weights
