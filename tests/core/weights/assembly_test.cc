// Checkpoints of components that come from several places. A single file is made of the demo's
// folders: its components by diffusers' names, each under a prefix, as some exports have them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/weights/containers/checkpoint.h"
#include "core/weights/containers/safetensors.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::weights {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using testing::StatusIs;

const std::string kDemo = ::latentd::testing::SourcePath("deploy/demo-model/base");
const std::string kRefiner = ::latentd::testing::SourcePath("deploy/demo-model/refiner");
constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

class AssemblyTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return directory_.File(name); }

  // A file of these components of a folder, each under its prefix, which may be empty.
  std::string WriteFileOf(const std::string& name,
                          std::initializer_list<std::pair<const char*, const char*>> components,
                          const std::string& folder = kDemo,
                          const std::vector<testing::TensorToWrite>& more = {}) const {
    std::vector<testing::TensorToWrite> tensors = more;
    const auto checkpoint = Checkpoint::Open({folder});
    EXPECT_OK(checkpoint);
    if (!checkpoint.ok()) return "";
    for (const auto& [component, prefix] : components) {
      const auto weights = checkpoint->LoadWeights(component);
      EXPECT_OK(weights);
      for (const auto& [weight, source] : *weights) {
        tensors.push_back(CopyOf(source.from[0], absl::StrCat(prefix, weight)));
      }
    }
    testing::WriteSafetensors(Path(name), tensors);
    return Path(name);
  }

  std::string WriteWhole(const std::string& name = "demo.safetensors") const {
    return WriteFileOf(name, {{"unet", "unet."},
                              {"vae", "vae."},
                              {"text_encoder", "text_encoder."},
                              {"text_encoder_2", "text_encoder_2."}});
  }

  // A copy of the demo that tests spoil.
  std::string CopyDemo(const std::string& name) const {
    std::filesystem::copy(kDemo, Path(name), std::filesystem::copy_options::recursive);
    return Path(name);
  }

  static std::string FileOf(const Checkpoint& checkpoint, const std::string& component) {
    const auto weights = checkpoint.LoadWeights(component);
    EXPECT_OK(weights);
    return weights.ok() && !weights->empty() ? weights->begin()->second.from[0].file : "";
  }

 private:
  static testing::TensorToWrite CopyOf(const StoredTensor& tensor, std::string name) {
    const device::ConstBuffer& data = tensor.data;
    return {std::move(name), "F16", data.shape().dims(),
            std::string(static_cast<const char*>(data.data()), data.bytes())};
  }

  testing::TemporaryDirectory directory_;
};

// Facts that no tensor says come from a checkpoint of the same shapes; weights stay the file's.
TEST_F(AssemblyTest, AFileIsConfiguredByACheckpointOfItsShapes) {
  const std::string file = WriteWhole();
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                       Checkpoint::Open({.path = file, .components_from = kDemo}));
  ASSERT_OK_AND_ASSIGN(const Checkpoint folder, Checkpoint::Open({kDemo}));
  EXPECT_EQ(checkpoint.index(), file);
  EXPECT_EQ(checkpoint.pipeline_class(), folder.pipeline_class());
  EXPECT_EQ(checkpoint.components(), folder.components());
  for (const std::string component : {"unet", "vae", "text_encoder", "text_encoder_2"}) {
    EXPECT_EQ(checkpoint.ConfigName(component), folder.ConfigName(component));
    EXPECT_EQ(*checkpoint.ConfigText(component), *folder.ConfigText(component));
    EXPECT_EQ(FileOf(checkpoint, component), file);
  }
  EXPECT_EQ(checkpoint.Tokenizer("tokenizer_2")->directory, kDemo + "/tokenizer_2");
  EXPECT_EQ(checkpoint.ConfigName("scheduler"), folder.ConfigName("scheduler"));
  EXPECT_THAT(checkpoint.notes(), Contains(HasSubstr("configured as in " + kDemo)));
  EXPECT_THAT(checkpoint.warnings(), IsEmpty());
}

TEST_F(AssemblyTest, AFileAloneHasTheVocabularyOfClip) {
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open({WriteWhole()}));
  EXPECT_EQ(checkpoint.Tokenizer("tokenizer")->directory, "");
  EXPECT_EQ(checkpoint.Tokenizer("tokenizer")->pad_token, "<|endoftext|>");
  EXPECT_EQ(checkpoint.Tokenizer("tokenizer_2")->pad_token, "!");
}

