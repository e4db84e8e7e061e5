#include "core/pipeline/graphs/component_classes.h"

#include <iterator>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/weights/other_checkpoint.h"

namespace latentd::pipeline {
namespace {

using weights::Checkpoint;
using weights::Component;

constexpr absl::string_view kTextToImage = "StableDiffusionXLPipeline";
constexpr absl::string_view kImageToImage = "StableDiffusionXLImg2ImgPipeline";
constexpr absl::string_view kInpainting = "StableDiffusionXLInpaintPipeline";

// A pipeline of diffusers that has SDXL's components, and draws with them as SDXL does but for what
// it adds.
struct PipelineClass {
  absl::string_view name;
  bool starts_from_image;
  absl::string_view adds;  // empty: nothing
};
constexpr absl::string_view kGuidance = "perturbed-attention guidance";
constexpr absl::string_view kControl = "its ControlNet";
constexpr absl::string_view kBoth = "its ControlNet and perturbed-attention guidance";
constexpr PipelineClass kPipelines[] = {
    {kTextToImage, false, ""},
    {kImageToImage, true, ""},
    {kInpainting, true, ""},
    {"StableDiffusionXLPAGPipeline", false, kGuidance},
    {"StableDiffusionXLPAGImg2ImgPipeline", true, kGuidance},
    {"StableDiffusionXLPAGInpaintPipeline", true, kGuidance},
    {"StableDiffusionXLControlNetPipeline", false, kControl},
    {"StableDiffusionXLControlNetImg2ImgPipeline", true, kControl},
    {"StableDiffusionXLControlNetInpaintPipeline", true, kControl},
    {"StableDiffusionXLControlNetUnionPipeline", false, kControl},
    {"StableDiffusionXLControlNetUnionImg2ImgPipeline", true, kControl},
    {"StableDiffusionXLControlNetUnionInpaintPipeline", true, kControl},
    {"StableDiffusionXLControlNetXSPipeline", false, kControl},
    {"StableDiffusionXLControlNetPAGPipeline", false, kBoth},
    {"StableDiffusionXLControlNetPAGImg2ImgPipeline", true, kBoth},
    {"StableDiffusionXLAdapterPipeline", false, "its T2I-Adapter"},
};

const PipelineClass* FindPipeline(absl::string_view name) {
  const auto found = absl::c_find_if(
      kPipelines, [&](const PipelineClass& pipeline) { return pipeline.name == name; });
  return found == std::end(kPipelines) ? nullptr : &*found;
}

// A component by its name in model_index.json, and what it can be.
struct Supported {
  const char* component;
  const char* library;
  std::vector<std::string> classes;
};

std::vector<Supported> SupportedComponents() {
  const std::vector<std::string> tokenizers = {"CLIPTokenizer", "CLIPTokenizerFast"};
  return {
      {"unet", "diffusers", {"UNet2DConditionModel"}},
      {"vae", "diffusers", {"AutoencoderKL", "AutoencoderTiny"}},
      {"vae_tiny", "diffusers", {"AutoencoderTiny"}},
      {"text_encoder", "transformers", {"CLIPTextModel", "CLIPTextModelWithProjection"}},
      {"text_encoder_2", "transformers", {"CLIPTextModelWithProjection"}},
      {"tokenizer", "transformers", tokenizers},
      {"tokenizer_2", "transformers", tokenizers},
  };
}

template <typename... Parts>
absl::Status Refuse(const Checkpoint& checkpoint, const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat(checkpoint.path(), "/model_index.json: ", parts...));
}

absl::Status CheckComponent(const Checkpoint& checkpoint, const Supported& supported) {
  const auto found = checkpoint.components().find(supported.component);
  if (found == checkpoint.components().end()) return absl::OkStatus();  // an error where it is used
  const Component& component = found->second;
  if (component.library == supported.library &&
      absl::c_linear_search(supported.classes, component.class_name)) {
    return absl::OkStatus();
  }
  return Refuse(checkpoint, supported.component, " is ", Excerpt(component.class_name), " of ",
                Excerpt(component.library), "; supported: ", absl::StrJoin(supported.classes, ", "),
                " of ", supported.library);
}

// Takes any of diffusers': requests may name another.
absl::Status CheckScheduler(const Checkpoint& checkpoint) {
  const auto found = checkpoint.components().find("scheduler");
  if (found == checkpoint.components().end()) return absl::OkStatus();
  const Component& scheduler = found->second;
  if (scheduler.library == "diffusers" && absl::EndsWith(scheduler.class_name, "Scheduler")) {
    return absl::OkStatus();
  }
  return Refuse(checkpoint, "scheduler is ", Excerpt(scheduler.class_name), " of ",
                Excerpt(scheduler.library),
                "; supported: a scheduler of diffusers, such as EulerDiscreteScheduler");
}

// Names a class of pipelines that is none of ours.
std::string OtherPipeline(absl::string_view name) {
  const std::string model = weights::DescribePipelineClass(name);
  return absl::StrCat("_class_name is ", Excerpt(name), model.empty() ? "" : ": ", model);
}

absl::Status CheckBase(const Checkpoint& checkpoint) {
  const std::string& name = checkpoint.pipeline_class();
  if (checkpoint.requires_aesthetics_score()) {
    return Refuse(checkpoint, "requires_aesthetics_score is true: this is a refiner (", name,
                  "), which only draws over images; give it as the refiner, and a ", kTextToImage,
                  " as the base");
  }
  if (FindPipeline(name) != nullptr) return absl::OkStatus();
  return Refuse(checkpoint, OtherPipeline(name), "; supported for a base: ", kTextToImage, ", ",
                kImageToImage, ", ", kInpainting, ", and those of PAG, ControlNet and T2I-Adapter");
}

absl::Status CheckRefiner(const Checkpoint& checkpoint) {
  const PipelineClass* pipeline = FindPipeline(checkpoint.pipeline_class());
  if (pipeline != nullptr && pipeline->starts_from_image) return absl::OkStatus();
  return Refuse(checkpoint, OtherPipeline(checkpoint.pipeline_class()),
                "; supported for a refiner: ", kImageToImage, ", ", kInpainting,
                ", and those of PAG and ControlNet that start from an image",
                pipeline != nullptr ? " (this is a base)" : "");
}

}  // namespace

