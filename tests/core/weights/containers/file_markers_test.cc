// The way in which a single file predicts noise, and what its metadata say of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "core/weights/containers/single_file.h"
#include "tests/core/weights/containers/published_file.h"
#include "tests/support/status_matchers.h"

namespace latentd::weights {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::PublishedFile;
using testing::StatusIs;

// UNets alone: what they lack decides nothing here.
class FileMarkersTest : public ::testing::Test {
 protected:
  explicit FileMarkersTest(const std::string& unet = "unet_sdxl")
      : file_({{unet, "model.diffusion_model.", "unet"}, {"vae", "first_stage_model.", "vae"}}) {}

  absl::StatusOr<SingleFile> Recognize() const {
    return RecognizeSingleFile("model.safetensors", file_.tensors, metadata_, said_);
  }
  json Scheduler() const {
    const absl::StatusOr<SingleFile> file = Recognize();
    EXPECT_OK(file);
    return file.ok() ? json::parse(file->scheduler_config) : json::object();
  }
  json Config(const std::string& component) const {
    const absl::StatusOr<SingleFile> file = Recognize();
    EXPECT_OK(file);
    return file.ok() ? json::parse(*file->parts.at(component).config) : json::object();
  }
  std::vector<std::string> Notes() const {
    const absl::StatusOr<SingleFile> file = Recognize();
    EXPECT_OK(file);
    return file.ok() ? file->notes : std::vector<std::string>();
  }

  void SetFloats(const std::string& name, const std::vector<float>& values, device::Shape shape) {
    const device::Buffer buffer = device::Buffer::Allocate(device::DType::kF32, std::move(shape));
    std::memcpy(buffer.data(), values.data(), buffer.bytes());
    file_.tensors[name] = {.data = buffer, .file = name};
  }

