#include "core/pipeline/plan/image_prompts.h"

#include <algorithm>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/image/decode.h"
#include "core/pipeline/graphs/image_prompt_graph.h"
#include "core/pipeline/graphs/ip_adapters.h"
#include "core/pipeline/plan/named_adapter.h"
#include "core/pipeline/plan/refusals.h"
#include "core/pipeline/spec/limits.h"

namespace latentd::pipeline {
namespace {

// CLIP's processor enlarges the shorter side to the encoder's, and an image's sides are bounded.
constexpr int64_t kMostImageRatio = 20;
// Sum over the images that are read: one unit decodes and resizes them all.
constexpr int64_t kMostPixelsOfRequest = 2 * int64_t{image::kMaxPixels};

absl::Status CheckImage(const std::string& field, const std::string& image) {
  ASSIGN_OR_RETURN(const image::Dimensions size,
                   ReadAdapterImage(field, image, "the image that is the prompt"));
  const auto [shorter, longer] = std::minmax(size.width, size.height);
  if (longer <= kMostImageRatio * int64_t{shorter}) return absl::OkStatus();
  return InvalidFields({{field, absl::StrCat("is ", SizeText(size), "; one side may be at most ",
                                             kMostImageRatio, " times the other")}});
}

// Checks the images of one adapter.
absl::Status CheckImages(const Inputs& inputs, size_t adapter) {
  static const auto& none = *new std::vector<std::string>(1);
  const bool has_images =
      adapter < inputs.ip_adapter_images.size() && !inputs.ip_adapter_images[adapter].empty();
  const std::vector<std::string>& images = has_images ? inputs.ip_adapter_images[adapter] : none;
  if (images.size() > kMaxImagesOfIpAdapter) {
    return InvalidFields({{absl::StrCat("ip_adapters[", adapter, "].more_images"),
                           absl::StrCat("with image must be at most ", kMaxImagesOfIpAdapter,
                                        ", are ", images.size())}});
  }
  Refusals refusals;
  for (size_t i = 0; i < images.size(); ++i) {
    refusals.Add(CheckImage(ImagePromptField(adapter, i), images[i]));
  }
  return refusals.Join();
}

// Sets what each reads. REQUIRES: ResolveImagePrompt and CheckImages are OK for all.
absl::Status CountTokens(const Inputs& inputs, std::vector<ImagePrompt>& prompts) {
  int all = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    prompts[i].images = static_cast<int>(inputs.ip_adapter_images[i].size());
    prompts[i].tokens *= prompts[i].images;
    if (*prompts[i].scale != 0) all += prompts[i].tokens;
  }
  if (all <= kMaxImageTokensOfRequest) return absl::OkStatus();
  return InvalidFields(
      {{"ip_adapters", absl::StrCat("their images become ", all, " tokens together, and at most ",
                                    kMaxImageTokensOfRequest, " are read")}});
}

// REQUIRES: as CountTokens.
absl::Status CheckPixels(const Inputs& inputs, const std::vector<ImagePrompt>& prompts) {
  int64_t pixels = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (*prompts[i].scale == 0) continue;
    for (const std::string& image : inputs.ip_adapter_images[i]) {
      ASSIGN_OR_RETURN(const image::Dimensions size, image::ReadDimensions(image));
      pixels += int64_t{size.width} * size.height;
    }
  }
  if (pixels <= kMostPixelsOfRequest) return absl::OkStatus();
  return InvalidFields(
      {{"ip_adapters", absl::StrCat("their images have ", pixels, " pixels together, and at most ",
                                    kMostPixelsOfRequest, " are read")}});
}