// The demo's heads have 32 channels, those of published models 64.
TEST_F(AssemblyTest, HeadsThatAFileDoesNotSayAreAskedFor) {
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open({WriteWhole()}));
  EXPECT_THAT(checkpoint.ConfigText("unet"),
              StatusIs(kInvalid, AllOf(HasSubstr("heads of 64"), HasSubstr("--components-from"))));
}

TEST_F(AssemblyTest, AFileWithOtherShapesIsNotConfiguredByACheckpoint) {
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                       Checkpoint::Open({.path = WriteWhole(), .components_from = kRefiner}));
  EXPECT_THAT(checkpoint.ConfigName("unet"), EndsWith("demo.safetensors (unet)"));
  EXPECT_EQ(checkpoint.ConfigName("vae"), kRefiner + "/vae/config.json");
}

TEST_F(AssemblyTest, NamesAllThatAFileLacksAtOnce) {
  const std::string file = WriteFileOf("unet.safetensors", {{"unet", "unet."},
                                                            {"text_encoder", "text_encoder."},
                                                            {"text_encoder_2", "text_encoder_2."}});
  EXPECT_THAT(Checkpoint::Open({file}),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(StartsWith(file + " lacks vae"), HasSubstr("--components-from=PATH"),
                             HasSubstr("--vae=PATH"))));
  EXPECT_THAT(Checkpoint::Open({.path = file, .flag = "refiner"}),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("--refiner-components-from"), Not(HasSubstr("--vae")))));
}

TEST_F(AssemblyTest, AnotherCheckpointSuppliesWhatIsLacking) {
  const std::string file = WriteFileOf("part.safetensors", {{"unet", "unet."},
                                                            {"text_encoder", "text_encoder."},
                                                            {"text_encoder_2", "text_encoder_2."}});
  for (const std::string& other : {kDemo, WriteWhole()}) {
    ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                         Checkpoint::Open({.path = file, .components_from = other}));
    EXPECT_THAT(FileOf(checkpoint, "vae"), StartsWith(other));
    EXPECT_EQ(FileOf(checkpoint, "unet"), file);
    EXPECT_THAT(checkpoint.notes(), Contains(HasSubstr("from " + other + ": vae")));
    EXPECT_THAT(checkpoint.warnings(), IsEmpty());
  }
}

// A download that was broken off.
TEST_F(AssemblyTest, AFolderThatIsMissingIsSupplied) {
  const std::string folder = CopyDemo("partial");
  std::filesystem::remove_all(folder + "/text_encoder");
  ASSERT_OK_AND_ASSIGN(const Checkpoint without, Checkpoint::Open({folder}));
  EXPECT_THAT(without.ConfigText("text_encoder"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("text_encoder is missing")));
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                       Checkpoint::Open({.path = folder, .components_from = kDemo}));
  EXPECT_THAT(FileOf(checkpoint, "text_encoder"), StartsWith(kDemo));
  EXPECT_THAT(FileOf(checkpoint, "text_encoder_2"), StartsWith(folder));
  EXPECT_THAT(checkpoint.warnings(), Contains(HasSubstr("takes those of " + kDemo)));
}

// Replaced components.

TEST_F(AssemblyTest, AVaeComesFromAFileAFolderOrACheckpoint) {
  const std::string alone = WriteFileOf("vae.safetensors", {{"vae", ""}}), whole = WriteWhole();
  for (const std::string& path : {alone, whole, kRefiner, kRefiner + "/vae"}) {
    ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                         Checkpoint::Open({.path = kDemo, .components = {{"vae", path}}}));
    EXPECT_THAT(FileOf(checkpoint, "vae"), StartsWith(path));
    EXPECT_THAT(FileOf(checkpoint, "unet"), StartsWith(kDemo));
    ASSERT_OK_AND_ASSIGN(const std::string config, checkpoint.ConfigText("vae"));
    EXPECT_EQ(nlohmann::json::parse(config)["scaling_factor"], 0.92808);
  }
}