  PublishedFile file_;
  Metadata metadata_;
  SaidOfFile said_;
};

class Sd15MarkersTest : public FileMarkersTest {
 protected:
  Sd15MarkersTest() : FileMarkersTest("unet_sd15") {}
};

TEST_F(FileMarkersTest, TakeTheNoiseAsPredictedByDefault) {
  const json scheduler = Scheduler();
  EXPECT_EQ(scheduler["prediction_type"], "epsilon");
  EXPECT_FALSE(scheduler.contains("rescale_betas_zero_snr"));
}

// InvokeAI#7495, AUTOMATIC1111#16721: the tensors were passed over.
TEST_F(FileMarkersTest, ReadEmptyTensorsThatSayVelocityAndZeroSignal) {
  file_.AddTensor("v_pred", {0});
  EXPECT_EQ(Scheduler()["prediction_type"], "v_prediction");
  EXPECT_EQ(Scheduler()["timestep_spacing"], "leading");
  EXPECT_FALSE(Scheduler().contains("rescale_betas_zero_snr"));
  file_.AddTensor("ztsnr", {0});
  const json scheduler = Scheduler();
  EXPECT_EQ(scheduler["_class_name"], "EulerDiscreteScheduler");
  EXPECT_EQ(scheduler["prediction_type"], "v_prediction");
  EXPECT_EQ(scheduler["rescale_betas_zero_snr"], true);
  EXPECT_EQ(scheduler["timestep_spacing"], "trailing");
  EXPECT_THAT(Notes(), Contains(HasSubstr("by the tensors v_pred and ztsnr")));
}

// diffusers#3851, #5103: zero signal and the noise as what is predicted divide by zero.
TEST_F(FileMarkersTest, DoNotReadZeroSignalWithoutVelocity) {
  file_.AddTensor("ztsnr", {0});
  EXPECT_EQ(Scheduler()["prediction_type"], "epsilon");
  EXPECT_FALSE(Scheduler().contains("rescale_betas_zero_snr"));
}

// diffusers#9171: Stable Diffusion 1.5 with v_pred.
TEST_F(Sd15MarkersTest, GiveVelocityASchedulerThatHasZeroSignal) {
  file_.AddTensor("v_pred", {1});
  file_.AddTensor("ztsnr", {1});
  const json scheduler = Scheduler();
  EXPECT_EQ(scheduler["_class_name"], "DDIMScheduler");
  EXPECT_EQ(scheduler["prediction_type"], "v_prediction");
  EXPECT_EQ(scheduler["rescale_betas_zero_snr"], true);
}

// InvokeAI#7495 and others: what the operator says counts over what the file says.
TEST_F(FileMarkersTest, CountLessThanWhatTheOperatorSays) {
  file_.AddTensor("v_pred", {0});
  file_.AddTensor("ztsnr", {0});
  said_.prediction_type = "epsilon";
  EXPECT_EQ(Scheduler()["prediction_type"], "epsilon");
  EXPECT_FALSE(Scheduler().contains("rescale_betas_zero_snr"));
  EXPECT_EQ(Recognize()->prediction_decided_by, "--prediction-type");
  EXPECT_THAT(Notes(), Not(Contains(HasSubstr("v_pred"))));
  said_.prediction_type = "sample";
  EXPECT_EQ(Scheduler()["prediction_type"], "sample");
  said_.prediction_type = "v_prediction";
  EXPECT_EQ(Scheduler()["rescale_betas_zero_snr"], true);
  said_.prediction_type.clear();
  EXPECT_EQ(Recognize()->prediction_decided_by, "the tensors v_pred and ztsnr");
}

TEST_F(Sd15MarkersTest, GiveWhatTheOperatorSaysASchedulerThatHasIt) {
  for (const char* said : {"v_prediction", "sample"}) {
    said_.prediction_type = said;
    EXPECT_EQ(Scheduler()["_class_name"], "DDIMScheduler");
    EXPECT_EQ(Scheduler()["prediction_type"], said);
  }
  EXPECT_FALSE(Scheduler().contains("rescale_betas_zero_snr"));
}

// The average of model.diffusion_model.a.b is model_ema.diffusion_modelab.
TEST_F(FileMarkersTest, TakeTheAveragedWeightsWhereTheOperatorSaysSo) {
  said_.ema = true;
  EXPECT_THAT(Recognize(), StatusIs(absl::StatusCode::kInvalidArgument,
                                    AllOf(HasSubstr("no EMA weights"), HasSubstr("--ema"))));
  constexpr absl::string_view kModel = "model.";
  const TensorMap plain = file_.tensors;
  for (const auto& [name, tensor] : plain) {
    if (!absl::StartsWith(name, "model.diffusion_model.")) continue;
    StoredTensor average = tensor;
    average.file = "average of " + name;
    const std::string flat = absl::StrReplaceAll(name.substr(kModel.size()), {{".", ""}});
    file_.tensors["model_ema." + flat] = average;
  }
  const auto file = Recognize();
  ASSERT_OK(file);
  for (const auto& [name, source] : file->parts.at("unet").sources) {
    EXPECT_TRUE(absl::StartsWith(source.from[0].file, "average of model.")) << name;
  }
  EXPECT_THAT(file->notes, Contains(HasSubstr("has the EMA weights")));
  said_.ema = false;
  EXPECT_FALSE(absl::StartsWith(
      Recognize()->parts.at("unet").sources.at("conv_in.weight").from[0].file, "average"));
  EXPECT_THAT(Notes(), Contains(HasSubstr("--ema takes them")));
  said_.ema = true;
  file_.tensors.erase("model_ema.diffusion_modelout2weight");
  EXPECT_THAT(Recognize(), StatusIs(absl::StatusCode::kInvalidArgument,
                                    HasSubstr("but none of model.diffusion_model.out.2.weight")));
}

TEST_F(FileMarkersTest, TakeThePredictionOfTheMetadataWhereNoTensorTells) {
  metadata_["modelspec.prediction_type"] = "v";
  EXPECT_EQ(Scheduler()["prediction_type"], "v_prediction");
  EXPECT_THAT(Notes(), Contains(HasSubstr("modelspec.prediction_type")));
  metadata_["modelspec.prediction_type"] = "epsilon";
  EXPECT_EQ(Scheduler()["prediction_type"], "epsilon");
  file_.AddTensor("v_pred", {0});
  EXPECT_EQ(Scheduler()["prediction_type"], "v_prediction");
}

TEST_F(FileMarkersTest, TakeTheSizeOfTheMetadata) {
  metadata_["modelspec.resolution"] = "768x1152";
  EXPECT_EQ(Config("unet")["sample_size"], json({144, 96}));
  for (const char* odd : {"", "x", "1024", "axb", "8x8", "1024x1024x1", "999999x8", "-64x64"}) {
    metadata_["modelspec.resolution"] = odd;
    EXPECT_EQ(Config("unet")["sample_size"], json({128, 128})) << odd;
  }
}

TEST_F(FileMarkersTest, LetShapesWinOverTheMetadata) {
  metadata_["modelspec.architecture"] = "stable-diffusion-v1";
  EXPECT_THAT(Notes(), Contains(AllOf(HasSubstr("stable-diffusion-v1"),
                                      HasSubstr("tensors are Stable Diffusion XL (base)"))));
  metadata_["modelspec.architecture"] = "stable-diffusion-xl-v1-base";
  EXPECT_THAT(Notes(), Not(Contains(HasSubstr("modelspec.architecture"))));
}

TEST_F(FileMarkersTest, ConfigurePlaygroundByItsStatistics) {
  SetFloats("edm_mean", {-1.5F, 2, -1.25F, 2.5F}, {1, 4, 1, 1});
  SetFloats("edm_std", {8.5F, 6, 6.5F, 5.25F}, {4});
  const json scheduler = Scheduler();
  EXPECT_EQ(scheduler["_class_name"], "EDMDPMSolverMultistepScheduler");
  EXPECT_EQ(scheduler["sigma_data"], 0.5);
  EXPECT_EQ(scheduler["sigma_max"], 80.0);
  const json vae = Config("vae");
  EXPECT_EQ(vae["scaling_factor"], 0.5);
  EXPECT_EQ(vae["latents_mean"], json({-1.5, 2.0, -1.25, 2.5}));
  EXPECT_EQ(vae["latents_std"], json({8.5, 6.0, 6.5, 5.25}));
  // For a VAE that is given in the place of this one.
  const json settings = json::parse(Recognize()->vae_settings);
  EXPECT_EQ(settings["scaling_factor"], 0.5);
  EXPECT_EQ(settings["latents_std"], vae["latents_std"]);
}

TEST_F(FileMarkersTest, RefuseStatisticsThatAreNoFourNumbers) {
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("edm_mean"));
  SetFloats("edm_std", {1, 1, 1, 1}, {4});
  SetFloats("edm_mean", {1, 2, 3}, {3});
  EXPECT_THAT(Recognize(), refused);
  SetFloats("edm_mean", {1, 2, 3, NAN}, {4});
  EXPECT_THAT(Recognize(), refused);
  file_.AddTensor("edm_mean", {4});  // without memory
  EXPECT_THAT(Recognize(), refused);
}

