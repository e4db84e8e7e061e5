// Checkpoints whose classes are not those of an SDXL base or refiner: what diffusers 0.42.1 refuses
// is refused, and where it takes a class, that class draws.
#include "core/families/families.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/text/text.h"
#include "core/families/sdxl/sdxl.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/temporary_directory.h"

namespace latentd::families {
namespace {

using ::latentd::testing::IsOk;
using ::latentd::testing::kDemoBase;
using ::latentd::testing::kDemoRefiner;
using ::latentd::testing::MakeEditedCheckpoint;
using ::latentd::testing::StatusIs;
using pipeline::LoadOptions;
using pipeline::LoadPipeline;
using pipeline::PictureSpec;
using pipeline::Rig;
using pipeline::Size;
using pipeline::SmallSpec;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

absl::Status Load(const LoadOptions& options) {
  Rig rig;
  return LoadPipeline(options, rig.weights, rig.graphs).status();
}

// One field of one file of the demo's base, and what the error must name.
struct Edit {
  std::string file;
  std::string field;
  std::string value;  // JSON; empty: the field is missing
  std::string says;
  std::string would_be_right;
};

class RefusedBases : public ::testing::TestWithParam<Edit> {};

TEST_P(RefusedBases, AreRefusedByFileAndField) {
  const Edit& edit = GetParam();
  const testing::TemporaryDirectory directory;
  MakeEditedCheckpoint(directory.File("base"), kDemoBase, edit.file, edit.field, edit.value);
  EXPECT_THAT(Load({.base = directory.File("base")}),
              StatusIs(kInvalid,
                       AllOf(HasSubstr(directory.File("base/" + edit.file)), HasSubstr(edit.field),
                             HasSubstr(edit.says), HasSubstr(edit.would_be_right))));
}

constexpr char kIndex[] = "model_index.json";
const Edit kEdits[] = {
    {kIndex, "_class_name", R"("FluxPipeline")", "is FluxPipeline: a checkpoint of Flux, which",
     "StableDiffusionXLPipeline"},
    {kIndex, "_class_name", R"("StableDiffusion3Pipeline")", "a checkpoint of Stable Diffusion 3,",
     "StableDiffusionXLPipeline"},
    {kIndex, "_class_name", R"("StableDiffusionPipeline")",
     "is StableDiffusionPipeline, which has a text_encoder", "CLIPTextModel"},
    {kIndex, "_class_name", R"("StableDiffusionUpscalePipeline")",
     "is StableDiffusionUpscalePipeline; supported", "StableDiffusionPipeline"},
    {kIndex, "_class_name", R"("StableDiffusionXLInstructPix2PixPipeline")",
     "is StableDiffusionXLInstructPix2PixPipeline; supported", "StableDiffusionXLPipeline"},
    {kIndex, "_class_name", "", "is missing", "StableDiffusionXLPipeline"},
    {kIndex, "requires_aesthetics_score", "true", "a refiner", "StableDiffusionXLPipeline"},
    {kIndex, "unet", R"(["diffusers", "FooModel"])", "is FooModel of diffusers",
     "UNet2DConditionModel of diffusers"},
    {kIndex, "unet", R"(["transformers", "UNet2DConditionModel"])",
     "is UNet2DConditionModel of transformers", "UNet2DConditionModel of diffusers"},
    {kIndex, "vae", R"(["diffusers", "AutoencoderKLWan"])", "is AutoencoderKLWan",
     "AutoencoderKL, AutoencoderTiny of diffusers"},
    {kIndex, "text_encoder", R"(["transformers", "T5EncoderModel"])", "is T5EncoderModel",
     "CLIPTextModel"},
    {kIndex, "text_encoder", R"(["diffusers", "CLIPTextModel"])", "of diffusers",
     "of transformers"},
    {kIndex, "text_encoder_2", R"(["transformers", "CLIPTextModel"])", "is CLIPTextModel of",
     "CLIPTextModelWithProjection"},
    {kIndex, "tokenizer", R"(["transformers", "T5Tokenizer"])", "is T5Tokenizer", "CLIPTokenizer"},
    {kIndex, "tokenizer_2", R"(["transformers", "GPT2Tokenizer"])", "is GPT2Tokenizer",
     "CLIPTokenizer"},
    {kIndex, "scheduler", R"(["diffusers", "euler"])", "is euler", "EulerDiscreteScheduler"},
    {kIndex, "scheduler", R"(["foolib", "EulerDiscreteScheduler"])", "of foolib", "of diffusers"},
    {"unet/config.json", "_class_name", R"("UNet2DModel")", "UNet2DModel", "UNet2DConditionModel"},
    {"unet/config.json", "down_block_types",
     R"(["DownBlock2D", "FooBlock2D", "CrossAttnDownBlock2D"])", "FooBlock2D",
     "CrossAttnDownBlock2D"},
    {"vae/config.json", "_class_name", R"("AutoencoderTiny")", "AutoencoderTiny", "AutoencoderKL"},
    {"text_encoder/config.json", "architectures", R"(["T5EncoderModel"])", "T5EncoderModel",
     "CLIPTextModel"},
    {"text_encoder/config.json", "model_type", R"("t5")", "t5", "clip_text_model"},
};
INSTANTIATE_TEST_SUITE_P(All, RefusedBases, ::testing::ValuesIn(kEdits));

TEST(FamiliesTest, RefusesARefinerAsTheBase) {
  EXPECT_THAT(Load({.base = kDemoRefiner}),
              StatusIs(kInvalid, AllOf(HasSubstr(kDemoRefiner + "/model_index.json"),
                                       HasSubstr("StableDiffusionXLImg2ImgPipeline"),
                                       HasSubstr("give it as the refiner"))));
}

TEST(FamiliesTest, RefusesABaseAsTheRefiner) {
  EXPECT_THAT(Load({.base = kDemoBase, .refiner = kDemoBase}),
              StatusIs(kInvalid, AllOf(HasSubstr(kDemoBase + "/model_index.json"),
                                       HasSubstr("_class_name is StableDiffusionXLPipeline"),
                                       HasSubstr("for a refiner: StableDiffusionXLImg2Img"))));
}

TEST(FamiliesTest, LooksAtTheRefinersComponentsToo) {
  const testing::TemporaryDirectory directory;
  MakeEditedCheckpoint(directory.File("refiner"), kDemoRefiner, kIndex, "unet",
                       R"(["diffusers", "FooModel"])");
  EXPECT_THAT(Load({.base = kDemoBase, .refiner = directory.File("refiner")}),
              StatusIs(kInvalid, AllOf(HasSubstr(directory.File("refiner/model_index.json")),
                                       HasSubstr("unet is FooModel"))));
}

// Diffusers loads each as this pipeline; `says` is in the one warning, or there is none.
const Edit kSound[] = {
    {kIndex, "_class_name", R"("StableDiffusionXLImg2ImgPipeline")"},
    {kIndex, "_class_name", R"("StableDiffusionXLInpaintPipeline")"},
    {kIndex, "_class_name", R"("StableDiffusionXLPAGPipeline")",
     "is StableDiffusionXLPAGPipeline; pictures are drawn as by StableDiffusionXLPipeline, without "
     "perturbed-attention guidance"},
    {kIndex, "_class_name", R"("StableDiffusionXLControlNetImg2ImgPipeline")",
     "without its ControlNet"},
    {kIndex, "_class_name", R"("StableDiffusionXLAdapterPipeline")", "T2I-Adapter"},
    {kIndex, "tokenizer", R"(["transformers", "CLIPTokenizerFast"])"},
    {kIndex, "another", R"(["diffusers", "FooModel"])",
     "model_index.json: not known, and ignored: another"},
    {kIndex, "another", R"(["diffusers", null])", "another"},
    {kIndex, "another", R"([1, 2, 3])", "another"},
    {kIndex, "another", R"([null, null])"},
    {kIndex, "../another", R"(["diffusers", "FooModel"])", "../another"},
    {kIndex, "safety_checker", R"(["stable_diffusion", "StableDiffusionSafetyChecker"])",
     "safety_checker"},
    {kIndex, "safety_checker", "null"},
    {kIndex, "image_encoder", R"(["transformers", "CLIPVisionModelWithProjection"])",
     "image_encoder"},
    {kIndex, "feature_extractor", "[null, null]"},
    {kIndex, "requires_safety_checker", "true", "requires_safety_checker"},
    {kIndex, "requires_safety_checker", "false"},
    {kIndex, "force_zeros_for_empty_prompt", "null"},
    {kIndex, "requires_aesthetics_score", "null"},
    {kIndex, "add_watermarker", "true"},
    {"unet/config.json", "decay", "0.9999",
     "unet/config.json: fields that are not known, and ignored: decay"},
    {"vae/config.json", "note", R"("x")",
     "vae/config.json: fields that are not known, and ignored: note"},
    {"text_encoder/config.json", "note", R"("x")", "text_encoder/config.json: fields"},
    {"text_encoder_2/config.json", "note", R"("x")", "text_encoder_2/config.json: fields"},
    {"scheduler/scheduler_config.json", "note", R"("x")",
     "scheduler/scheduler_config.json: fields"},
    {"text_encoder/config.json", "architectures", R"(["CLIPTextModelWithProjection"])"},
    {"text_encoder/config.json", "architectures", "null"},
    {"text_encoder/config.json", "architectures", ""},
    {"unet/config.json", "_class_name", ""},
};

TEST(FamiliesTest, TakesWhatDiffusersTakes) {
  for (const Edit& edit : kSound) {
    const testing::TemporaryDirectory directory;
    MakeEditedCheckpoint(directory.File("base"), kDemoBase, edit.file, edit.field, edit.value);
    std::vector<std::string> warnings;
    const auto warn = [&](absl::string_view warning) { warnings.emplace_back(warning); };
    EXPECT_THAT(Load({.base = directory.File("base"), .warn = warn}), IsOk())
        << edit.field << edit.value;
    if (edit.says.empty()) {
      EXPECT_THAT(warnings, IsEmpty()) << edit.field << edit.value;
    } else {
      EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr(directory.File("base/" + edit.file)),
                                              HasSubstr(edit.says))))
          << edit.field << edit.value;
    }
  }
}

