// Pictures that follow ControlNets: what the nets add and when, alone and beside others.
#include "core/pipeline/plan/controls.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/adapters/catalogue/adapter_folder.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/base/errors/error_details.h"
#include "core/image/encode.h"
#include "core/pipeline/lanes/control_programs.h"
#include "tests/core/pipeline/control_net_folder.h"
#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// A picture of which each pixel has another colour.
std::string Gradient(int width, int height, int turn) {
  image::Image image{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (const int value : {x * turn, y * 3, x * y}) {
        image.rgb.push_back(static_cast<uint8_t>(value));
      }
    }
  }
  return image::Encode(image, {}).value();
}

// Latents that differ by rounding alone, and latents of other pictures, are so far apart.
constexpr double kSame = 2e-3, kDiffers = 1e-2;

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = a.size() == b.size() ? 0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
  }
  return most;
}

struct Controlled : Asked {
  explicit Controlled(PictureSpec spec) : Asked(std::move(spec)) {}

  // The last control's map is of that type.
  Controlled Mode(int mode) const {
    Controlled more = *this;
    more.controls.back().mode = mode;
    return more;
  }

  Controlled With(const std::string& name, double scale = 1, double start = 0, double end = 1,
                  int turn = 2) const {
    Controlled more = *this;
    more.controls.push_back({.name = name, .scale = scale, .start = start, .end = end});
    more.inputs.control_images.push_back(Gradient(80, 100, turn));
    return more;
  }
};

class ControlsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ControlNetFolder();
    folder_->Add("edges", /*seed=*/1, /*gain=*/0.3f);
    folder_->Add("depth", /*seed=*/2, /*gain=*/0.3f);
    folder_->Add("silent", /*seed=*/3, /*gain=*/0);
    folder_->Add("union", /*seed=*/4, /*gain=*/0.3f, ControlNetFolder::UnionConfig(/*types=*/6));
    catalogue_ = new adapters::Catalogue(adapters::FolderOnDisk(folder_->path()));
    rig_ = new Rig({.base = testing::kDemoBase, .adapters = catalogue_, .row_counts = {2, 4, 8}},
                   "", backends::cpu::CpuBackend::Create().value());
    for (int rows : {4, 8}) {
      rig_->kept.push_back(rig_->pipeline->first()
                               .graphs()
                               .Find({.shape = {rows, 72 / 8, 64 / 8}, .controlled = true})
                               .value());
      ASSERT_OK(rig_->pipeline->first().graphs().Get(rig_->kept.back()));
    }
  }
  static void TearDownTestSuite() {
    delete rig_;
    delete catalogue_;
    delete folder_;
  }

  static Controlled Spec(uint64_t seed = 3) {
    PictureSpec spec = SmallSpec();
    spec.seed = seed;
    return Controlled(std::move(spec));
  }

  // Reason for which a request is refused, by its first field.
  static std::string Refusal(const Asked& asked) {
    const auto plan = rig_->Resolve(asked);
    const std::vector<FieldViolation> fields = GetFieldViolations(plan.status());
    return fields.empty() ? std::string(plan.status().message())
                          : fields.front().field + ": " + fields.front().description;
  }

  static std::unique_ptr<Picture> Begin(const Asked& asked) { return rig_->BeginSteps(asked); }

  // Draws them together, as far as each has steps.
  std::vector<std::vector<float>> DrawTogether(const std::vector<Asked>& asked) {
    std::vector<std::unique_ptr<Picture>> pictures;
    for (const Asked& one : asked) pictures.push_back(Begin(one));
    for (;;) {
      std::vector<Picture*> stepping;
      for (const auto& picture : pictures) {
        if (picture->next == UnitKind::kStep) stepping.push_back(picture.get());
      }
      if (stepping.empty()) break;
      Step(stepping);
    }
    std::vector<std::vector<float>> latents;
    for (const auto& picture : pictures) latents.push_back(ValuesOf(picture->latents));
    return latents;
  }

  void Step(const std::vector<Picture*>& pictures) {
    PendingUnit unit = EnqueueUnit(pictures, lanes_, *stream_).value();
    most_rows_ = std::max(most_rows_, unit.computed_rows);
    for (size_t i = 0; i < pictures.size(); ++i) {
      EXPECT_OK(CompleteUnit(unit, *pictures[i], unit.parts[i]));
    }
  }

  static inline ControlNetFolder* folder_ = nullptr;
  static inline adapters::Catalogue* catalogue_ = nullptr;
  static inline Rig* rig_ = nullptr;
  Lanes lanes_;
  int most_rows_ = 0;
  std::unique_ptr<device::Stream> stream_ = device::Host().NewStream(SystemClock()).value();
};