TEST_F(FileMarkersTest, RefuseCosXlByItsName) {
  file_.AddTensor("edm_vpred.sigma_max", {});
  EXPECT_THAT(Recognize(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("CosXL")));
}

// Stable Diffusion 2 is told by how far apart 320 biases are.
class Sd2MarkersTest : public FileMarkersTest {
 protected:
  Sd2MarkersTest() : FileMarkersTest("unet_sd21") {}

  // Biases of which half are `bits` and half are that with the sign of the dtype's last bit.
  void SetHalves(device::DType dtype, uint16_t bits) {
    const device::Buffer values = device::Buffer::Allocate(dtype, {320});
    for (int i = 0; i < 320; ++i) {
      values.as<uint16_t>()[i] = static_cast<uint16_t>(i % 2 == 0 ? bits : bits | 0x8000);
    }
    file_.tensors[kName] = {.data = values, .file = kName};
  }

  static constexpr char kName[] =
      "model.diffusion_model.output_blocks.11.1.transformer_blocks.0.norm1.bias";
};

TEST_F(Sd2MarkersTest, TellVelocityByTheSpreadOfABias) {
  constexpr uint16_t kF16Tenth = 0x2e66, kF16TwentiethPart = 0x2a66;
  SetHalves(device::DType::kF16, kF16Tenth);
  EXPECT_EQ(Scheduler()["prediction_type"], "v_prediction");
  EXPECT_EQ(Scheduler()["_class_name"], "DDIMScheduler");
  EXPECT_EQ(Config("unet")["sample_size"], json({96, 96}));
  EXPECT_THAT(Notes(), Contains(AllOf(HasSubstr("standard deviation"), HasSubstr("> 0.09"))));
  SetHalves(device::DType::kF16, kF16TwentiethPart);
  EXPECT_EQ(Scheduler()["prediction_type"], "epsilon");
  EXPECT_EQ(Scheduler()["_class_name"], "PNDMScheduler");
  EXPECT_EQ(Config("unet")["sample_size"], json({64, 64}));
}

