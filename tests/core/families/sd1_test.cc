// Stable Diffusion 1: what it reads of a request and what it does not, beside whole images against
// diffusers (tests/golden).
#include "core/families/sd1/sd1.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/families/families.h"
#include "core/image/encode.h"
#include "core/pipeline/units/units.h"
#include "tests/core/families/sd1_checkpoint.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/temporary_directory.h"

namespace latentd::families {
namespace {

using device::Buffer;
using device::DType;
using ::latentd::testing::IsOk;
using ::latentd::testing::kDemoRefiner;
using ::latentd::testing::MakeEditedCheckpoint;
using ::latentd::testing::StatusIs;
using pipeline::Asked;
using pipeline::LoadOptions;
using pipeline::LoadPipeline;
using pipeline::PictureSpec;
using pipeline::Rig;
using pipeline::Size;
using pipeline::SmallSpec;
using pipeline::UnitKind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;
using ::testing::UnorderedElementsAre;

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

class Sd1Test : public ::testing::Test {
 protected:
  Sd1Test() { testing::MakeSd1Checkpoint(Path()); }

  std::string Path(const std::string& name = "sd1") const { return directory_.File(name); }
  Rig Load() const { return Rig(LoadOptions{.base = Path()}); }
  absl::Status LoadEdited(const std::string& file, const std::string& field,
                          const std::string& value) const {
    MakeEditedCheckpoint(Path("edited"), Path(), file, field, value);
    Rig rig;
    return LoadPipeline({.base = Path("edited")}, rig.weights, rig.graphs).status();
  }

  const testing::TemporaryDirectory directory_;
};

int64_t LayerOf(const RowInputs& row) {
  const TextRun& inputs = row.text.at(0).chunks.at(0).run;
  const auto layer = std::find_if(inputs.begin(), inputs.end(),
                                  [](const HostInput& input) { return input.name == "layer"; });
  return std::get<std::vector<int64_t>>(layer->values).at(0);
}

TEST_F(Sd1Test, HasItsOwnDefaults) {
  const Rig rig = Load();
  ASSERT_OK_AND_ASSIGN(const auto plan, rig.Resolve(PictureSpec()));
  EXPECT_EQ(plan->spec.num_inference_steps, 50);
  EXPECT_EQ(plan->spec.guidance_scale, 7.5);
  EXPECT_EQ(rig.pipeline->table().rows().front().family, "sd1");
  EXPECT_EQ(rig.pipeline->table().rows().front().defaults.strength, 0.8);
  EXPECT_EQ(rig.pipeline->first().default_size(), (Size{256, 256}));
  Asked on_image;
  on_image.inputs.image = image::Encode(rig.Finish(SmallSpec())->pixels, {}).value();
  ASSERT_OK_AND_ASSIGN(const auto redrawn, rig.Resolve(on_image));
  EXPECT_EQ(redrawn->spec.strength, 0.8);
}

TEST_F(Sd1Test, WasTrainedAt512WhereItsConfigDoesNotSay) {
  MakeEditedCheckpoint(Path("edited"), Path(), "unet/config.json", "sample_size", "");
  const Rig rig({.base = Path("edited")});
  EXPECT_EQ(rig.pipeline->first().default_size(), (Size{512, 512}));
  EXPECT_THAT(
      rig.pipeline->BucketsOf({}),
      ElementsAre(Size{512, 512}, Size{576, 448}, Size{448, 576}, Size{640, 384}, Size{384, 640}));
}

// Runs the first text graph on 77 ids of 0: returns its state of that layer.
std::vector<float> State(const Rig& rig, int64_t layer) {
  pipeline::ModelGraphs& graphs = rig.pipeline->first().graphs();
  const auto text = graphs.Get(graphs.Find({.kind = pipeline::GraphKind::kText}).value()).value();
  const auto outputs =
      testing::RunNamed(text,
                        {{"input_ids", Buffer::Allocate(DType::kI64, {1, 77})},
                         {"pooled_position", Buffer::Allocate(DType::kI64, {1})},
                         {"layer", Buffer::Wrap(&layer, DType::kI64, {1}, nullptr)}},
                        {"encoder_hidden_states.text_encoder"});
  EXPECT_OK(outputs);
  return pipeline::ValuesOf(outputs->at("encoder_hidden_states.text_encoder"));
}

// Rows of so many features, each with a mean of 1 and a deviation of 1.
std::vector<float> Normed(std::vector<float> rows, size_t features) {
  for (auto row = rows.begin(); row != rows.end(); row += features) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < features; ++i) mean += row[i] / features;
    for (size_t i = 0; i < features; ++i) square += (row[i] - mean) * (row[i] - mean) / features;
    for (size_t i = 0; i < features; ++i) row[i] = (row[i] - mean) / std::sqrt(square + 1e-5) + 1;
  }
  return rows;
}