TEST_F(ControlsTest, NetsThatAddZerosLeaveThePictureAsItIs) {
  const std::vector<float> plain = rig_->Latents(Spec());
  EXPECT_LT(Distance(rig_->Latents(Spec().With("silent")), plain), kSame);
  EXPECT_LT(Distance(rig_->Latents(Spec().With("edges", /*scale=*/0)), plain), kSame);
  EXPECT_GT(Distance(rig_->Latents(Spec().With("edges")), plain), kDiffers);
}

TEST_F(ControlsTest, FollowScaleImageAndNet) {
  const std::vector<float> drawn = rig_->Latents(Spec().With("edges"));
  EXPECT_GT(Distance(rig_->Latents(Spec().With("edges", 0.5)), drawn), kDiffers);
  EXPECT_GT(Distance(rig_->Latents(Spec().With("edges", 1, 0, 1, /*turn=*/7)), drawn), kDiffers);
  EXPECT_GT(Distance(rig_->Latents(Spec().With("depth")), drawn), kDiffers);
  EXPECT_EQ(rig_->Latents(Spec().With("edges")), drawn);
}

TEST_F(ControlsTest, ThatGuessSayLessAndNothingToTheNegativePrompt) {
  Controlled guessing = Spec().With("edges");
  guessing.guess_mode = true;
  const std::vector<float> drawn = rig_->Latents(guessing);
  EXPECT_GT(Distance(drawn, rig_->Latents(Spec().With("edges"))), kDiffers);
  EXPECT_GT(Distance(drawn, rig_->Latents(Spec())), kDiffers);
  const ControlRun run = {.scale = 2, .guesses = true};
  EXPECT_THAT(ScalesOf(run, /*rows=*/2, /*residuals=*/3),
              Pointwise(FloatEq(), {0.0f, 0.0f, 0.0f, 0.2f, 0.6324555f, 2.0f}));
  EXPECT_THAT(ScalesOf(run, /*rows=*/1, /*residuals=*/2), Pointwise(FloatEq(), {0.2f, 2.0f}));
  EXPECT_THAT(ScalesOf({.scale = 2}, /*rows=*/2, /*residuals=*/1), ElementsAre(2, 2));
}

// Residuals of its row count nothing, which those that are not finite would not.
TEST_F(ControlsTest, ThatGuessDoNotReadTheNegativePrompt) {
  Controlled guessing = Spec().With("edges");
  guessing.guess_mode = true;
  const auto picture = Begin(guessing);
  const auto& conditioning = picture->request->controls.front().conditioning;
  ASSERT_TRUE(conditioning.has_value() && !conditioning->empty());
  for (const auto& [name, rows] : *conditioning) {
    ASSERT_EQ(rows.shape()[0], 2) << name;
    const device::Buffer negative = rows.Rows(0, 1);
    device::Buffer endless = device::Buffer::Allocate(negative.dtype(), negative.shape());
    std::memset(endless.data(), 0xff, endless.bytes());  // NaN in every dtype
    ASSERT_OK(device::Host().Copy(endless, negative, *stream_));
  }
  ASSERT_OK(rig_->Run(*picture));
  EXPECT_EQ(ValuesOf(picture->latents), rig_->Latents(guessing));
}

TEST_F(ControlsTest, RestOutsideOfTheirPartOfTheEvaluations) {
  // Evaluation i of four is in the part if start <= i / 4 and (i + 1) / 4 <= end.
  const auto scales = [&](double start, double end) {
    return rig_->Resolve(Spec().With("edges", 0.7, start, end)).value()->controls.front().scales;
  };
  EXPECT_THAT(scales(0, 1), ElementsAre(0.7, 0.7, 0.7, 0.7));
  EXPECT_THAT(scales(0.25, 0.75), ElementsAre(0, 0.7, 0.7, 0));
  EXPECT_THAT(scales(0.3, 0.7), ElementsAre(0, 0, 0, 0));
  const std::vector<float> plain = rig_->Latents(Spec());
  EXPECT_LT(Distance(rig_->Latents(Spec().With("edges", 1, 0.3, 0.7)), plain), kSame);
  const std::vector<float> first = rig_->Latents(Spec().With("edges", 1, 0, 0.5));
  EXPECT_GT(Distance(first, plain), kDiffers);
  EXPECT_GT(Distance(first, rig_->Latents(Spec().With("edges"))), kDiffers);
}

