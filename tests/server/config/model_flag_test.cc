#include "server/config/model_flag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace latentd::server::config {
namespace {

using pipeline::LoraFile;
using pipeline::ModelSource;
using pipeline::Residency;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

ModelSource Only(const std::string& text) {
  const auto models = ToModels({text});
  EXPECT_OK(models);
  return models.ok() ? models->at(0) : ModelSource();
}

std::string ErrorOf(const std::vector<std::string>& texts) {
  const auto models = ToModels(texts);
  EXPECT_FALSE(models.ok());
  return std::string(models.status().message());
}

TEST(ModelFlagTest, ANameAndAPathAreEnough) {
  const ModelSource model = Only("anime=/models/a.safetensors");
  EXPECT_EQ(model.name, "anime");
  EXPECT_EQ(model.checkpoint, "/models/a.safetensors");
  EXPECT_EQ(model.residency, Residency::kOnDemand);
  EXPECT_THAT(model.parts.components, IsEmpty());
  EXPECT_THAT(ToModels({}).value(), IsEmpty());
}

TEST(ModelFlagTest, TakesPartsAndSettings) {
  const ModelSource model = Only(
      "x_1=/m,vae=/v,unet=/u,vae-tiny=/t,text-encoder=/e,text-encoder-2=/e2,components-from=/c,"
      "preset=turbo,scheduler=heun,buckets=512x512+64x72,residency=pinned");
  EXPECT_EQ(model.name, "x_1");
  EXPECT_THAT(model.parts.components,
              ElementsAre(Pair("text_encoder", "/e"), Pair("text_encoder_2", "/e2"),
                          Pair("unet", "/u"), Pair("vae", "/v"), Pair("vae_tiny", "/t")));
  EXPECT_EQ(model.parts.components_from, "/c");
  EXPECT_EQ(model.preset, "turbo");
  EXPECT_EQ(model.scheduler, "heun");
  EXPECT_THAT(model.buckets, ElementsAre(pipeline::Size{512, 512}, pipeline::Size{64, 72}));
  EXPECT_EQ(model.residency, Residency::kPinned);
  EXPECT_EQ(Only("a=/m,residency=ready").residency, Residency::kReady);
}

TEST(ModelFlagTest, TakesLorasWithTheirWeights) {
  const ModelSource model =
      Only("film=/m,lora=/l/film.safetensors:0.8,lora=/l/a+b.safetensors:-0.5:1.5,lora=/l/folder");
  EXPECT_THAT(model.parts.loras,
              ElementsAre(LoraFile{"/l/film.safetensors", 0.8, 0.8},
                          LoraFile{"/l/a+b.safetensors", -0.5, 1.5}, LoraFile{"/l/folder", 1, 1}));
  EXPECT_THAT(Only("a=/m,lora=/x,1:2,3").parts.loras, ElementsAre(LoraFile{"/x,1:2,3"}));
  EXPECT_THAT(Only("a=/m,lora=/1:2:3:4").parts.loras, ElementsAre(LoraFile{"/1:2", 3, 4}));
}

TEST(ModelFlagTest, AnEqualsSignOrACommaMayBeInAPath) {
  EXPECT_EQ(Only("a=/m/x=1,2/b").checkpoint, "/m/x=1,2/b");
  EXPECT_EQ(Only("a=/m/x,vae=/v,1=2").parts.components.at("vae"), "/v,1=2");
}

TEST(ModelFlagTest, SaysWhatIsWrong) {
  for (const char* text : {"", "anime", "anime=", "=/m", "Anime=/m", "a b=/m"}) {
    EXPECT_THAT(ErrorOf({text}), HasSubstr("NAME=PATH")) << text;
  }
  EXPECT_THAT(ErrorOf({std::string(33, 'a') + "=/m"}), HasSubstr("32"));
  EXPECT_THAT(ErrorOf({"base=/m"}), HasSubstr("--base"));
  EXPECT_THAT(ErrorOf({"a=/m", "a=/n"}), HasSubstr("another name"));
  EXPECT_THAT(ErrorOf({"a=/m,residency=hot"}), HasSubstr("on_demand"));
  EXPECT_THAT(ErrorOf({"a=/m,buckets=big"}), HasSubstr("--model"));
  EXPECT_THAT(ErrorOf({"a=/m,vae="}), HasSubstr("vae"));
  EXPECT_THAT(ErrorOf({"a=/m,vae=/v,vae=/w"}), HasSubstr("one vae"));
  EXPECT_THAT(ErrorOf({"a=/m,lora="}), HasSubstr("a value for lora"));
  for (const char* lora : {":0.8", "f.safetensors:much", "f.safetensors:0.8:", "f.safetensors:nan",
                           "f.safetensors:1:inf", "f.safetensors:1e39", "f.safetensors:1:-2e6",
                           "f.safetensors:1:2:3"}) {
    EXPECT_THAT(ErrorOf({std::string("a=/m,lora=") + lora}), HasSubstr("FILE[:WEIGHT")) << lora;
  }
}

TEST(ModelFlagTest, ThereAreNotTooMany) {
  std::vector<std::string> texts;
  for (int i = 0; i < 30; ++i) texts.push_back("m" + std::to_string(i) + "=/m");
  EXPECT_THAT(ToModels(texts).value(), SizeIs(30));
  texts.emplace_back("more=/m");
  EXPECT_THAT(ErrorOf(texts), HasSubstr("30 times"));
}

}  // namespace
}  // namespace latentd::server::config