TEST_F(Sd1Test, ReadsTheNormedStateOfEachLayer) {
  testing::MakeFilledCheckpoint(
      Path("filled"), "text_encoder",
      {"text_model.final_layer_norm.weight", "text_model.final_layer_norm.bias"}, 1);
  testing::MakeSd1Checkpoint(Path("sd1 filled"), Path("filled"));
  const Rig sdxl({.base = Path("filled")}), sd1({.base = Path("sd1 filled")});
  const networks::ClipTextConfig& config = sd1.pipeline->first().text_encoders().front().config;
  for (int64_t layer = 0; layer <= config.num_hidden_layers; ++layer) {
    EXPECT_THAT(State(sd1, layer),
                Pointwise(FloatNear(1e-4f), Normed(State(sdxl, layer), config.hidden_size)))
        << layer;
  }
}

TEST_F(Sd1Test, SkipsLayersForThePromptAlone) {
  const Rig rig = Load();
  const ModelConfigs& configs = rig.pipeline->first().configs();
  const int64_t layers = configs.text_encoders.front().config.num_hidden_layers;
  PictureSpec spec = SmallSpec();
  EXPECT_EQ(LayerOf(sd1::kFamily.row(configs, spec, /*negative=*/false).value()), layers);
  spec.clip_skip = 2;
  EXPECT_EQ(LayerOf(sd1::kFamily.row(configs, spec, /*negative=*/false).value()), layers - 2);
  EXPECT_EQ(LayerOf(sd1::kFamily.row(configs, spec, /*negative=*/true).value()), layers);
  spec.clip_skip = static_cast<int>(layers);
  EXPECT_THAT(rig.Resolve(spec), IsOk());
  spec.clip_skip = static_cast<int>(layers) + 1;
  EXPECT_THAT(rig.Resolve(spec), StatusIs(kInvalidArgument, HasSubstr("clip_skip")));
}

TEST_F(Sd1Test, SkipsLayersAsA1111Counts) {
  const Rig rig = Load();
  const ModelConfigs& configs = rig.pipeline->first().configs();
  const int64_t layers = configs.text_encoders.front().config.num_hidden_layers;
  PictureSpec spec = SmallSpec();
  spec.clip_skip_a1111 = 1;
  EXPECT_EQ(LayerOf(sd1::kFamily.row(configs, spec, /*negative=*/false).value()), layers);
  spec.clip_skip_a1111 = 2;
  EXPECT_EQ(LayerOf(sd1::kFamily.row(configs, spec, /*negative=*/false).value()), layers - 1);
  EXPECT_EQ(LayerOf(sd1::kFamily.row(configs, spec, /*negative=*/true).value()), layers - 1);
  spec.clip_skip_a1111 = static_cast<int>(layers) + 1;
  EXPECT_THAT(rig.Resolve(spec), IsOk());
  spec.clip_skip_a1111 = static_cast<int>(layers) + 2;
  EXPECT_THAT(rig.Resolve(spec), StatusIs(kInvalidArgument, HasSubstr("clip_skip_a1111")));
}