// diffusers counts evaluations before denoising_end cuts them.
TEST_F(ControlsTest, CountEvaluationsThatDenoisingEndLeavesOut) {
  Controlled asked = Spec().With("edges", 1, 0, 0.5);
  asked.denoising_end = 0.75;
  EXPECT_THAT(rig_->Resolve(asked).value()->controls.front().scales, ElementsAre(1, 1, 0));
}

TEST_F(ControlsTest, AddUp) {
  const std::vector<float> both =
      rig_->Latents(Spec().With("edges", 0.5).With("silent").With("edges", 0.25));
  const std::vector<float> one = rig_->Latents(Spec().With("edges", 0.75));
  EXPECT_LT(Distance(both, one), kSame);
  EXPECT_GT(Distance(rig_->Latents(Spec().With("edges", 0.5)), one), kDiffers);
}

// As many as a request may have, in a lane beside a picture with one.
TEST_F(ControlsTest, OfFourEachCounts) {
  Controlled four = Spec()
                        .With("edges", 0.5)
                        .With("depth", 0.5, 0, 1, /*turn=*/3)
                        .With("edges", -0.5, 0, 1, /*turn=*/5)
                        .With("union", 0.5, 0, 1, /*turn=*/7)
                        .Mode(2);
  const std::vector<float> drawn = rig_->Latents(four);
  for (size_t i = 0; i < four.controls.size(); ++i) {
    Controlled without = four;
    without.controls[i].scale = 0;
    EXPECT_GT(Distance(rig_->Latents(without), drawn), kDiffers) << i;
  }
  const Asked one = Spec(6).With("depth");
  const std::vector<Asked> asked = {four, one};
  const auto together = DrawTogether(asked);
  EXPECT_EQ(most_rows_, 4);
  EXPECT_LT(Distance(together[0], drawn), kSame);
  EXPECT_LT(Distance(together[1], rig_->Latents(one)), kSame);
}

// The others have other nets, parts of the schedule, rows and lengths.
TEST_F(ControlsTest, GivePicturesWhatTheyGetAlone) {
  Controlled unguided = Spec(7).With("depth", 0.8);
  unguided.guidance_scale = 1;
  Controlled longer = Spec(8).With("edges", 1, 0.2, 0.6).With("depth", -0.4);
  longer.num_inference_steps = 6;
  Controlled partly = Spec(9).With("depth", 1, 0, 0.5);
  partly.guidance_interval = GuidanceInterval{0.25, 0.75};
  const std::vector<Asked> asked = {Spec(6).With("edges", 0.9), unguided, longer, partly};
  const auto together = DrawTogether(asked);
  EXPECT_EQ(most_rows_, 8);
  for (size_t i = 0; i < asked.size(); ++i) {
    EXPECT_LT(Distance(together[i], rig_->Latents(asked[i])), kSame) << i;
  }
}

// Rows are used again while another picture keeps the lane.
TEST_F(ControlsTest, LeaveNothingInRowsOfTheNext) {
  Controlled stays = Spec(4).With("silent"), leaves = Spec(5).With("edges", 3);
  stays.num_inference_steps = 9;
  leaves.num_inference_steps = 2;
  const Asked joins = Spec(6).With("depth", 1, 0.5, 1);  // at first it rests
  const auto first = Begin(stays), second = Begin(leaves);
  while (second->next == UnitKind::kStep) Step({first.get(), second.get()});
  const auto third = Begin(joins);
  while (third->next == UnitKind::kStep) Step({first.get(), third.get()});
  EXPECT_EQ(first->next, UnitKind::kStep);
  EXPECT_LT(Distance(ValuesOf(third->latents), rig_->Latents(joins)), kSame);
  while (first->next == UnitKind::kStep) Step({first.get()});
  EXPECT_LT(Distance(ValuesOf(first->latents), rig_->Latents(stays)), kSame);
}

// Else their weights could not make room for others as long as the lane is used.
TEST_F(ControlsTest, LeaveTheLaneWithTheirPictures) {
  Controlled stays = Spec(4).With("silent"), leaves = Spec(5).With("edges");
  stays.num_inference_steps = 9;
  leaves.num_inference_steps = 2;
  const auto first = Begin(stays);
  auto second = Begin(leaves);
  while (second->next == UnitKind::kStep) Step({first.get(), second.get()});
  const ControlPrograms& nets = first->place->lane()->controls();
  const int64_t with_both = nets.bytes();
  second.reset();
  Step({first.get()});
  EXPECT_LT(nets.bytes(), with_both);
  while (first->next == UnitKind::kStep) Step({first.get()});
  EXPECT_LT(Distance(ValuesOf(first->latents), rig_->Latents(stays)), kSame);
}

