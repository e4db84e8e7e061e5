// Embeddings that a request brings, and embeddings that it wants; beside whole images against
// diffusers (tests/golden).
#include "core/pipeline/plan/embeds.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/base/files/files.h"
#include "core/image/encode.h"
#include "tests/core/pipeline/embedded.h"
#include "tests/support/source_directory.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pointwise;
using Type = HostTensor::Type;

constexpr auto kRefused = absl::StatusCode::kInvalidArgument;

// A tensor of float32 with the numbers of another.
HostTensor Widened(const HostTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(ElementsOf(tensor)));
  Widen(tensor, 0, absl::MakeSpan(values));
  HostTensor wide = {Type::kFloat32, tensor.shape, std::string(values.size() * 4, '\0')};
  std::memcpy(wide.data.data(), values.data(), wide.data.size());
  return wide;
}

std::vector<float> NumbersOf(const HostTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(ElementsOf(tensor)));
  Widen(tensor, 0, absl::MakeSpan(values));
  return values;
}

class EmbedsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    rig_ = new Rig(Demo(), "", backends::cpu::CpuBackend::Create().value());
  }
  static void TearDownTestSuite() { delete rig_; }

  static PictureSpec Spec(const std::string& negative = "") {
    PictureSpec spec = SmallSpec();
    spec.num_inference_steps = 2;
    if (!negative.empty()) spec.negative_prompt = negative;
    return spec;
  }

  static std::string FileOf(const PictureSpec& spec, Type type = Type::kFloat32) {
    return EmbedsFileOf(*rig_, spec, type);
  }
  static Asked Embedded(const PictureSpec& spec, Type type = Type::kFloat32) {
    return pipeline::Embedded(*rig_, spec, type);
  }

  static inline Rig* rig_ = nullptr;
};

TEST_F(EmbedsTest, DrawThePictureOfTheirPrompts) {
  PictureSpec unguided = Spec(), two = Spec("blue"), skipped = Spec(), longer = Spec("blue");
  unguided.guidance_scale = 1;
  two.prompt_2 = "a star";
  two.negative_prompt_2 = "a ring";
  skipped.clip_skip = 1;
  longer.long_prompt = prompts::LongPrompt::kChunk;
  for (int i = 0; i < 100; ++i) longer.prompt += " a";
  for (const PictureSpec& spec : {Spec(), Spec("blue"), unguided, two, skipped, longer}) {
    EXPECT_EQ(rig_->Latents(Embedded(spec)), rig_->Latents(spec));
  }
  EXPECT_NE(rig_->Latents(Embedded(Spec("blue"))), rig_->Latents(Embedded(Spec("red"))));
  EXPECT_NE(rig_->Latents(Embedded(two)), rig_->Latents(Embedded(Spec("blue"))));
}

TEST_F(EmbedsTest, OfTheRefinerAreItsOwn) {
  Asked spec = Spec("blue");
  spec.model = "refiner";
  spec.width.reset();
  spec.height.reset();
  spec.num_inference_steps = 4;
  spec.inputs.image = image::Encode(rig_->Finish(Spec())->pixels, {}).value();
  Asked embedded = Embedded(spec);
  embedded.inputs.image = spec.inputs.image;
  EXPECT_EQ(rig_->Latents(embedded), rig_->Latents(spec));
  embedded.model.clear();
  EXPECT_THAT(rig_->Resolve(embedded), StatusIs(kRefused, HasSubstr("prompt_embeds")));
}

TEST_F(EmbedsTest, HaveWeightsInThem) {
  for (const auto& [syntax, prompt] :
       {std::pair(prompts::Syntax::kA1111, "a (red:1.4) circle"),
        std::pair(prompts::Syntax::kComfyUi, "a (red:0.6) circle")}) {
    PictureSpec plain = Spec(), weighted = Spec();
    plain.prompt = "a red circle";
    weighted.prompt = prompt;
    weighted.prompt_syntax = syntax;
    const std::vector<float> wanted = rig_->Latents(weighted);
    EXPECT_THAT(rig_->Latents(Embedded(weighted)), Pointwise(FloatNear(1e-3F), wanted));
    // Far from those without.
    const std::vector<float> unweighted = rig_->Latents(plain);
    float largest = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      largest = std::max(largest, std::fabs(wanted[i] - unweighted[i]));
    }
    EXPECT_GT(largest, 1e-2F);
  }
}