TEST_F(Sd2MarkersTest, ReadTheBiasInAnyFloatingDType) {
  constexpr uint16_t kBF16Tenth = 0x3dcd, kBF16TwentiethPart = 0x3d4d;
  SetHalves(device::DType::kBF16, kBF16Tenth);
  EXPECT_EQ(Scheduler()["prediction_type"], "v_prediction");
  SetHalves(device::DType::kBF16, kBF16TwentiethPart);
  EXPECT_EQ(Scheduler()["prediction_type"], "epsilon");
  std::vector<float> floats(320, 0.1F);
  for (size_t i = 0; i < floats.size(); i += 2) floats[i] = -0.1F;
  SetFloats(kName, floats, {320});
  EXPECT_EQ(Scheduler()["prediction_type"], "v_prediction");
  // A mean that is far from 0 is no spread.
  SetFloats(kName, std::vector<float>(320, 3), {320});
  EXPECT_EQ(Scheduler()["prediction_type"], "epsilon");
}

TEST_F(Sd2MarkersTest, AskTheMetadataFirst) {
  SetFloats(kName, std::vector<float>(320, 0), {320});
  metadata_["modelspec.prediction_type"] = "v";
  EXPECT_EQ(Scheduler()["prediction_type"], "v_prediction");
}

// Files of 8-bit floats alone, biases among them: plus and minus a tenth, and the twentieth part.
TEST_F(Sd2MarkersTest, ReadTheBiasInEightBits) {
  struct Case {
    device::DType dtype;
    uint8_t tenth, twentieth_part;
  };
  for (const auto& [dtype, tenth, twentieth_part] :
       {Case{device::DType::kF8E4M3, 0x1d, 0x15}, Case{device::DType::kF8E5M2, 0x2e, 0x2a}}) {
    for (const uint8_t bits : {tenth, twentieth_part}) {
      const device::Buffer values = device::Buffer::Allocate(dtype, {320});
      auto* bytes = static_cast<uint8_t*>(values.data());
      for (int i = 0; i < 320; ++i) {
        bytes[i] = static_cast<uint8_t>(i % 2 == 0 ? bits : bits | 0x80);
      }
      file_.tensors[kName] = {.data = values, .file = kName};
      EXPECT_EQ(Scheduler()["prediction_type"], bits == tenth ? "v_prediction" : "epsilon");
    }
  }
}

TEST_F(Sd2MarkersTest, RefuseABiasThatCannotBeRead) {
  EXPECT_THAT(Recognize(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("norm1.bias")));
}

}  // namespace
}  // namespace latentd::weights
