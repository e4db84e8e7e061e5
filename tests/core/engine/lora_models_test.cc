// Models that differ in LoRAs alone: nothing more is compiled, and what no LoRA changes is held
// once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/engine/demo_engine.h"
#include "tests/support/source_directory.h"

namespace latentd::engine {
namespace {

using pipeline::LoraFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const std::string kDemo = ::latentd::testing::SourcePath("deploy/demo-model/base");

std::string LoraPath(const std::string& name) {
  return ::latentd::testing::SourcePath("tests/golden/loras/" + name + ".safetensors");
}

class LoraModelsTest : public ::testing::Test {
 protected:
  static Config With(const std::vector<std::vector<LoraFile>>& models) {
    Config config = SmallConfig();
    for (const std::vector<LoraFile>& loras : models) {
      config.models.push_back({.name = "m" + std::to_string(config.models.size()),
                               .checkpoint = kDemo,
                               .parts = {.loras = loras}});
    }
    return config;
  }

  static std::unique_ptr<LocalEngine> Load(const Config& config) {
    auto engine =
        std::make_unique<LocalEngine>(config, *backends::cpu::CpuBackend::Create(), SystemClock());
    EXPECT_OK(engine->Load());
    engine->FinishPreparing();
    return engine;
  }

  static std::string Draw(Engine& engine, const std::string& model) {
    GenerateSpec spec = SmallSpec();
    spec.picture.model = model;
    const std::vector<Image> images = Only<Image>(RunOn(engine, std::move(spec)));
    EXPECT_THAT(images, SizeIs(1));
    return images.empty() ? "" : images.front().bytes;
  }
};

TEST_F(LoraModelsTest, CompileNothingAndDrawAnotherPicture) {
  const auto alone = Load(SmallConfig());
  const auto both = Load(With({{{LoraPath("kohya"), 0.8, 0.8}}}));
  EXPECT_EQ(CompilationsOf(*both), CompilationsOf(*alone));
  const std::string base = Draw(*alone, "");
  EXPECT_EQ(Draw(*both, "base"), base);
  EXPECT_NE(Draw(*both, "m0"), base);
  EXPECT_EQ(CompilationsOf(*both), CompilationsOf(*alone));
}

TEST_F(LoraModelsTest, HoldWhatNoLoraChangesOnce) {
  const int64_t alone = Load(SmallConfig())->memory().weight_bytes,
                same = Load(With({{}}))->memory().weight_bytes,
                lora = Load(With({{{LoraPath("dora"), 1, 1}}}))->memory().weight_bytes;
  EXPECT_EQ(same, alone);
  EXPECT_GT(lora, alone);
  EXPECT_LT(lora, alone + alone / 4);  // changes some linears
}

// The UNet is most of the model, so that half as much again does not hold another.
TEST_F(LoraModelsTest, NeedNoMemoryForWhatTheyLeave) {
  const int64_t alone = Load(SmallConfig())->memory().weight_bytes;
  const auto error = [&](double weight) {
    Config config = With({{{LoraPath("kohya"), weight, weight}}});
    config.memory_bytes = alone + alone / 2;
    LocalEngine engine(config, *backends::cpu::CpuBackend::Create(), SystemClock());
    return std::string(engine.Load().message());
  };
  EXPECT_THAT(error(1), HasSubstr("the weights need"));
  EXPECT_THAT(error(0), Not(HasSubstr("the weights need")));
}

TEST_F(LoraModelsTest, AreTheSameWeightsWhateverTheirOrder) {
  const LoraFile a = {LoraPath("kohya"), 0.8, 0.5}, b = {LoraPath("diffusers"), -0.5, 1};
  const auto engine = Load(With({{a, b}, {b, a}, {a}}));
  const std::string both = Draw(*engine, "m0");
  EXPECT_EQ(Draw(*engine, "m1"), both);
  EXPECT_NE(Draw(*engine, "m2"), both);
  EXPECT_EQ(engine->memory().weight_bytes, Load(With({{a, b}, {a}}))->memory().weight_bytes);
}

TEST_F(LoraModelsTest, HaveAWeightForTheTextEncoders) {
  const std::string path = LoraPath("kohya");
  const auto engine = Load(With({{{path, 0, 0}}, {{path, 0, 1}}, {{path, 1, 0}}, {{path, 1, 1}}}));
  EXPECT_EQ(Draw(*engine, "m0"), Draw(*engine, "base"));
  std::set<std::string> pictures;
  for (const char* model : {"m0", "m1", "m2", "m3"}) pictures.insert(Draw(*engine, model));
  EXPECT_THAT(pictures, SizeIs(4));
}

TEST_F(LoraModelsTest, SayWhatTheyHave) {
  Config config = With({{{LoraPath("kohya"), 0.8, 0.5}, {LoraPath("dora"), 1, 1}}});
  std::vector<std::string> notes;
  config.note = [&](absl::string_view text) { notes.emplace_back(text); };
  const auto engine = Load(config);
  const std::vector<ModelInfo> models = engine->capabilities().models;
  ASSERT_THAT(models, SizeIs(2));
  EXPECT_THAT(models[0].loras, IsEmpty());
  ASSERT_THAT(models[1].loras, SizeIs(2));
  EXPECT_EQ(models[1].loras[0].name, "kohya");
  EXPECT_EQ(models[1].loras[0].file.text_encoder_weight, 0.5);
  EXPECT_EQ(models[1].loras[0].trigger_phrase, "film style");
  EXPECT_EQ(models[1].loras[0].base_model, "sdxl_base_v1-0");
  EXPECT_EQ(models[1].loras[0].changes, 80);  // a third of its file's tensors
  EXPECT_EQ(models[1].loras[1].changes, 22);
  EXPECT_THAT(
      notes, ::testing::Contains(AllOf(HasSubstr("m0 has the LoRA"), HasSubstr("0.8"),
                                       HasSubstr("(text encoders 0.5)"), HasSubstr("film style"))));
}

TEST_F(LoraModelsTest, RefuseAFileThatIsNone) {
  Config config = With({{{LoraPath("nothing"), 1, 1}}});
  LocalEngine engine(config, *backends::cpu::CpuBackend::Create(), SystemClock());
  EXPECT_THAT(std::string(engine.Load().message()),
              AllOf(HasSubstr("--model=m0,lora"), HasSubstr(LoraPath("nothing"))));
  config = With({});
  config.base_parts.loras = {{kDemo + "/vae/diffusion_pytorch_model.safetensors"}};
  LocalEngine of_base(config, *backends::cpu::CpuBackend::Create(), SystemClock());
  EXPECT_THAT(std::string(of_base.Load().message()),
              AllOf(HasSubstr("--lora"), HasSubstr("diffusion_pytorch_model.safetensors")));
}

}  // namespace
}  // namespace latentd::engine