// A VAE that replaces none has the settings of the family.
TEST_F(AssemblyTest, AVaeOfAFileHasTheSettingsOfTheFamily) {
  const std::string file = WriteFileOf("unet.safetensors", {{"unet", "unet."},
                                                            {"text_encoder", "text_encoder."},
                                                            {"text_encoder_2", "text_encoder_2."}});
  const std::string vae = WriteFileOf("vae.safetensors", {{"vae", ""}});
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                       Checkpoint::Open({.path = file, .components = {{"vae", vae}}}));
  ASSERT_OK_AND_ASSIGN(const std::string text, checkpoint.ConfigText("vae"));
  const nlohmann::json config = nlohmann::json::parse(text);
  EXPECT_EQ(config["scaling_factor"], 0.13025);
  EXPECT_EQ(config["force_upcast"], true);
}

TEST_F(AssemblyTest, AUnetOfTheSameShapesKeepsTheConfiguration) {
  const std::string unet = WriteFileOf("unet.safetensors", {{"unet", ""}});
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                       Checkpoint::Open({.path = kDemo, .components = {{"unet", unet}}}));
  EXPECT_EQ(checkpoint.ConfigName("unet"), kDemo + "/unet/config.json");
  EXPECT_EQ(FileOf(checkpoint, "unet"), unet);
}

TEST_F(AssemblyTest, RefusesAUnetOfAnotherFamilyByName) {
  EXPECT_THAT(
      Checkpoint::Open({.path = kDemo, .components = {{"unet", kRefiner}}}),
      StatusIs(kInvalid, AllOf(StartsWith("--unet: " + kRefiner), HasSubstr("cross_attention_dim"),
                               HasSubstr("same family"))));
}

TEST_F(AssemblyTest, NamesTheFlagOfWhatIsNoComponent) {
  const auto open = [](const std::string& component, const std::string& path) {
    return Checkpoint::Open({.path = kDemo, .components = {{component, path}}});
  };
  EXPECT_THAT(open("vae", kDemo + "/unet"),
              StatusIs(kInvalid, AllOf(StartsWith("--vae: "), HasSubstr("UNet2DConditionModel"))));
  EXPECT_THAT(open("vae_tiny", kDemo + "/vae"),
              StatusIs(kInvalid, AllOf(StartsWith("--vae-tiny: "), HasSubstr("AutoencoderKL"))));
  EXPECT_THAT(
      open("text_encoder_2", kDemo + "/text_encoder"),
      StatusIs(kInvalid, AllOf(StartsWith("--text-encoder-2: "), HasSubstr("CLIPTextModel"))));
  EXPECT_THAT(open("unet", "/nowhere"),
              StatusIs(absl::StatusCode::kNotFound, StartsWith("--unet: cannot open /nowhere")));
  EXPECT_THAT(open("unet", kDemo + "/tokenizer"), StatusIs(kInvalid, HasSubstr("is no unet")));
  EXPECT_THAT(
      Checkpoint::Open({.path = kDemo, .components_from = "/nowhere"}),
      StatusIs(absl::StatusCode::kNotFound, StartsWith("--components-from: cannot open /nowhere")));
}

// Schedulers.

class SchedulerTest : public AssemblyTest {
 protected:
  // The demo as a folder whose scheduler_config.json has this text.
  std::string FolderWith(const std::string& text) const {
    const std::string folder = CopyDemo("scheduled");
    testing::WriteFile(folder + "/scheduler/scheduler_config.json", text);
    return folder;
  }
};

TEST_F(SchedulerTest, IsTakenWhereItPredictsTheSame) {
  const std::string folder =
      FolderWith(R"({"timestep_spacing": "trailing", "lambda_min_clipped": -Infinity})");
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                       Checkpoint::Open({.path = WriteWhole(), .components_from = folder}));
  EXPECT_THAT(*checkpoint.SchedulerConfigText(), HasSubstr("trailing"));
}

TEST_F(SchedulerTest, IsNotTakenWhereItPredictsAnother) {
  const std::string folder = FolderWith(R"({"prediction_type": "v_prediction"})");
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                       Checkpoint::Open({.path = WriteWhole(), .components_from = folder}));
  EXPECT_THAT(*checkpoint.SchedulerConfigText(), Not(HasSubstr("v_prediction")));
  EXPECT_THAT(checkpoint.warnings(),
              Contains(AllOf(HasSubstr("is not taken"), HasSubstr("v_prediction"))));
}