TEST(FamiliesTest, NullIsFalseAsInPython) {
  const testing::TemporaryDirectory directory;
  MakeEditedCheckpoint(directory.File("null"), kDemoBase, kIndex, "force_zeros_for_empty_prompt",
                       "null");
  MakeEditedCheckpoint(directory.File("false"), kDemoBase, kIndex, "force_zeros_for_empty_prompt",
                       "false");
  const Rig null({.base = directory.File("null")}), off({.base = directory.File("false")});
  EXPECT_EQ(null.Latents(SmallSpec()), off.Latents(SmallSpec()));
  EXPECT_NE(null.Latents(SmallSpec()), Rig({.base = kDemoBase}).Latents(SmallSpec()));
}

TEST(FamiliesTest, TakesARefinerOfAnotherPipelineThatStartsFromAnImage) {
  const testing::TemporaryDirectory directory;
  for (const char* name :
       {"StableDiffusionXLInpaintPipeline", "StableDiffusionXLPAGImg2ImgPipeline"}) {
    const std::string refiner = directory.File(name);
    MakeEditedCheckpoint(refiner, kDemoRefiner, kIndex, "_class_name",
                         absl::StrCat("\"", name, "\""));
    EXPECT_THAT(Load({.base = kDemoBase, .refiner = refiner}), IsOk()) << name;
  }
}