absl::Status CheckClasses(const ModelRow& model, const Checkpoint& checkpoint) {
  if (checkpoint.pipeline_class().empty()) {
    return Refuse(checkpoint, "_class_name is missing; supported: ", kTextToImage, " for a base, ",
                  kImageToImage, " for a refiner");
  }
  RETURN_IF_ERROR(model.is_refiner ? CheckRefiner(checkpoint) : CheckBase(checkpoint));
  for (const Supported& supported : SupportedComponents()) {
    RETURN_IF_ERROR(CheckComponent(checkpoint, supported));
  }
  return CheckScheduler(checkpoint);
}

std::vector<std::string> FindLeftOut(const Checkpoint& checkpoint) {
  constexpr size_t kMostNamed = 12;
  const std::string file = absl::StrCat(checkpoint.path(), "/model_index.json");
  std::vector<std::string> found;
  const PipelineClass* pipeline = FindPipeline(checkpoint.pipeline_class());
  if (pipeline != nullptr && !pipeline->adds.empty()) {
    found.push_back(absl::StrCat(file, ": _class_name is ", pipeline->name,
                                 "; pictures are drawn as by ", kTextToImage, ", without ",
                                 pipeline->adds));
  }
  if (!checkpoint.passed_over().empty()) {
    found.push_back(absl::StrCat(
        file, ": not known, and ignored: ", ListSome(checkpoint.passed_over(), kMostNamed)));
  }
  return found;
}

}  // namespace latentd::pipeline
