// Components that run op by op on the reference backend, or not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "core/base/errors/error_details.h"
#include "core/image/decode.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/support/inputs.h"
#include "tests/support/status_matchers.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

std::unique_ptr<Engine> Loaded(const pipeline::ComponentModes& modes) {
  Config config = SmallConfig();
  config.components = modes;
  auto engine = Engine::Create(config, SystemClock());
  EXPECT_OK(engine);
  EXPECT_OK((*engine)->Load());
  return *std::move(engine);
}

// The backend of each component's graphs.
std::map<std::string, std::string> BackendsOf(Engine& engine) {
  std::map<std::string, std::string> backends;
  const auto graphs = engine.graphs().List({.all = true});
  EXPECT_OK(graphs);
  for (const GraphEntry& graph : *graphs) {
    for (const KeyField& field : graph.key) {
      if (field.name == "backend") backends[graph.component] = field.value;
    }
  }
  return backends;
}

image::Image Drawn(Engine& engine) {
  const auto images = Only<Image>(RunOn(engine, SmallSpec()));
  EXPECT_EQ(images.size(), 1u);
  return *image::Decode(images.at(0).bytes);
}

TEST(ComponentModesTest, AReferenceComponentDrawsTheSamePicture) {
  const auto compiled = Loaded({});
  const auto engine = Loaded(
      {{"text_encoder", ComponentMode::kReference}, {"vae_decoder", ComponentMode::kReference}});
  EXPECT_EQ(engine->state(), State::kReady);
  EXPECT_THAT(BackendsOf(*engine),
              UnorderedElementsAre(Pair("text_encoder", "reference"), Pair("text_encoder_2", "cpu"),
                                   Pair("unet", "cpu"), Pair("vae_decoder", "reference"),
                                   Pair("vae_encoder", "cpu")));
  const image::Image expected = Drawn(*compiled), drawn = Drawn(*engine);
  ASSERT_EQ(drawn.rgb.size(), expected.rgb.size());
  int largest = 0;
  for (size_t i = 0; i < drawn.rgb.size(); ++i) {
    largest = std::max(largest, std::abs(int{drawn.rgb[i]} - int{expected.rgb[i]}));
  }
  EXPECT_LE(largest, 1);  // rounding
}

TEST(ComponentModesTest, WhatNeedsAComponentThatIsOffIsRefusedAndTheRestIsDrawn) {
  const auto engine = Loaded({{"vae_encoder", ComponentMode::kOff}});
  EXPECT_EQ(engine->state(), State::kReady);
  EXPECT_EQ(BackendsOf(*engine).count("vae_encoder"), 0u);
  EXPECT_EQ(CompilationsOf(*engine), 5);
  GenerateSpec spec = SmallSpec();
  spec.inputs = testing::ImageInput(Only<Image>(RunOn(*engine, spec)).at(0).bytes);
  EXPECT_THAT(SubmitTo(*engine, spec),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("vae_encoder")));
}

TEST(ComponentModesTest, TheRefinerAloneIsServed) {
  Config config = EnsembleConfig();
  config.components = {{"unet_base", ComponentMode::kOff}};
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(config, SystemClock()));
  ASSERT_OK(engine->Load());
  EXPECT_EQ(engine->state(), State::kReady) << engine->status().reason;
  EXPECT_FALSE(engine->capabilities().can_refine);
  ASSERT_THAT(engine->capabilities().models, SizeIs(1));
  EXPECT_EQ(engine->capabilities().models[0].component, "refiner");
  EXPECT_THAT(engine->status().reason, HasSubstr("unet_base is off"));
  GenerateSpec spec = SmallSpec(4);
  EXPECT_THAT(SubmitTo(*engine, spec),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unet_base")));
  GenerateSpec encoded = spec;
  encoded.picture.output_embeds = pipeline::HostTensor::Type::kFloat32;
  encoded.output.format = image::Format::kEmbeds;
  EXPECT_THAT(SubmitTo(*engine, encoded),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("text encoders of the model base are not loaded")));
  encoded.picture.model = "refiner";
  EXPECT_THAT(Only<Image>(RunOn(*engine, encoded)), SizeIs(1));
  spec.picture.model = "refiner";
  spec.inputs = testing::ImageInput(Only<Image>(RunOn(*Loaded({}), SmallSpec())).at(0).bytes);
  EXPECT_THAT(Only<Image>(RunOn(*engine, spec)), SizeIs(1));
}

TEST(ComponentModesTest, AServerThatCouldDrawNothingDoesNotStart) {
  Config config = SmallConfig();
  config.components = {{"unet_base", ComponentMode::kOff}};
  const auto engine = Engine::Create(config, SystemClock());
  const absl::Status status = engine.ok() ? (*engine)->Load() : engine.status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unet_base")));
}

}  // namespace
}  // namespace latentd::engine