TEST_F(ControlsTest, OfAUnionFollowTheTypeOfTheirMap) {
  const Asked canny = Spec().With("union").Mode(3), depth = Spec().With("union").Mode(1);
  const std::vector<float> drawn = rig_->Latents(canny);
  EXPECT_GT(Distance(drawn, rig_->Latents(Spec())), kDiffers);
  EXPECT_GT(Distance(drawn, rig_->Latents(depth)), kDiffers);
  EXPECT_EQ(rig_->Latents(canny), drawn);
  // In one lane, with another type and other nets beside, each in its turn.
  const Asked both = Spec(6).With("union", 0.2).Mode(3).With("union", 1.2).Mode(0);
  const Asked mixed = Spec(7).With("edges").With("union").Mode(5);
  const std::vector<Asked> asked = {canny, depth, both, mixed};
  const auto together = DrawTogether(asked);
  for (size_t i = 0; i < asked.size(); ++i) {
    EXPECT_LT(Distance(together[i], rig_->Latents(asked[i])), kSame) << i;
  }
  const Asked other_order = Spec(6).With("union", 0.2).Mode(0).With("union", 1.2).Mode(3);
  EXPECT_GT(Distance(together[2], rig_->Latents(other_order)), kDiffers);
  const Asked one_type = Spec(6).With("union", 0.5).Mode(3).With("union", 0.7).Mode(3);
  EXPECT_LT(Distance(rig_->Latents(Spec(6).With("union", 1.2).Mode(3)), rig_->Latents(one_type)),
            kSame);
}

TEST_F(ControlsTest, OfAUnionHaveAModeAndOthersNone) {
  EXPECT_EQ(catalogue_->Find("union")->control_modes, 6);
  EXPECT_EQ(catalogue_->Find("edges")->control_modes, 0);
  EXPECT_THAT(Refusal(Spec().With("union")),
              HasSubstr("controls[0].control_mode: set it: union is a ControlNet-Union, whose "
                        "modes are 0 (openpose), 1 (depth), 2 (hed), 3 (canny), 4 (normal), "
                        "5 (segment)"));
  EXPECT_THAT(Refusal(Spec().With("edges").Mode(3)),
              HasSubstr("controls[0].control_mode: edges is a net for one type of maps"));
  EXPECT_THAT(Refusal(Spec().With("silent").With("union").Mode(6)),
              HasSubstr("controls[1].control_mode: is 6, and the modes of union are 0 (openpose)"));
  EXPECT_THAT(Refusal(Spec().With("union").Mode(6)), HasSubstr("are ProMax's"));
  EXPECT_THAT(Refusal(Spec().With("union").Mode(-1)),
              HasSubstr("controls[0].control_mode: must be 0 or more, is -1"));
}

// A lane keeps programs of a row without guidance beside those that it has for the others.
TEST_F(ControlsTest, NeedMemoryForTheStepsWithoutGuidanceToo) {
  const auto bytes = [](const Controlled& asked) {
    const auto with = rig_->Resolve(asked.With("edges")).value();
    return with->state_bytes - rig_->Resolve(asked).value()->state_bytes;
  };
  Controlled one = Spec(), stops = Spec(), partly = Spec(), throughout = Spec();
  one.guidance_scale = 1;
  stops.guidance_stop = GuidanceStop::kAuto;
  partly.guidance_interval = GuidanceInterval{0, 0.5};
  throughout.guidance_interval = GuidanceInterval{0, 1};
  const int64_t guided = bytes(Spec()), of_row = guided - bytes(one);
  EXPECT_GT(of_row, 0);
  EXPECT_EQ(bytes(stops), guided + of_row);
  EXPECT_EQ(bytes(partly), guided + of_row);
  EXPECT_EQ(bytes(throughout), guided);
}

TEST_F(ControlsTest, HoldNoMoreThanIsCounted) {
  for (Controlled partly : {Spec().With("edges"), Spec().With("union").Mode(2)}) {
    partly.num_inference_steps = 4;
    partly.guidance_interval = GuidanceInterval{0, 0.5};
    const auto picture = Begin(partly);
    for (int step = 0; step < 3; ++step) Step({picture.get()});
    ASSERT_EQ(picture->next_rows(), 1);
    EXPECT_LE(picture->place->lane()->controls().bytes(), ControlBytes(picture->plan()));
  }
}