TEST_F(Sd1Test, CountsTheTokensThatDoNotFit) {
  const Rig rig = Load();
  const ModelConfigs& configs = rig.pipeline->first().configs();
  PictureSpec spec = SmallSpec();
  EXPECT_EQ(sd1::kFamily.row(configs, spec, /*negative=*/false)->dropped_tokens, 0);
  for (int i = 0; i < 100; ++i) spec.prompt += " star";
  EXPECT_GE(sd1::kFamily.row(configs, spec, /*negative=*/false)->dropped_tokens, 30);
}

TEST_F(Sd1Test, EncodesAnAbsentNegativePromptAsAnEmptyOne) {
  const Rig rig = Load();
  PictureSpec empty = SmallSpec();
  empty.negative_prompt = "";
  PictureSpec other = SmallSpec();
  other.negative_prompt = "a green square";
  const std::vector<float> absent = rig.Latents(SmallSpec());
  EXPECT_EQ(absent, rig.Latents(empty));
  EXPECT_NE(absent, rig.Latents(other));
}

TEST_F(Sd1Test, ReadsNothingOfAPromptButItsState) {
  const Rig rig = Load();
  pipeline::ModelGraphs& graphs = rig.pipeline->first().graphs();
  ASSERT_OK_AND_ASSIGN(const auto handle, graphs.Find({.kind = pipeline::GraphKind::kRequest}));
  ASSERT_OK_AND_ASSIGN(const auto request, graphs.Get(handle));
  std::vector<std::string> names;
  for (const backends::Port& port : request->inputs()) names.push_back(port.name);
  EXPECT_THAT(names, UnorderedElementsAre("encoder_hidden_states.text_encoder",
                                          "emphasis_origin.text_encoder", "emphasis.text_encoder",
                                          "restores_mean", "token_shares", "feature_shares"));
}

TEST_F(Sd1Test, SaysOfEachFieldOfSdxlThatItHasNoEffect) {
  const Rig rig = Load();
  PictureSpec spec = SmallSpec();
  spec.prompt_2 = "a star";
  spec.negative_prompt_2 = "a square";
  spec.original_size = spec.target_size = spec.negative_original_size = spec.negative_target_size =
      Size{32, 32};
  spec.crops_coords_top_left = spec.negative_crops_coords_top_left = pipeline::Offset{1, 2};
  spec.aesthetic_score = spec.negative_aesthetic_score = 1;
  ASSERT_OK_AND_ASSIGN(const auto plan, rig.Resolve(spec));
  const auto says = [](const char* field, const char* why) {
    return AllOf(::testing::StartsWith(absl::StrCat(field, " has no effect: ")), HasSubstr(why));
  };
  EXPECT_THAT(
      plan->warnings,
      ElementsAre(says("prompt_2", "one text encoder"),
                  says("negative_prompt_2", "one text encoder"), says("original_size", "no sizes"),
                  says("target_size", "no sizes"), says("crops_coords_top_left", "no sizes"),
                  says("negative_original_size", "no sizes"),
                  says("negative_target_size", "no sizes"),
                  says("negative_crops_coords_top_left", "no sizes"),
                  says("aesthetic_score", "refiner"), says("negative_aesthetic_score", "refiner")));
  EXPECT_EQ(rig.Latents(spec), rig.Latents(SmallSpec()));
}

TEST_F(Sd1Test, TakesWhatAnswersSayWithoutAWord) {
  const Rig rig = Load();
  ASSERT_OK_AND_ASSIGN(const auto plan, rig.Resolve(SmallSpec()));
  ASSERT_OK_AND_ASSIGN(const auto again, rig.Resolve(plan->spec));
  EXPECT_THAT(again->warnings, IsEmpty());
}