// Stable Diffusion 1 has other text encoders and another VAE's scale.
TEST_F(AssemblyTest, RefusesPartsOfAnotherFamily) {
  const std::string other = CopyDemo("other");
  testing::WriteFile(other + "/model_index.json", R"({"_class_name": "StableDiffusionPipeline"})");
  EXPECT_THAT(Checkpoint::Open({.path = kDemo, .components_from = other}),
              StatusIs(kInvalid, AllOf(StartsWith("--components-from: "), HasSubstr(other),
                                       HasSubstr("give a checkpoint of the same family"))));
  EXPECT_OK(Checkpoint::Open({.path = kDemo, .components_from = kRefiner}));
}

// The mean and the deviation of Playground's latents are in no tensor of its VAE, whose shapes are
// those of all.
TEST_F(SchedulerTest, DecidesWhetherAVaeIsConfiguredByAnothers) {
  const std::string folder = CopyDemo("edm");
  const auto open = [&] {
    return Checkpoint::Open({.path = WriteWhole(), .components_from = folder});
  };
  EXPECT_EQ(open()->ConfigName("vae"), folder + "/vae/config.json");
  testing::WriteFile(folder + "/model_index.json", R"({
      "_class_name": "StableDiffusionXLPipeline",
      "scheduler": ["diffusers", "EDMDPMSolverMultistepScheduler"],
      "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"]})");
  EXPECT_EQ(open()->ConfigName("vae"), Path("demo.safetensors") + " (vae)");
}

TEST_F(SchedulerTest, HasTheSettingsOfAUnetThatSaysHowItPredicts) {
  const std::string unet = WriteFileOf("unet.safetensors", {{"unet", "unet."}}, kDemo,
                                       {{"v_pred", "F32", {0}, ""}, {"ztsnr", "F32", {0}, ""}});
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint,
                       Checkpoint::Open({.path = kDemo, .components = {{"unet", unet}}}));
  EXPECT_THAT(checkpoint.scheduler_settings(),
              AllOf(HasSubstr("v_prediction"), HasSubstr("rescale_betas_zero_snr")));
  EXPECT_THAT(checkpoint.prediction_decided_by(),
              AllOf(HasSubstr("the tensors v_pred and ztsnr"), HasSubstr(unet)));
  EXPECT_THAT(checkpoint.notes(), Contains(HasSubstr("v_pred and ztsnr")));
  EXPECT_EQ(Checkpoint::Open({.path = kDemo})->scheduler_settings(), "");
}

TEST_F(SchedulerTest, PredictsWhatTheOperatorSays) {
  ASSERT_OK_AND_ASSIGN(const Checkpoint folder,
                       Checkpoint::Open({.path = kDemo, .prediction_type = "v_prediction"}));
  EXPECT_THAT(folder.said_prediction(), HasSubstr("v_prediction"));
  EXPECT_EQ(folder.prediction_decided_by(), "--prediction-type");
  EXPECT_THAT(folder.notes(), Contains(HasSubstr("by --prediction-type")));
  ASSERT_OK_AND_ASSIGN(const Checkpoint file,
                       Checkpoint::Open({.path = WriteWhole(), .prediction_type = "sample"}));
  EXPECT_THAT(*file.SchedulerConfigText(), HasSubstr("sample"));
}

TEST_F(AssemblyTest, EmaWeightsAreThoseOfAFile) {
  EXPECT_THAT(Checkpoint::Open({.path = kDemo, .ema = true}),
              StatusIs(kInvalid, AllOf(HasSubstr("is a folder"), HasSubstr("--ema"))));
  EXPECT_THAT(Checkpoint::Open({.path = WriteWhole(), .ema = true}),
              StatusIs(kInvalid, HasSubstr("no EMA weights")));
  const std::string unet = WriteFileOf("unet.safetensors", {{"unet", "unet."}});
  EXPECT_THAT(Checkpoint::Open({.path = kDemo, .components = {{"unet", unet}}, .ema = true}),
              StatusIs(kInvalid, AllOf(StartsWith("--unet: "), HasSubstr("no EMA weights"))));
}

}  // namespace
}  // namespace latentd::weights
