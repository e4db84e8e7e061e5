#include "core/pipeline/plan/image_prompts.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/image/decode.h"
#include "core/networks/cross_attentions.h"
#include "core/pipeline/graphs/image_prompt_graph.h"
#include "core/pipeline/graphs/ip_adapters.h"
#include "core/pipeline/plan/block_scales.h"
#include "core/pipeline/plan/embeds.h"
#include "core/pipeline/plan/image_embeds.h"
#include "core/pipeline/plan/named_adapter.h"
#include "core/pipeline/plan/refusals.h"
#include "core/pipeline/spec/request/limits.h"

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

const std::vector<std::string>& ImagesOf(const Inputs& inputs, size_t adapter) {
  static const auto& none = *new std::vector<std::string>();
  return adapter < inputs.ip_adapter_images.size() ? inputs.ip_adapter_images[adapter] : none;
}

// Checks the images of one adapter, and counts them.
absl::Status CheckImages(const Inputs& inputs, size_t adapter, ImagePrompt& prompt) {
  static const auto& missing = *new std::vector<std::string>(1);
  const bool has_images = !ImagesOf(inputs, adapter).empty();
  const std::vector<std::string>& images = has_images ? ImagesOf(inputs, adapter) : missing;
  prompt.images = static_cast<int>(images.size());
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

// Checks the embeddings in place of these, likewise.
absl::Status CheckEmbedsOfImages(const Inputs& inputs, size_t adapter, bool guided,
                                 ImagePrompt& prompt, std::vector<std::string>& warnings) {
  const std::string field = absl::StrCat("ip_adapters[", adapter, "].image_embeds");
  prompt.reads_embeds = true;
  if (!ImagesOf(inputs, adapter).empty()) {
    return InvalidFields({{field, "stand in place of image: unset one of them"}});
  }
  if (prompt.image_shape.empty()) return absl::OkStatus();  // no adapter of it is known
  ASSIGN_OR_RETURN(const ImageEmbedsLayout layout,
                   CheckImageEmbeds(field, prompt, *ImageEmbedsOf(inputs, adapter)));
  prompt.images = layout.images;
  if (layout.sides == 2 && !guided) {
    warnings.push_back(absl::StrCat(
        field, ": its first half, of the negative prompt, has no effect without guidance"));
  }
  return absl::OkStatus();
}

// Sets what all read. REQUIRES: ResolveImagePrompt and the checks of its images are OK.
absl::Status CountTokens(std::vector<ImagePrompt>& prompts) {
  int all = 0;
  for (ImagePrompt& prompt : prompts) {
    prompt.tokens *= prompt.images;
    if (prompt.has_effect()) all += prompt.tokens;
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
    if (!prompts[i].has_effect()) continue;
    for (const std::string& image : ImagesOf(inputs, i)) {
      ASSIGN_OR_RETURN(const image::Dimensions size, image::ReadDimensions(image));
      pixels += int64_t{size.width} * size.height;
    }
  }
  if (pixels <= kMostPixelsOfRequest) return absl::OkStatus();
  return InvalidFields(
      {{"ip_adapters", absl::StrCat("their images have ", pixels, " pixels together, and at most ",
                                    kMostPixelsOfRequest, " are read")}});
}

// Sets the factors of attentions.
absl::Status ResolveScales(const networks::Unet2dConditionConfig& unet, const std::string& field,
                           ImagePrompt& prompt, std::vector<std::string>& warnings) {
  const double scale = prompt.scale.value_or(1);
  prompt.scale = scale;
  const size_t attentions = networks::CrossAttentionsOf(unet).size();
  prompt.attention_scales.assign(attentions, scale);
  if (prompt.scales.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<double> factors,
                   AttentionScales(unet, prompt.scales, field + ".scales", warnings));
  for (size_t i = 0; i < attentions; ++i) prompt.attention_scales[i] *= factors[i];
  if (scale != 0 && !prompt.has_effect()) {
    warnings.push_back(absl::StrCat(field, " has no effect: its scales are 0 for all attentions"));
  }
  return absl::OkStatus();
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
  prompt.image_shape = facts->image_shape;
  for (const std::string& warning : facts->warnings) {
    warnings.push_back(absl::StrCat("IP-Adapter ", prompt.name, ": ", warning));
  }
  return ResolveScales(model.configs().unet, field, prompt, warnings);
}

// True if there is a row of the negative prompt.
bool IsGuided(const LoadedModel& model, const PictureSpec& spec) {
  return UsesGuidance(spec) && !model.configs().embeds_guidance();
}

// True if an image encoder runs: for images, or for the black one that a negative row reads where
// the request's embeddings have none for it and the adapter reads patches.
bool Encodes(const PictureSpec& spec, const Inputs& inputs, size_t adapter, bool guided) {
  const HostTensor* embeds = ImageEmbedsOf(inputs, adapter);
  if (embeds == nullptr) return true;
  const ImagePrompt& prompt = spec.ip_adapters[adapter];
  int64_t own = prompt.images;
  for (const int64_t side : prompt.image_shape) own *= side;
  return guided && prompt.image_shape.size() > 1 && ElementsOf(*embeds) == own;
}

// Gives embeddings of equal adapters an order; without these they are an empty tensor.
auto OrderOfEmbeds(const Inputs& inputs, size_t adapter) {
  static const auto& none = *new HostTensor();
  const HostTensor* embeds = ImageEmbedsOf(inputs, adapter);
  const HostTensor& tensor = embeds == nullptr ? none : *embeds;
  return std::tie(tensor.type, tensor.shape, tensor.data);
}

}  // namespace