TEST_F(ControlsTest, OfAUnionCountTheTypeOfTheirMap) {
  const auto edges = rig_->Resolve(Spec().With("edges")).value();
  const auto of_union = rig_->Resolve(Spec().With("union").Mode(2)).value();
  const int64_t type =
      int64_t{sizeof(float)} * rig_->pipeline->first().configs().unet.time_embedding_dim;
  EXPECT_GE(ControlBytes(*of_union), ControlBytes(*edges) + edges->rows * type);
}

TEST_F(ControlsTest, AreRefusedByField) {
  EXPECT_THAT(Refusal(Spec().With("edgs")),
              HasSubstr("controls[0].name: there is no adapter edgs"));
  EXPECT_THAT(Refusal(Spec().With("edgs")), HasSubstr("the nearest is edges"));
  EXPECT_THAT(Refusal(Spec().With("edges", 11)), HasSubstr("controls[0].scale: must be -10 to 10"));
  EXPECT_THAT(Refusal(Spec().With("edges", 1, 0.5, 0.5)),
              HasSubstr("controls[0].start: must be 0 <= start < end <= 1"));
  Asked without = Spec().With("edges").With("depth");
  without.inputs.control_images.pop_back();
  EXPECT_THAT(Refusal(without), HasSubstr("controls[1].image: is what the net reads: set it"));
  without.inputs.control_images.push_back("no picture");
  EXPECT_THAT(Refusal(without), HasSubstr("controls[1].image: "));
  Asked guessing = Spec();
  guessing.guess_mode = true;
  EXPECT_THAT(Refusal(guessing), HasSubstr("guess_mode: needs controls"));
  Controlled many = Spec();
  for (int i = 0; i < 5; ++i) many = many.With("edges");
  EXPECT_THAT(Refusal(many), HasSubstr("controls: must be at most 4, are 5"));
  Asked as_lora = Spec();
  as_lora.adapters = {{.name = "edges"}};
  EXPECT_THAT(Refusal(as_lora),
              HasSubstr("adapters[0].name: edges is no LoRA but of the kind ControlNet"));
}

TEST(ControlNetFiles, AreServedOrSayWhyNot) {
  const ControlNetFolder folder;
  folder.Add("edges", 1, 0.3f);
  nlohmann::json other = ControlNetFolder::Config();
  other["cross_attention_dim"] = 96;
  folder.Add("wider", 2, 0.3f, other);
  nlohmann::json pooled = ControlNetFolder::Config();
  folder.Add("pooled", 2, 0.3f, pooled);
  pooled["global_pool_conditions"] = true;
  testing::WriteFile(folder.path() + "/pooled/config.json", pooled.dump());
  testing::WriteSafetensors(folder.path() + "/promax.safetensors",
                            ControlNetFolder::Tensors(ControlNetFolder::UnionConfig(8), 5, 0.3f));
  testing::WriteSafetensors(folder.path() + "/alone.safetensors",
                            ControlNetFolder::Tensors(ControlNetFolder::Config(), 4, 0.3f));
  adapters::Catalogue catalogue(adapters::FolderOnDisk(folder.path()));
  const Rig rig({.base = testing::kDemoBase, .adapters = &catalogue});
  const auto problem = [&](const std::string& name) {
    return std::string(catalogue.Find(name).status().message());
  };
  EXPECT_OK(catalogue.Find("edges"));
  EXPECT_OK(catalogue.Find("alone"));
  EXPECT_EQ(catalogue.Find("edges")->kind, AdapterKind::kControlNet);
  EXPECT_OK(catalogue.Find("promax"));
  EXPECT_EQ(catalogue.Find("promax")->control_modes, 8);
  EXPECT_THAT(catalogue.Find("edges")->models, ElementsAre("base"));
  EXPECT_THAT(problem("wider"),
              HasSubstr("is a ControlNet for another model: it reads text of 96"));
  EXPECT_THAT(problem("pooled"), HasSubstr("global_pool_conditions"));
  const Asked plain = SmallSpec();
  for (const Controlled& asked :
       {Controlled(SmallSpec()).With("alone"), Controlled(SmallSpec()).With("promax").Mode(7)}) {
    EXPECT_GT(Distance(rig.Latents(asked), rig.Latents(plain)), kDiffers);
  }
}

}  // namespace
}  // namespace latentd::pipeline