TEST_F(Sd1Test, HasNoRefiner) {
  const Rig rig = Load();
  PictureSpec spec = SmallSpec();
  spec.refine = true;
  EXPECT_THAT(rig.Resolve(spec),
              StatusIs(kInvalidArgument,
                       AllOf(HasSubstr("refine"), HasSubstr("sd1"), Not(HasSubstr("--refiner")))));
  Rig other;
  EXPECT_THAT(
      LoadPipeline({.base = Path(), .refiner = kDemoRefiner}, other.weights, other.graphs),
      StatusIs(kInvalidArgument, AllOf(HasSubstr("--refiner=" + kDemoRefiner), HasSubstr(Path()),
                                       HasSubstr("has no such refiners"))));
  EXPECT_THAT(
      LoadPipeline({.base = Path(), .refiner = Path()}, other.weights, other.graphs),
      StatusIs(kInvalidArgument, HasSubstr("supported for a refiner: StableDiffusionXLImg2Img")));
}

TEST_F(Sd1Test, RefusesOtherComponents) {
  EXPECT_THAT(LoadEdited("model_index.json", "text_encoder",
                         R"(["transformers", "CLIPTextModelWithProjection"])"),
              StatusIs(kInvalidArgument, HasSubstr("text_encoder of the class CLIPTextModel")));
}

TEST_F(Sd1Test, RefusesTheAddedEmbeddingsOfSdxl) {
  constexpr char kFile[] = "unet/config.json";
  MakeEditedCheckpoint(Path("ids"), Path(), kFile, "addition_time_embed_dim", "8");
  MakeEditedCheckpoint(Path("sum"), Path("ids"), kFile, "projection_class_embeddings_input_dim",
                       "112");
  MakeEditedCheckpoint(Path("all"), Path("sum"), kFile, "addition_embed_type", R"("text_time")");
  Rig rig;
  EXPECT_THAT(LoadPipeline({.base = Path("all")}, rig.weights, rig.graphs),
              StatusIs(kInvalidArgument, HasSubstr("is of Stable Diffusion XL")));
}

// 9 are of inpainting, which these weights are not for.
TEST_F(Sd1Test, RefusesAUnetOfOtherChannels) {
  EXPECT_THAT(LoadEdited("unet/config.json", "in_channels", "8"),
              StatusIs(kInvalidArgument, HasSubstr("an inpainting UNet has in_channels 9")));
}

TEST_F(Sd1Test, RefusesAnInpaintingUnetWithoutItsChannels) {
  EXPECT_THAT(LoadEdited("unet/config.json", "in_channels", "9"),
              StatusIs(kInvalidArgument, HasSubstr("conv_in.weight")));
}

// Draws the images by themselves and in steps that they share, of 8 rows, and compares them.
void ExpectSameInSharedSteps(const std::string& path, const std::vector<Asked>& specs) {
  const Rig rig({.base = path, .row_counts = {1, 2, 8}}, "",
                backends::cpu::CpuBackend::Create().value());
  pipeline::ModelGraphs& graphs = rig.pipeline->first().graphs();
  for (int rows : {1, 2, 8}) {
    rig.kept.push_back(graphs.Find({.shape = {rows, 72 / 8, 64 / 8}}).value());
    ASSERT_OK(graphs.Get(rig.kept.back()));
  }
  std::vector<std::vector<float>> alone;
  std::vector<std::unique_ptr<pipeline::Picture>> pictures;
  for (const Asked& spec : specs) {
    alone.push_back(rig.Latents(spec));
    pictures.push_back(rig.Start(spec));
    while (pictures.back()->next != UnitKind::kStep) ASSERT_OK(testing::RunUnit(*pictures.back()));
  }
  pipeline::Lanes lanes;
  const auto stream = rig.backend->device().NewStream(SystemClock()).value();
  for (int step = 0; step < 4; ++step) {
    std::vector<pipeline::Picture*> stepping;
    for (const auto& picture : pictures) {
      if (picture->next == UnitKind::kStep) stepping.push_back(picture.get());
    }
    auto unit = pipeline::EnqueueUnit(stepping, lanes, *stream).value();
    EXPECT_EQ(unit.computed_rows, 8);
    for (size_t i = 0; i < stepping.size(); ++i) {
      ASSERT_OK(pipeline::CompleteUnit(unit, *stepping[i], unit.parts[i]));
    }
  }
  for (size_t i = 0; i < pictures.size(); ++i) {
    EXPECT_EQ(pipeline::ValuesOf(pictures[i]->latents), alone[i]) << i;
  }
}

