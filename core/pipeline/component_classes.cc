#include "core/pipeline/component_classes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/schedulers/config.h"

namespace latentd::pipeline {
namespace {

using weights::Checkpoint;
using weights::Component;

constexpr absl::string_view kTextToImage = "StableDiffusionXLPipeline";
constexpr absl::string_view kImageToImage = "StableDiffusionXLImg2ImgPipeline";
constexpr absl::string_view kInpainting = "StableDiffusionXLInpaintPipeline";

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
      {"scheduler", "diffusers", schedulers::SupportedSchedulerClasses()},
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
  if (found == checkpoint.components().end()) return absl::OkStatus();  // whoever needs it says so
  const Component& component = found->second;
  if (component.library == supported.library &&
      absl::c_linear_search(supported.classes, component.class_name)) {
    return absl::OkStatus();
  }
  return Refuse(checkpoint, supported.component, " is ", Excerpt(component.class_name), " of ",
                Excerpt(component.library), "; supported: ", absl::StrJoin(supported.classes, ", "),
                " of ", supported.library);
}

absl::Status CheckBase(const Checkpoint& checkpoint) {
  const std::string& name = checkpoint.pipeline_class();
  if (checkpoint.requires_aesthetics_score()) {
    return Refuse(checkpoint, "requires_aesthetics_score is true: this is a refiner (", name,
                  "), which only draws over images; give it as the refiner, and a ", kTextToImage,
                  " as the base");
  }
  if (name == kTextToImage || name == kImageToImage || name == kInpainting) {
    return absl::OkStatus();
  }
  return Refuse(checkpoint, "_class_name is ", Excerpt(name),
                "; supported for a base: ", kTextToImage, ", ", kImageToImage, ", ", kInpainting);
}

absl::Status CheckRefiner(const Checkpoint& checkpoint) {
  if (checkpoint.pipeline_class() == kImageToImage) return absl::OkStatus();
  return Refuse(checkpoint, "_class_name is ", Excerpt(checkpoint.pipeline_class()),
                "; supported for a refiner: ", kImageToImage,
                checkpoint.pipeline_class() == kTextToImage ? " (this is a base)" : "");
}

}  // namespace

absl::Status CheckClasses(Model which, const Checkpoint& checkpoint) {
  if (checkpoint.pipeline_class().empty()) {
    return Refuse(checkpoint, "_class_name is missing; supported: ", kTextToImage, " for a base, ",
                  kImageToImage, " for a refiner");
  }
  RETURN_IF_ERROR(which == Model::kBase ? CheckBase(checkpoint) : CheckRefiner(checkpoint));
  for (const Supported& supported : SupportedComponents()) {
    RETURN_IF_ERROR(CheckComponent(checkpoint, supported));
  }
  return absl::OkStatus();
}

}  // namespace latentd::pipeline
