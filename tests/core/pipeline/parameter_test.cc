// Every field of a request: changing it changes the picture, or there is a reason why it must not;
// and in shapes that are compiled it compiles nothing.
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/image/encode.h"
#include "core/noise/noise_generator.h"
#include "core/pipeline/plan/embeds.h"
#include "core/pipeline/plan/latents_file.h"
#include "core/pipeline/spec/fields.h"
#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {
namespace {

bool Differ(const std::optional<HostTensor>& a, const std::optional<HostTensor>& b) {
  return (a ? a->data : "") != (b ? b->data : "");
}

// Members of a spec that no field of the API sets by itself.
std::vector<std::pair<std::string, bool>> OthersThatDiffer(const Asked& a, const Asked& b) {
  return {
      {"executed_size", a.executed_size != b.executed_size},
      {"image", a.inputs.image != b.inputs.image},
      {"mask_image", a.inputs.mask_image != b.inputs.mask_image},
      {"latents", a.inputs.latents != b.inputs.latents},
      {"prompt_embeds", Differ(a.inputs.prompt.states, b.inputs.prompt.states)},
      {"pooled_prompt_embeds", Differ(a.inputs.prompt.pooled, b.inputs.prompt.pooled)},
      {"negative_prompt_embeds", Differ(a.inputs.negative.states, b.inputs.negative.states)},
      {"negative_pooled_prompt_embeds", Differ(a.inputs.negative.pooled, b.inputs.negative.pooled)},
      {"takes_previews", a.takes_previews != b.takes_previews},
      {"output_latents", a.output_latents != b.output_latents},
      {"scheduler.config", a.scheduler.config != b.scheduler.config}};
}

bool Differs(const Field& field, const PictureSpec& a, const PictureSpec& b) {
  return VisitField(field, a, [&]<typename T>(const T& ours) {
    return VisitField(field, b, [&]<typename U>(const U& theirs) {
      if constexpr (std::is_same_v<T, U>) return ours != theirs;
      return true;
    });
  });
}

// The fields in which two specs differ.
std::vector<std::string> Differences(const Asked& a, const Asked& b) {
  std::vector<std::string> names;
  for (const Field& field : Fields()) {
    if (Differs(field, a, b)) names.emplace_back(field.name);
  }
  for (const auto& [name, differs] : OthersThatDiffer(a, b)) {
    if (differs) names.push_back(name);
  }
  return names;
}

std::set<std::string> AllNames() {
  std::set<std::string> names;
  for (const Field& field : Fields()) names.emplace(field.name);
  for (const auto& [name, differs] : OthersThatDiffer({}, {})) names.insert(name);
  names.erase("adapters");  // they need a folder: engine/adapter_sets_test.cc
  names.erase("controls");  // likewise: controls_test.cc
  names.erase("guess_mode");
  names.erase("ip_adapters");  // likewise: image_prompts_test.cc
  return names;
}

// A picture to read, of a plain gradient.
std::string InitImage(uint8_t blue) {
  image::Image image{64, 64, {}};
  for (int y = 0; y < 64; ++y) {
    for (int x = 0; x < 64; ++x) {
      image.rgb.insert(image.rgb.end(),
                       {static_cast<uint8_t>(4 * x), static_cast<uint8_t>(4 * y), blue});
    }
  }
  return image::Encode(image, {}).value();
}

// The noise that another seed would draw.
std::string NoiseFile(uint64_t seed) {
  return LatentsFile(noise::NoiseGenerator(seed).Normal({1, 4, 8, 8}), {8, 8});
}

Asked InSteps(int steps) {
  Asked spec;
  spec.prompt = "a red circle on a blue background";
  spec.width = 64;
  spec.height = 64;
  spec.num_inference_steps = steps;
  spec.seed = 3;
  return spec;
}

Asked Plain() { return InSteps(2); }

// A tensor of one number.
HostTensor Filled(std::vector<int64_t> shape, float value) {
  HostTensor tensor = {HostTensor::Type::kFloat32, std::move(shape), ""};
  for (int64_t i = ElementsOf(tensor); i > 0; --i) {
    tensor.data.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return tensor;
}

// Embeddings of the widths of the demo's base.
HostTensor States(float value) { return Filled({77, 160}, value); }
HostTensor Pooled(float value) { return Filled({96}, value); }

using Edit = std::function<void(Asked&)>;

Asked After(Asked spec, const Edit& edit) {
  edit(spec);
  return spec;
}

Asked WithScheduler(const std::string& name) {
  return After(Plain(), [&](Asked& s) { s.scheduler.name = name; });
}

Asked WithNegativeSizes() {
  return After(Plain(), [](Asked& s) {
    s.negative_original_size = Size{64, 64};
    s.negative_target_size = Size{64, 64};
  });
}

Asked WithImage() {
  return After(Plain(), [](Asked& s) {
    s.inputs.image = InitImage(200);
    s.num_inference_steps = 4;
  });
}

// Grey all over.
std::string Mask(uint8_t grey) {
  return image::Encode({8, 8, std::vector<uint8_t>(size_t{8} * 8 * 3, grey)}, {}).value();
}

Asked WithMask(uint8_t grey) {
  return After(WithImage(), [&](Asked& s) { s.inputs.mask_image = Mask(grey); });
}

// White in its upper left quarter: a half of 8 pixels, in the image's size.
std::string Quarter() {
  image::Image mask{64, 64, std::vector<uint8_t>(size_t{3} * 64 * 64)};
  for (int y = 0; y < 20; ++y) {
    for (int i = 0; i < 3 * 20; ++i) mask.rgb[3 * 64 * y + i] = 255;
  }
  return image::Encode(mask, {}).value();
}

Asked WithQuarter() {
  return After(WithImage(), [&](Asked& s) { s.inputs.mask_image = Quarter(); });
}

Asked ByRefiner() {
  return After(WithImage(), [](Asked& s) { s.model = "refiner"; });
}

Asked WithTimesteps() {
  return After(Plain(), [](Asked& s) {
    s.num_inference_steps.reset();
    s.timesteps = {900, 300};
  });
}

Asked WithSigmas() {
  return After(Plain(), [](Asked& s) {
    s.num_inference_steps.reset();
    s.sigmas = {10, 1};
  });
}

Asked WithSeeds() {
  return After(Plain(), [](Asked& s) {
    s.seed.reset();
    s.seeds = {3};
  });
}

Asked WithBrackets() {
  return After(Plain(), [](Asked& s) { s.prompt = "a (red:1.5) circle on a blue background"; });
}

Asked FromTheMiddle() {
  return After(WithImage(), [](Asked& s) { s.denoising_start = 0.5; });
}

struct Row {
  std::string field;
  Asked before;
  Edit edit;
  const char* why_not = nullptr;  // the picture must stay as it is
};

std::vector<Row> PromptRows() {
  return {
      {"model", WithImage(), [](Asked& s) { s.model = "refiner"; }},
      {"prompt", Plain(), [](Asked& s) { s.prompt = "a blue ring"; }},
      {"prompt_2", Plain(), [](Asked& s) { s.prompt_2 = "a blue ring"; }},
      {"negative_prompt", Plain(), [](Asked& s) { s.negative_prompt = "a star"; }},
      {"negative_prompt_2", After(Plain(), [](Asked& s) { s.negative_prompt = ""; }),
       [](Asked& s) { s.negative_prompt_2 = "a star"; }},
  };
}

std::vector<Row> SizeRows() {
  return {
      {"width", Plain(), [](Asked& s) { s.width = 72; }},
      {"height", Plain(), [](Asked& s) { s.height = 72; }},
      {"bucket_policy", Plain(), [](Asked& s) { s.bucket_policy = BucketPolicy::kSnap; },
       "it says how an executed_size is found, and has no effect where that is "
       "done"},
      {"batch_invariant", Plain(), [](Asked& s) { s.batch_invariant = true; },
       "it says what a picture shares its steps with, and must not show in it"},
      {"previews.every_n_steps", Plain(), [](PictureSpec& s) { s.previews_every = 1; },
       "what a picture looks like on the way must not show in it"},
      {"takes_previews", Plain(), [](Asked& s) { s.takes_previews = false; }, "there are none"},
      {"executed_size", Plain(),
       [](Asked& s) {
         s.executed_size = Size{72, 72};
       }},
  };
}

std::vector<Row> DenoisingRows() {
  return {
      {"num_inference_steps", Plain(), [](Asked& s) { s.num_inference_steps = 3; }},
      {"guidance_scale", Plain(), [](Asked& s) { s.guidance_scale = 9; }},
      {"guidance_scale", Plain(), [](Asked& s) { s.guidance_scale = 1; }},
      {"guidance_rescale", Plain(), [](Asked& s) { s.guidance_rescale = 0.7; }},
      {"guidance_interval", Plain(),
       [](Asked& s) {
         s.guidance_interval = GuidanceInterval{0, 0.5};
       }},
      {"guidance_stop",
       After(Plain(),
             [](Asked& s) {
               s.guidance_scale = 1.1;
               s.num_inference_steps = 5;
             }),
       [](Asked& s) { s.guidance_stop = GuidanceStop::kAuto; }},
      {"effort", InSteps(6), [](Asked& s) { s.effort = Effort::kFast; }},
      {"feature_cache_interval", InSteps(6), [](Asked& s) { s.feature_cache_interval = 2; }},
      {"eta", WithScheduler("ddim"), [](Asked& s) { s.eta = 0.7; }},
      {"clip_skip", Plain(), [](Asked& s) { s.clip_skip = 1; }},
      {"clip_skip_a1111", Plain(), [](Asked& s) { s.clip_skip_a1111 = 3; }},
      {"prompt_syntax", WithBrackets(),
       [](Asked& s) { s.prompt_syntax = prompts::Syntax::kA1111; }},
      {"long_prompt",
       After(Plain(),
             [](Asked& s) {
               for (int i = 0; i < 80; ++i) s.prompt += " star";
             }),
       [](Asked& s) { s.long_prompt = prompts::LongPrompt::kChunk; }},
      {"timesteps", WithTimesteps(),
       [](Asked& s) {
         s.timesteps = {950, 400};
       }},
      {"sigmas", WithSigmas(),
       [](Asked& s) {
         s.sigmas = {12, 2};
       }},
      {"seed", Plain(), [](Asked& s) { s.seed = 5; }},
      {"seeds", WithSeeds(), [](Asked& s) { s.seeds = {5}; }},
      {"num_images_per_prompt", Plain(), [](Asked& s) { s.num_images_per_prompt = 2; }},
  };
}

std::vector<Row> ConditioningRows() {
  return {
      {"original_size", Plain(),
       [](Asked& s) {
         s.original_size = Size{512, 512};
       }},
      {"target_size", Plain(),
       [](Asked& s) {
         s.target_size = Size{512, 512};
       }},
      {"crops_coords_top_left", Plain(),
       [](Asked& s) {
         s.crops_coords_top_left = Offset{128, 0};
       }},
      {"negative_original_size", WithNegativeSizes(),
       [](Asked& s) {
         s.negative_original_size = Size{512, 512};
       }},
      {"negative_target_size", WithNegativeSizes(),
       [](Asked& s) {
         s.negative_target_size = Size{512, 512};
       }},
      {"negative_crops_coords_top_left", WithNegativeSizes(),
       [](Asked& s) {
         s.negative_crops_coords_top_left = Offset{128, 0};
       }},
      {"aesthetic_score", ByRefiner(), [](Asked& s) { s.aesthetic_score = 1; }},
      {"aesthetic_score", Plain(), [](Asked& s) { s.aesthetic_score = 1; },
       "the base was not trained with scores, as its model_index.json says"},
      {"negative_aesthetic_score", ByRefiner(), [](Asked& s) { s.negative_aesthetic_score = 9; }},
  };
}

Asked WithEmbeds() {
  Asked spec = Plain();
  spec.prompt.clear();
  spec.inputs.prompt = {States(0.5), Pooled(0.5)};
  spec.inputs.negative = {States(0), Pooled(0)};
  return spec;
}

std::vector<Row> EmbedsRows() {
  return {
      {"prompt_embeds", WithEmbeds(), [](Asked& s) { s.inputs.prompt.states = States(-1); }},
      {"pooled_prompt_embeds", WithEmbeds(), [](Asked& s) { s.inputs.prompt.pooled = Pooled(-1); }},
      {"negative_prompt_embeds", WithEmbeds(),
       [](Asked& s) { s.inputs.negative.states = States(-1); }},
      {"negative_pooled_prompt_embeds", WithEmbeds(),
       [](Asked& s) { s.inputs.negative.pooled = Pooled(-1); }},
  };
}

std::vector<Row> StageRows() {
  return {
      {"refine", After(Plain(), [](Asked& s) { s.denoising_end = 0.5; }),
       [](Asked& s) { s.refine = true; }},
      {"denoising_end", Plain(), [](Asked& s) { s.denoising_end = 0.5; }},
      {"denoising_start", FromTheMiddle(), [](Asked& s) { s.denoising_start = 0.2; }},
      {"image", WithImage(), [](Asked& s) { s.inputs.image = InitImage(0); }},
      {"mask_image", WithMask(0), [](Asked& s) { s.inputs.mask_image = Mask(255); }},
      {"strength", WithImage(), [](Asked& s) { s.strength = 0.8; }},
      {"mask_blur", WithQuarter(), [](Asked& s) { s.mask_blur = 30; }},
      {"padding_mask_crop", WithQuarter(), [](Asked& s) { s.padding_mask_crop = 8; }},
      {"preserve_unmasked", WithQuarter(), [](Asked& s) { s.preserve_unmasked = true; },
       "it says what is laid over the pixels once they are drawn: inpainting_test.cc"},
      {"differential", WithMask(160), [](Asked& s) { s.differential = true; }},
      {"latents", Plain(), [](Asked& s) { s.inputs.latents = NoiseFile(9); }},
      {"output_latents", Plain(), [](Asked& s) { s.output_latents = true; }},
  };
}

std::vector<Row> SchedulerRows() {
  return {
      {"scheduler", Plain(), [](PictureSpec& s) { s.scheduler.name = "dpmpp_2m"; }},
      {"timestep_spacing", Plain(),
       [](PictureSpec& s) { s.scheduler.timestep_spacing = "trailing"; }},
      {"prediction_type", Plain(),
       [](PictureSpec& s) { s.scheduler.prediction_type = "v_prediction"; }},
      {"algorithm_type", WithScheduler("dpmpp_2m"),
       [](PictureSpec& s) { s.scheduler.algorithm_type = "sde-dpmsolver++"; }},
      // The first sigma and the last are the same in either schedule.
      {"use_karras_sigmas", InSteps(3),
       [](PictureSpec& s) { s.scheduler.use_karras_sigmas = true; }},
      {"rescale_betas_zero_snr", WithScheduler("ddim"),
       [](PictureSpec& s) { s.scheduler.rescale_betas_zero_snr = true; }},
      {"scheduler.config", Plain(),
       [](PictureSpec& s) { s.scheduler.config = R"({"beta_end": 0.02})"; }},
  };
}

// One row of each field, or several where it acts in several ways.
std::vector<Row> Rows() {
  std::vector<Row> all;
  for (const auto& rows : {PromptRows(), SizeRows(), DenoisingRows(), ConditioningRows(),
                           EmbedsRows(), StageRows(), SchedulerRows()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

class ParameterTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    LoadOptions options = Demo();
    options.prompt_chunks = 2;
    options.feature_cache = true;
    rig_ = new Rig(options);
    // As a server readies its buckets.
    for (const Size bucket : {Size{64, 64}, Size{72, 64}, Size{64, 72}, Size{72, 72}}) {
      for (const int rows : {1, 2}) {
        const auto graphs = rig_->pipeline->GraphsOf({}, bucket, rows).value();
        for (const GraphHandle& graph : graphs) {
          ASSERT_OK(rig_->graphs.Get(graph, {.reason = compiler::Reason::kStartup}));
          rig_->kept.push_back(graph);
        }
      }
    }
  }
  static void TearDownTestSuite() { delete rig_; }

  static std::vector<image::Image> Draw(const Asked& spec) {
    std::vector<image::Image> images;
    auto pictures = rig_->Begin(spec);
    EXPECT_OK(pictures);
    if (!pictures.ok()) return {};
    for (const auto& picture : *pictures) {
      EXPECT_OK(rig_->Run(*picture));
      images.push_back(picture->pixels);
    }
    return images;
  }

  static inline Rig* rig_ = nullptr;
};

TEST_F(ParameterTest, CoversEveryField) {
  std::set<std::string> covered;
  for (const Row& row : Rows()) {
    EXPECT_THAT(Differences(row.before, After(row.before, row.edit)),
                ::testing::ElementsAre(row.field));
    covered.insert(row.field);
  }
  EXPECT_EQ(covered, AllNames());
}

TEST_F(ParameterTest, ADenoisingEndOf1CutsNothing) {
  Asked spec = SmallSpec();
  spec.denoising_end = 1;
  EXPECT_EQ(Draw(spec), Draw(SmallSpec()));
}

TEST_F(ParameterTest, ChangesThePictureAndCompilesNothing) {
  const int64_t compilations = rig_->compilations();
  std::vector<image::Image> before;
  std::optional<Asked> drawn;  // shown by `before`: rows beside each other have it in common
  for (const Row& row : Rows()) {
    SCOPED_TRACE(row.field);
    if (!drawn || !Differences(*drawn, row.before).empty()) before = Draw(row.before);
    drawn = row.before;
    const std::vector<image::Image> after = Draw(After(row.before, row.edit));
    ASSERT_FALSE(before.empty());
    EXPECT_EQ(before == after, row.why_not != nullptr);
  }
  EXPECT_EQ(rig_->compilations(), compilations);
}

}  // namespace
}  // namespace latentd::pipeline