absl::Status ResolveImagePrompt(adapters::Catalogue* catalogue, const LoadedModel& model,
                                const std::string& field, ImagePrompt& prompt,
                                std::vector<std::string>& warnings) {
  const absl::StatusOr<AdapterFacts> facts =
      FindAdapter(catalogue, model, AdapterKind::kIpAdapter, field, prompt.name);
  RETURN_IF_ERROR(facts.status());
  prompt.stamp = facts->stamp;
  prompt.digest = facts->digest;
  prompt.tokens = facts->image_tokens;
  prompt.image_bytes = facts->image_bytes;
  prompt.scale = prompt.scale.value_or(1);
  for (const std::string& warning : facts->warnings) {
    warnings.push_back(absl::StrCat("IP-Adapter ", prompt.name, ": ", warning));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ResolveImagePrompts(adapters::Catalogue* catalogue, const LoadedModel& model,
                                 const Inputs& inputs, PictureSpec& spec,
                                 std::vector<std::string>& warnings) {
  Refusals refusals;
  for (size_t i = 0; i < spec.ip_adapters.size(); ++i) {
    const std::string field = absl::StrCat("ip_adapters[", i, "]");
    for (const absl::Status& status :
         {ResolveImagePrompt(catalogue, model, field, spec.ip_adapters[i], warnings),
          CheckImages(inputs, i)}) {
      refusals.Add(status);
    }
  }
  if (spec.refine && !spec.ip_adapters.empty()) {
    warnings.emplace_back("ip_adapters have no effect on the refiner: they are for the base alone");
  }
  RETURN_IF_ERROR(refusals.Join());
  RETURN_IF_ERROR(CountTokens(inputs, spec.ip_adapters));
  return CheckPixels(inputs, spec.ip_adapters);
}

std::string ImagePromptField(size_t adapter, size_t image) {
  const std::string own = absl::StrCat("ip_adapters[", adapter, "].");
  return image == 0 ? own + "image" : absl::StrCat(own, "more_images[", image - 1, "]");
}

std::vector<PlannedImagePrompt> PlanImagePrompts(const PictureSpec& spec, const Inputs& inputs) {
  std::vector<PlannedImagePrompt> planned;
  for (size_t i = 0; i < spec.ip_adapters.size(); ++i) {
    const ImagePrompt& prompt = spec.ip_adapters[i];
    if (*prompt.scale == 0) continue;
    planned.push_back({.id = IpAdapters::IdOf(prompt),
                       .index = i,
                       .images = prompt.images,
                       .tokens = prompt.tokens});
  }
  absl::c_stable_sort(planned, [&](const PlannedImagePrompt& a, const PlannedImagePrompt& b) {
    const ImagePrompt &of_a = spec.ip_adapters[a.index], &of_b = spec.ip_adapters[b.index];
    return std::tie(a.tokens, of_a.name, *of_a.scale, inputs.ip_adapter_images[a.index]) <
           std::tie(b.tokens, of_b.name, *of_b.scale, inputs.ip_adapter_images[b.index]);
  });
  return planned;
}

std::vector<ImagePrompt> ImagePromptsFor(const adapters::Catalogue& catalogue,
                                         const LoadedModel& model) {
  std::vector<ImagePrompt> prompts;
  for (const AdapterFacts& facts : catalogue.List()) {
    if (!facts.is_served()) continue;
    if (!WhyNoAdapter(model, AdapterKind::kIpAdapter, facts).empty()) continue;
    prompts.push_back({.name = facts.name,
                       .stamp = facts.stamp,
                       .digest = facts.digest,
                       .images = 1,
                       .tokens = facts.image_tokens});
  }
  return prompts;
}

std::vector<PlannedGraph> GraphsOfIpAdapter(ModelId model, uint64_t net, int images) {
  return {{model, {.kind = GraphKind::kImageEncoder}, net},
          {model, {.kind = GraphKind::kImagePrompt, .shape = {.rows = images}}, net}};
}

void AddImagePromptGraphs(Plan& plan) {
  const ModelId model = plan.stages.front().model->row().id;
  for (const PlannedImagePrompt& prompt : plan.image_prompts) {
    for (const PlannedGraph& graph : GraphsOfIpAdapter(model, prompt.id, prompt.images)) {
      if (!absl::c_linear_search(plan.graphs, graph)) plan.graphs.push_back(graph);
    }
  }
}

int64_t ImagePromptRowBytes(const Plan& plan) {
  if (plan.image_prompts.empty()) return 0;
  const LoadedModel& model = *plan.stages.front().model;
  int64_t bytes = 0;
  for (const RowPort& port : ImagePromptPorts(model.configs().unet, plan.image_tokens(),
                                              model.graphs().residual_dtype())) {
    bytes += port.row_bytes();
  }
  return bytes;
}

// The request's own rows, which lanes copy, and all that one unit enqueues for these.
int64_t ImagePromptBytes(const Plan& plan) {
  int64_t bytes = ImagePromptRowBytes(plan);
  for (const PlannedImagePrompt& prompt : plan.image_prompts) {
    bytes += prompt.images * plan.spec.ip_adapters[prompt.index].image_bytes;
  }
  return plan.rows * bytes;
}

}  // namespace latentd::pipeline