absl::Status ResolveImagePrompts(adapters::Catalogue* catalogue, const LoadedModel& model,
                                 const Inputs& inputs, PictureSpec& spec,
                                 std::vector<std::string>& warnings) {
  Refusals refusals;
  for (size_t i = 0; i < spec.ip_adapters.size(); ++i) {
    ImagePrompt& prompt = spec.ip_adapters[i];
    refusals.Add(ResolveImagePrompt(catalogue, model, absl::StrCat("ip_adapters[", i, "]"), prompt,
                                    warnings));
    refusals.Add(ImageEmbedsOf(inputs, i) != nullptr
                     ? CheckEmbedsOfImages(inputs, i, IsGuided(model, spec), prompt, warnings)
                     : CheckImages(inputs, i, prompt));
  }
  if (spec.refine && !spec.ip_adapters.empty()) {
    warnings.emplace_back("ip_adapters have no effect on the refiner: they are for the base alone");
  }
  RETURN_IF_ERROR(refusals.Join());
  RETURN_IF_ERROR(CountTokens(spec.ip_adapters));
  return CheckPixels(inputs, spec.ip_adapters);
}

std::string ImagePromptField(size_t adapter, size_t image) {
  const std::string own = absl::StrCat("ip_adapters[", adapter, "].");
  return image == 0 ? own + "image" : absl::StrCat(own, "more_images[", image - 1, "]");
}

const HostTensor* ImageEmbedsOf(const Inputs& inputs, size_t adapter) {
  if (adapter >= inputs.ip_adapter_embeds.size()) return nullptr;
  const std::optional<HostTensor>& embeds = inputs.ip_adapter_embeds[adapter];
  return embeds ? &*embeds : nullptr;
}

std::vector<PlannedImagePrompt> PlanImagePrompts(const LoadedModel& model, const PictureSpec& spec,
                                                 const Inputs& inputs) {
  std::vector<PlannedImagePrompt> planned;
  for (size_t i = 0; i < spec.ip_adapters.size(); ++i) {
    const ImagePrompt& prompt = spec.ip_adapters[i];
    if (!prompt.has_effect()) continue;
    planned.push_back({.id = IpAdapters::IdOf(prompt),
                       .index = i,
                       .images = prompt.images,
                       .tokens = prompt.tokens,
                       .encodes = Encodes(spec, inputs, i, IsGuided(model, spec))});
  }
  const auto order = [&](const PlannedImagePrompt& one) {
    const ImagePrompt& prompt = spec.ip_adapters[one.index];
    return std::tie(one.tokens, prompt.name, prompt.attention_scales, ImagesOf(inputs, one.index));
  };
  absl::c_stable_sort(planned, [&](const PlannedImagePrompt& a, const PlannedImagePrompt& b) {
    const auto of_a = order(a), of_b = order(b);
    if (of_a != of_b) return of_a < of_b;
    return OrderOfEmbeds(inputs, a.index) < OrderOfEmbeds(inputs, b.index);
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

std::vector<PlannedGraph> GraphsOfIpAdapter(ModelId model, uint64_t net, int images, bool encodes) {
  std::vector<PlannedGraph> graphs;
  if (encodes) graphs.push_back({model, {.kind = GraphKind::kImageEncoder}, net});
  graphs.push_back({model, {.kind = GraphKind::kImagePrompt, .shape = {.rows = images}}, net});
  return graphs;
}

void AddImagePromptGraphs(Plan& plan) {
  const ModelId model = plan.stages.front().model->row().id;
  for (const PlannedImagePrompt& prompt : plan.image_prompts) {
    for (const PlannedGraph& graph :
         GraphsOfIpAdapter(model, prompt.id, prompt.images, prompt.encodes)) {
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