TEST_F(Sd1Test, SharesStepsByteForByte) {
  std::vector<Asked> specs = {SmallSpec(), SmallSpec(), SmallSpec(), SmallSpec()};
  specs[1].negative_prompt = "a green square";
  specs[2].guidance_scale = 1;
  specs[3].inputs.image = image::Encode(Load().Finish(SmallSpec())->pixels, {}).value();
  ExpectSameInSharedSteps(Path(), specs);
}

class LcmTest : public Sd1Test {
 protected:
  LcmTest() { testing::MakeLcmCheckpoint(Path("lcm")); }

  Rig LoadLcm() const { return Rig(LoadOptions{.base = Path("lcm")}); }
};

// do_classifier_free_guidance of diffusers' pipelines is false where there is a
// time_cond_proj_dim.
TEST_F(LcmTest, TellsItsNetworkTheGuidanceInOneRow) {
  const Rig rig = LoadLcm();
  PictureSpec spec = SmallSpec();
  spec.guidance_scale = 8;
  ASSERT_OK_AND_ASSIGN(const auto plan, rig.Resolve(spec));
  EXPECT_EQ(plan->rows, 1);
  EXPECT_THAT(plan->row_counts(), ElementsAre(1));
  EXPECT_EQ(plan->stages.front().prompts.size(), 1);
  EXPECT_THAT(plan->warnings, IsEmpty());
  const std::vector<float> of_8 = rig.Latents(spec);
  for (double other : {0.0, 1.0, 2.0}) {
    spec.guidance_scale = other;
    EXPECT_NE(rig.Latents(spec), of_8) << other;
  }
}

TEST_F(LcmTest, SharesStepsAmongImagesOfDifferentGuidance) {
  std::vector<Asked> specs = {SmallSpec(), SmallSpec(), SmallSpec()};
  specs[0].guidance_scale = 8;
  specs[1].guidance_scale = 3;
  specs[2].guidance_scale = 0;
  ExpectSameInSharedSteps(Path("lcm"), specs);
}

TEST_F(LcmTest, SaysThatANegativePromptHasNoEffect) {
  const Rig rig = LoadLcm();
  PictureSpec spec = SmallSpec();
  spec.negative_prompt = "a star";
  spec.guidance_rescale = 0.5;
  spec.guidance_interval = pipeline::GuidanceInterval{0, 0.5};
  ASSERT_OK_AND_ASSIGN(const auto plan, rig.Resolve(spec));
  const auto says = [](const char* field) {
    return AllOf(::testing::StartsWith(field), HasSubstr("is told guidance_scale"));
  };
  EXPECT_THAT(plan->warnings, ElementsAre(says("negative_prompt"), says("guidance_rescale"),
                                          says("guidance_interval")));
}

// The preset's figures are for weights that were merged into a network which is told nothing.
TEST_F(LcmTest, HasAGuidanceOfItsOwnInThePresetOfLcm) {
  const Rig told({.base = Path("lcm"), .preset = "lcm"});
  PictureSpec spec = SmallSpec();
  ASSERT_OK_AND_ASSIGN(const auto plan, told.Resolve(spec));
  EXPECT_EQ(plan->spec.guidance_scale, 8);
  EXPECT_THAT(plan->warnings, IsEmpty());
  const Rig merged({.base = Path(), .preset = "lcm"});
  EXPECT_EQ(merged.Resolve(spec).value()->spec.guidance_scale, 1);
  spec.guidance_scale = 8;
  EXPECT_THAT(merged.Resolve(spec).value()->warnings, ElementsAre(HasSubstr("guidance_scale 8")));
}

}  // namespace
}  // namespace latentd::families