TEST_F(EmbedsTest, OfHalfTheBytesAreWidened) {
  for (const Type type : {Type::kFloat16, Type::kBFloat16}) {
    const Asked half = Embedded(Spec("blue"), type);
    Asked wide = half;
    for (Embeds* embeds : {&wide.inputs.prompt, &wide.inputs.negative}) {
      embeds->states = Widened(*embeds->states);
      embeds->pooled = Widened(*embeds->pooled);
    }
    EXPECT_EQ(rig_->Latents(half), rig_->Latents(wide));
    // To as many digits as the type has.
    const auto exact = NumbersOf(*Embedded(Spec("blue")).inputs.prompt.states);
    const auto rounded = NumbersOf(*half.inputs.prompt.states);
    const float unit = type == Type::kFloat16 ? 0x1p-11F : 0x1p-8F;
    for (size_t i = 0; i < exact.size(); ++i) {
      ASSERT_NEAR(rounded[i], exact[i], unit * std::fabs(exact[i]) + 0x1p-25F) << i;
    }
  }
}

// Case of tests/golden/pictures.json, made by diffusers, with its tensors.
struct GoldenCase {
  PictureSpec spec;
  std::vector<NamedTensor> tensors;

  std::vector<float> Numbers(const std::string& name) const {
    return NumbersOf(*TensorOf(tensors, name));
  }
};

std::vector<NamedTensor> GoldenTensors(const std::string& name) {
  const std::string path =
      testing::SourcePath(absl::StrCat("tests/golden/pictures/", name, ".safetensors"));
  return ParseTensorFile(ReadFile(path, size_t{1} << 24).value(), path).value();
}

GoldenCase ClipSkipCase() {
  GoldenCase of = {.tensors = GoldenTensors("clip_skip")};
  of.spec.prompt = "a red ring on a blue background";
  of.spec.negative_prompt = "a star";
  of.spec.negative_prompt_2 = "a heart";
  of.spec.clip_skip = 1;
  of.spec.width = of.spec.height = 128;
  of.spec.num_inference_steps = 5;
  of.spec.guidance_scale = 4;
  of.spec.seeds = {2};
  return of;
}

GoldenCase WeightedChunksCase() {
  GoldenCase of = {.tensors = GoldenTensors("chunks_a1111")};
  of.spec.prompt = "a red ring BREAK a (blue:1.3) background";
  of.spec.negative_prompt = "a star";
  of.spec.prompt_syntax = prompts::Syntax::kA1111;
  of.spec.long_prompt = prompts::LongPrompt::kChunk;
  of.spec.width = of.spec.height = 128;
  of.spec.num_inference_steps = 5;
  of.spec.guidance_scale = 4;
  of.spec.seeds = {21};
  return of;
}

TEST_F(EmbedsTest, AreThoseOfDiffusersEncodePrompt) {
  const GoldenCase of = ClipSkipCase();
  const auto tensors = ParseTensorFile(FileOf(of.spec), "embeddings").value();
  for (const char* name : {"prompt_embeds", "pooled_prompt_embeds", "negative_prompt_embeds",
                           "negative_pooled_prompt_embeds"}) {
    const std::vector<float> wanted = of.Numbers(name);
    EXPECT_THAT(NumbersOf(*TensorOf(tensors, name)), Pointwise(FloatNear(1e-3F), wanted)) << name;
  }
}

TEST_F(EmbedsTest, OfDiffusersDrawItsPicture) {
  const GoldenCase of = ClipSkipCase();
  Asked asked = of.spec;
  asked.prompt.clear();
  asked.negative_prompt.reset();
  asked.negative_prompt_2.reset();
  asked.clip_skip.reset();
  asked.inputs.prompt = {TensorOf(of.tensors, "prompt_embeds"),
                         TensorOf(of.tensors, "pooled_prompt_embeds")};
  asked.inputs.negative = {TensorOf(of.tensors, "negative_prompt_embeds"),
                           TensorOf(of.tensors, "negative_pooled_prompt_embeds")};
  EXPECT_THAT(rig_->Latents(asked), Pointwise(FloatNear(1e-3F), of.Numbers("latents")));
}

