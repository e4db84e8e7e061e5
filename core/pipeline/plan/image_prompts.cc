#include "core/pipeline/plan/image_prompts.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/image/decode.h"
#include "core/pipeline/graphs/image_prompt_graph.h"
#include "core/pipeline/graphs/ip_adapters.h"
#include "core/pipeline/plan/refusals.h"

namespace latentd::pipeline {
namespace {

constexpr size_t kMostModelsListed = 5;
// CLIP's processor enlarges the shorter side to the encoder's, and an image's sides are bounded.
constexpr int64_t kMostImageRatio = 20;

// Reason for which the model cannot draw with that adapter so; empty: it can.
std::string WhyNoImagePrompt(const LoadedModel& model, const AdapterFacts& facts) {
  if (facts.kind != AdapterKind::kIpAdapter) {
    return absl::StrCat(facts.name, " is no IP-Adapter but of the kind ", NameOf(facts.kind));
  }
  if (absl::c_linear_search(facts.models, model.row().name)) return "";
  return absl::StrCat(facts.name, " is not for the model ", model.row().name, "; it is for ",
                      ListSome(facts.models, kMostModelsListed));
}

absl::Status CheckImage(const std::string& field, const Inputs& inputs, size_t index) {
  if (index >= inputs.ip_adapter_images.size() || inputs.ip_adapter_images[index].empty()) {
    return InvalidFields({{field + ".image", "is the image that is the prompt: set it"}});
  }
  const auto read = image::ReadDimensions(inputs.ip_adapter_images[index]);
  if (!read.ok()) return InvalidFields({{field + ".image", std::string(read.status().message())}});
  const auto [shorter, longer] = std::minmax(read->width, read->height);
  if (longer <= kMostImageRatio * int64_t{shorter}) return absl::OkStatus();
  return InvalidFields(
      {{field + ".image", absl::StrCat("is ", SizeText(*read), "; one side may be at most ",
                                       kMostImageRatio, " times the other")}});
}

absl::Status ResolveImagePrompt(adapters::Catalogue* catalogue, const LoadedModel& model,
                                const std::string& field, ImagePrompt& prompt,
                                std::vector<std::string>& warnings) {
  const auto wrong = [&](absl::string_view why) {
    return InvalidFields({{field + ".name", std::string(why)}});
  };
  if (catalogue == nullptr) {
    return wrong("this server has no IP-Adapters (start it with --adapters=DIR)");
  }
  const absl::StatusOr<AdapterFacts> facts = catalogue->Find(prompt.name);
  if (absl::IsNotFound(facts.status())) return wrong(facts.status().message());
  RETURN_IF_ERROR(facts.status());
  const std::string why = WhyNoImagePrompt(model, *facts);
  if (!why.empty()) return wrong(why);
  prompt.stamp = facts->stamp;
  prompt.digest = facts->digest;
  prompt.tokens = facts->image_tokens;
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
          CheckImage(field, inputs, i)}) {
      refusals.Add(status);
    }
  }
  if (spec.refine && !spec.ip_adapters.empty()) {
    warnings.emplace_back("ip_adapters have no effect on the refiner: they are for the base alone");
  }
  return refusals.Join();
}

std::optional<PlannedImagePrompt> PlanImagePrompt(const PictureSpec& spec) {
  if (spec.ip_adapters.empty() || *spec.ip_adapters.front().scale == 0) return std::nullopt;
  const ImagePrompt& prompt = spec.ip_adapters.front();
  return PlannedImagePrompt{IpAdapters::IdOf(prompt), prompt.tokens};
}

std::vector<ImagePrompt> ImagePromptsFor(const adapters::Catalogue& catalogue,
                                         const LoadedModel& model) {
  std::vector<ImagePrompt> prompts;
  for (const AdapterFacts& facts : catalogue.List()) {
    if (!facts.is_served() || !WhyNoImagePrompt(model, facts).empty()) continue;
    prompts.push_back({.name = facts.name,
                       .stamp = facts.stamp,
                       .digest = facts.digest,
                       .tokens = facts.image_tokens});
  }
  return prompts;
}

std::vector<PlannedGraph> GraphsOfIpAdapter(ModelId model, uint64_t net) {
  return {{model, {.kind = GraphKind::kImageEncoder}, net},
          {model, {.kind = GraphKind::kImagePrompt}, net}};
}

// A row for each of an image's, and what the encoder says of two images, which is less.
int64_t ImagePromptBytes(const Plan& plan) {
  if (!plan.image_prompt) return 0;
  const LoadedModel& model = *plan.stages.front().model;
  const RowPort port = ImagePromptPort(model.configs().unet, plan.image_prompt->tokens,
                                       model.graphs().residual_dtype());
  return 2 * plan.rows * port.row_bytes();
}

}  // namespace latentd::pipeline
