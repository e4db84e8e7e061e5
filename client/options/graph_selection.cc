#include "client/options/graph_selection.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/errors/status_macros.h"

namespace latentd::client {
namespace {

using ::latent::v1::GraphSelector;

absl::Status AddBucket(GraphSelector& selector, const std::string& text) {
  std::vector<int> numbers;
  for (const absl::string_view part : absl::StrSplit(text, 'x')) {
    int& number = numbers.emplace_back();
    if (!absl::SimpleAtoi(part, &number)) number = 0;
  }
  const bool are_positive = absl::c_all_of(numbers, [](int number) { return number > 0; });
  if (numbers.size() < 2 || numbers.size() > 3 || !are_positive) {
    return absl::InvalidArgumentError(
        "must be WIDTHxHEIGHT, such as 1024x1024, of videos WIDTHxHEIGHTxFRAMES");
  }
  ::latent::v1::BucketSize& bucket = *selector.add_buckets();
  bucket.set_width(numbers[0]);
  bucket.set_height(numbers[1]);
  if (numbers.size() == 3) bucket.set_num_frames(numbers[2]);
  return absl::OkStatus();
}

}  // namespace

OptionGroup SelectionOptions(GraphSelector& selector) {
  const auto set_all = [&selector](const std::string& text) {
    bool all = false;
    RETURN_IF_ERROR(SetSwitch(all)(text));
    selector.set_all(all);
    return absl::OkStatus();
  };
  const auto add_component = [&selector](const std::string& text) {
    selector.add_components(text);
    return absl::OkStatus();
  };
  const auto add_model = [&selector](const std::string& text) {
    selector.add_models(text);
    return absl::OkStatus();
  };
  const auto add_bucket = [&selector](const std::string& text) {
    return AddBucket(selector, text);
  };
  return {"Which graphs (besides IDs, of which the first 6 digits do)",
          {{"all", "", "every one", set_all},
           {"component", "NAME",
            "text_encoder, text_encoder_2, unet, vae_decoder, vae_encoder, vae_tiny,\n"
            "control_net, image_encoder, ip_adapter; may be repeated",
            add_component, /*repeats=*/true},
           {"model", "NAME",
            "of these only what that model uses, base or refiner; alone, all of it; may be\n"
            "repeated",
            add_model, /*repeats=*/true},
           {"bucket", "WIDTHxHEIGHT[xFRAMES]",
            "every graph that it needs, shared ones too (evict and unpin leave those that\n"
            "another bucket needs); may be repeated",
            add_bucket, /*repeats=*/true}}};
}

bool SelectsAny(const GraphSelector& selector) {
  return selector.all() || selector.ids_size() > 0 || selector.components_size() > 0 ||
         selector.buckets_size() > 0 || selector.models_size() > 0;
}

absl::Status SelectGraphs(const std::vector<std::string>& ids, GraphSelector& selector) {
  for (const std::string& id : ids) {
    GraphSelector sized;
    if (AddBucket(sized, id).ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(id, " is no ID: did you mean --bucket ", id, "?"));
    }
    selector.add_ids(id);
  }
  if (SelectsAny(selector)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "say which graphs: IDs, --component, --bucket, --model or --all");
}

}  // namespace latentd::client