TEST_F(EmbedsTest, OfWeightedChunksDrawThePictureOfDiffusers) {
  const GoldenCase of = WeightedChunksCase();
  const Asked embedded = Embedded(of.spec);
  EXPECT_EQ(embedded.inputs.prompt.states->shape.front(), 2 * 77);
  EXPECT_THAT(rig_->Latents(embedded), Pointwise(FloatNear(1e-3F), of.Numbers("latents")));
}

// Bits of special numbers, as torch has them.
TEST(WidenTest, KnowsAllKindsOfNumbers) {
  const auto value = [](Type type, uint16_t bits) {
    HostTensor tensor = {type, {1}, std::string(2, '\0')};
    std::memcpy(tensor.data.data(), &bits, 2);
    return NumbersOf(tensor).front();
  };
  EXPECT_EQ(value(Type::kFloat16, 0x3c00), 1);
  EXPECT_EQ(value(Type::kFloat16, 0xc100), -2.5F);
  EXPECT_EQ(value(Type::kFloat16, 0x7bff), 65504);
  EXPECT_EQ(value(Type::kFloat16, 0x0001), 0x1p-24F);
  EXPECT_EQ(value(Type::kFloat16, 0x83ff), -1023 * 0x1p-24F);
  EXPECT_EQ(value(Type::kFloat16, 0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(value(Type::kFloat16, 0x7c01)));
  EXPECT_EQ(value(Type::kBFloat16, 0x3f80), 1);
  EXPECT_EQ(value(Type::kBFloat16, 0xc020), -2.5F);
}

bool HasText(const Plan& plan) {
  for (const PlannedGraph& graph : plan.graphs) {
    if (graph.name.kind == GraphKind::kText) return true;
  }
  return false;
}

TEST_F(EmbedsTest, NeedNoTextEncoder) {
  EXPECT_TRUE(HasText(*rig_->Resolve(Spec()).value()));
  for (const char* negative : {"", "blue"}) {
    const Asked embedded = Embedded(Spec(negative));
    EXPECT_EQ(embedded.inputs.negative.given(), *negative != '\0');  // else they are zeros
    const auto picture = rig_->Start(embedded);
    EXPECT_FALSE(HasText(picture->plan()));
    EXPECT_THAT(picture->stage().text, IsEmpty());
  }
  Asked half = Embedded(Spec());
  half.negative_prompt = "blue";
  EXPECT_TRUE(HasText(*rig_->Resolve(half).value()));
  EXPECT_EQ(rig_->Latents(half), rig_->Latents(Spec("blue")));
}

TEST_F(EmbedsTest, GoBesideAPrompt) {
  Asked negative = Embedded(Spec("blue"));
  negative.inputs.prompt = {};
  negative.prompt = Spec().prompt;
  EXPECT_EQ(rig_->Latents(negative), rig_->Latents(Spec("blue")));
}

TEST_F(EmbedsTest, ShareStepsWithPrompts) {
  const auto one = rig_->Start(Spec()), other = rig_->Start(Embedded(Spec()));
  EXPECT_EQ(one->lane(), other->lane());
  EXPECT_EQ(one->stage().request_part, other->stage().request_part);
  EXPECT_EQ(one->stage().steps, other->stage().steps);
}

TEST_F(EmbedsTest, MayHaveABatchOfOne) {
  Asked batched = Embedded(Spec());
  auto& shape = batched.inputs.prompt.states->shape;
  shape.insert(shape.begin(), 1);
  auto& pooled = batched.inputs.prompt.pooled->shape;
  pooled.insert(pooled.begin(), 1);
  EXPECT_EQ(rig_->Latents(batched), rig_->Latents(Spec()));
}

TEST_F(EmbedsTest, ThatAreWrongAreRefusedByTheirField) {
  PictureSpec longer = Spec("blue");
  longer.long_prompt = prompts::LongPrompt::kChunk;
  for (int i = 0; i < 100; ++i) longer.prompt += " a";
  const Asked good = Embedded(Spec("blue")), more = Embedded(longer);
  const auto refusal = [&](const std::function<void(Asked&)>& edit) {
    Asked wrong = good;
    edit(wrong);
    const auto plan = rig_->Resolve(wrong);
    EXPECT_TRUE(absl::IsInvalidArgument(plan.status()));
    const auto found = GetFieldViolations(plan.status());
    return found.empty() ? "" : absl::StrCat(found[0].field, ": ", found[0].description);
  };
  const auto number = [](HostTensor& tensor, float value) {
    std::memcpy(tensor.data.data() + 4 * 5, &value, 4);
  };
  const int64_t width = good.inputs.prompt.states->shape.back();
  EXPECT_THAT(refusal([](Asked& s) { s.prompt = "a star"; }),
              HasSubstr("prompt_embeds: stands in place of prompt"));
  EXPECT_THAT(refusal([](Asked& s) { s.prompt_2 = "a star"; }), HasSubstr("prompt_2"));
  EXPECT_THAT(refusal([](Asked& s) { s.negative_prompt = ""; }),
              HasSubstr("negative_prompt_embeds: stands in place of negative_prompt"));
  EXPECT_THAT(refusal([](Asked& s) { s.refine = true; }), HasSubstr("refine: the refiner reads"));
  EXPECT_THAT(refusal([](Asked& s) { s.inputs.prompt.pooled.reset(); }),
              HasSubstr("pooled_prompt_embeds: the base reads it beside prompt_embeds"));
  EXPECT_THAT(refusal([](Asked& s) { s.inputs.negative.states.reset(); }),
              HasSubstr("negative_pooled_prompt_embeds: goes with negative_prompt_embeds"));
  EXPECT_THAT(refusal([&](Asked& s) {
                s.inputs.prompt.states->shape = {77, width - 1};
              }),
              AllOf(HasSubstr(absl::StrCat("[77 k, ", width, "]")),
                    HasSubstr(absl::StrCat("has [77, ", width - 1, "]"))));
  EXPECT_THAT(refusal([&](Asked& s) {
                s.inputs.prompt.states->shape = {76, width};
              }),
              HasSubstr("has [76, "));
  EXPECT_THAT(refusal([&](Asked& s) {
                s.inputs.prompt.states->shape = {77 * 5, width};
              }),
              HasSubstr("k from 1 to 4"));
  EXPECT_THAT(refusal([&](Asked& s) {
                s.inputs.prompt.states->shape = {2, 77, width};
              }),
              HasSubstr("has [2, 77, "));
  EXPECT_THAT(refusal([](Asked& s) { s.inputs.prompt.states->shape.assign(100'000, 1); }),
              HasSubstr("1, ...]"));
  EXPECT_THAT(refusal([](Asked& s) { s.inputs.prompt.states->shape = {}; }), HasSubstr("has []"));
  EXPECT_THAT(refusal([](Asked& s) { s.inputs.prompt.pooled->shape = {3}; }),
              HasSubstr("pooled_prompt_embeds: must have the shape"));
  EXPECT_THAT(refusal([](Asked& s) { s.inputs.prompt.states->data.pop_back(); }),
              HasSubstr("bytes of data, there are"));
  EXPECT_THAT(refusal([](Asked& s) { s.inputs.prompt.states->type = Type::kFloat16; }),
              HasSubstr("of float16 takes"));
  EXPECT_THAT(refusal([&](Asked& s) { number(*s.inputs.negative.states, NAN); }),
              HasSubstr("negative_prompt_embeds: all numbers must be finite, number 5 is nan"));
  EXPECT_THAT(refusal([&](Asked& s) { number(*s.inputs.prompt.pooled, INFINITY); }),
              HasSubstr("number 5 is inf"));
  EXPECT_THAT(refusal([&](Asked& s) { s.inputs.prompt = more.inputs.prompt; }),
              HasSubstr("negative_prompt_embeds: must have as many rows as prompt_embeds or "
                        "prompt, which has 154; has 77"));
}

TEST_F(EmbedsTest, FieldsWithoutEffectBesideThemAreNamed) {
  Asked asked = Embedded(Spec());
  asked.clip_skip = 1;
  asked.prompt_syntax = prompts::Syntax::kA1111;
  asked.long_prompt = prompts::LongPrompt::kChunk;
  EXPECT_THAT(
      rig_->Resolve(asked).value()->warnings,
      ElementsAre(HasSubstr("prompt_syntax has no effect"), HasSubstr("long_prompt has no effect"),
                  HasSubstr("clip_skip has no effect: prompt_embeds stands in place")));
  asked.clip_skip.reset();
  asked.negative_prompt = "a (blue:1.2) star";
  EXPECT_THAT(rig_->Resolve(asked).value()->warnings, IsEmpty());
  Asked unguided = Embedded(Spec("blue"));
  unguided.guidance_scale = 1;
  EXPECT_THAT(rig_->Resolve(unguided).value()->warnings,
              Contains(HasSubstr("negative_prompt_embeds has no effect")));
}

// A unit of text that runs fewer encoders than others of its kind says nothing about their time.
TEST_F(EmbedsTest, SpareThePictureItsTextAndTeachNothingAboutThatOfOthers) {
  struct Unit {
    bool ahead;        // text encoders are expected to run
    bool encodes_all;  // the time of others is learned from it
    bool operator==(const Unit&) const = default;
  };
  const auto text_of = [](Picture& picture) {
    const bool ahead = picture.ahead().stages.front().text;
    const auto stream = picture.stage().device().NewStream(SystemClock()).value();
    Lanes lanes;
    Picture* const pictures[] = {&picture};
    auto unit = EnqueueUnit(pictures, lanes, *stream).value();
    EXPECT_EQ(unit.kind, UnitKind::kText);
    EXPECT_OK(CompleteUnit(unit, picture, unit.parts[0]));
    return Unit{ahead, unit.parts[0].encodes_all};
  };
  PictureSpec two = Spec("blue");
  two.num_images_per_prompt = 2;
  auto pictures = rig_->Begin(two).value();
  EXPECT_EQ(text_of(*pictures[0]), (Unit{true, true}));
  EXPECT_EQ(text_of(*pictures[1]), (Unit{false, false}));
  EXPECT_EQ(text_of(*rig_->Start(Embedded(Spec("blue")))), (Unit{false, false}));
  EXPECT_EQ(text_of(*rig_->Start(Embedded(Spec()))), (Unit{false, false}));  // zeros beside them
  Asked mixed = Embedded(Spec());
  mixed.negative_prompt = "blue";
  EXPECT_EQ(text_of(*rig_->Start(mixed)), (Unit{true, false}));
}

TEST_F(EmbedsTest, ThatAreWantedRunTextEncodersAndNothingElse) {
  PictureSpec spec = Spec();
  spec.output_embeds = Type::kFloat32;
  const auto picture = rig_->Start(spec);
  for (const PlannedGraph& graph : picture->plan().graphs) {
    EXPECT_EQ(graph.name.kind, GraphKind::kText);
  }
  EXPECT_THAT(picture->plan().dispensable, IsEmpty());
  EXPECT_TRUE(picture->ahead().stages.front().text);
  EXPECT_EQ(picture->ahead().stages.front().evaluations(), 0);
  ASSERT_OK(testing::RunUnit(*picture));
  EXPECT_EQ(picture->next, UnitKind::kDone);
  ASSERT_EQ(picture->embeds.size(), 2u);
  EXPECT_THAT(picture->embeds.front(), IsEmpty());  // zeros
  const auto tensors = ParseTensorFile(FileOf(spec), "embeddings").value();
  EXPECT_EQ(tensors.size(), 2u);
}

TEST_F(EmbedsTest, ThatAreWantedHaveTheShapesThatAreTaken) {
  const auto tensors = ParseTensorFile(FileOf(Spec("blue"), Type::kBFloat16), "embeddings").value();
  const families::ModelConfigs& configs = rig_->pipeline->first().configs();
  for (const char* prefix : {"", "negative_"}) {
    const NamedTensor* states = FindTensor(tensors, absl::StrCat(prefix, "prompt_embeds"));
    const NamedTensor* pooled = FindTensor(tensors, absl::StrCat(prefix, "pooled_prompt_embeds"));
    ASSERT_TRUE(states != nullptr && pooled != nullptr) << prefix;
    EXPECT_THAT(states->shape, ElementsAre(77, configs.joined_features()));
    EXPECT_THAT(pooled->shape, ElementsAre(configs.pooled_features()));
    EXPECT_EQ(states->dtype, "BF16");
  }
}

// A refiner draws over images only; its text encoder runs by itself.
TEST_F(EmbedsTest, ThatAreWantedNeedNoImage) {
  PictureSpec spec = Spec();
  spec.model = "refiner";
  EXPECT_THAT(FileOf(spec), Not(IsEmpty()));
}

}  // namespace
}  // namespace latentd::pipeline