// diffusers reads scheduler_config.json into the class that model_index.json names.
TEST(FamiliesTest, DrawsWithTheSchedulerThatModelIndexNames) {
  const testing::TemporaryDirectory directory;
  MakeEditedCheckpoint(directory.File("base"), kDemoBase, kIndex, "scheduler",
                       R"(["diffusers", "DPMSolverMultistepScheduler"])");
  const Rig edited({.base = directory.File("base")});
  EXPECT_EQ(edited.pipeline->table().first().default_scheduler, "dpmpp_2m");
  PictureSpec named = SmallSpec();
  named.scheduler.name = "DPMSolverMultistepScheduler";
  const Rig demo({.base = kDemoBase});
  EXPECT_EQ(edited.Latents(SmallSpec()), demo.Latents(named));
  EXPECT_NE(edited.Latents(SmallSpec()), demo.Latents(SmallSpec()));
}

TEST(FamiliesTest, PassesOverTheClassThatTheSchedulersFileNames) {
  const Rig demo({.base = kDemoBase});
  for (const char* name : {R"("DDIMScheduler")", R"("FooScheduler")", ""}) {
    const testing::TemporaryDirectory directory;
    MakeEditedCheckpoint(directory.File("base"), kDemoBase, "scheduler/scheduler_config.json",
                         "_class_name", name);
    const Rig edited({.base = directory.File("base")});
    EXPECT_EQ(edited.pipeline->table().first().default_scheduler, "euler") << name;
    EXPECT_EQ(edited.Latents(SmallSpec()), demo.Latents(SmallSpec())) << name;
  }
}

// The nine that Stability's own API took for SDXL 1.0: five, and what four of them are when turned.
TEST(DefaultBucketsTest, AreTheSizesThatSdxlWasTrainedAt) {
  std::vector<std::string> sizes;
  for (const Size& size : DefaultBuckets(sdxl::kBase, {1024, 1024})) {
    sizes.push_back(SizeText(size));
  }
  EXPECT_EQ(sizes.front(), "1024x1024");
  EXPECT_THAT(sizes,
              UnorderedElementsAre("1024x1024", "1152x896", "896x1152", "1216x832", "832x1216",
                                   "1344x768", "768x1344", "1536x640", "640x1536"));
}

TEST(DefaultBucketsTest, FollowASmallerModel) {
  EXPECT_THAT(DefaultBuckets(sdxl::kBase, {256, 256}),
              ElementsAre(Size{256, 256}, Size{320, 192}, Size{192, 320}));
}

TEST(DefaultBucketsTest, AreMultiplesOf8) {
  for (const Size& size : DefaultBuckets(sdxl::kBase, {232, 232})) {
    EXPECT_EQ(size.width % 8, 0);
    EXPECT_EQ(size.height % 8, 0);
  }
}

}  // namespace
}  // namespace latentd::families
