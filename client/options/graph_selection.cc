#include "client/options/graph_selection.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/errors/status_macros.h"

namespace latentd::client {
namespace {

using ::latent::v1::GraphSelector;

absl::Status AddBucket(GraphSelector& selector, const std::string& text) {
  const std::pair<std::string, std::string> sides = absl::StrSplit(text, absl::MaxSplits('x', 1));
  int width = 0, height = 0;
  if (!absl::SimpleAtoi(sides.first, &width) || !absl::SimpleAtoi(sides.second, &height) ||
      width <= 0 || height <= 0) {
    return absl::InvalidArgumentError("must be WIDTHxHEIGHT, such as 1024x1024");
  }
  ::latent::v1::Size& bucket = *selector.add_buckets();
  bucket.set_width(width);
  bucket.set_height(height);
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
            "control_net, image_encoder; may be repeated",
            add_component, /*repeats=*/true},
           {"model", "NAME",
            "of these only what that model uses, base or refiner; alone, all of it; may be\n"
            "repeated",
            add_model, /*repeats=*/true},
           {"bucket", "WIDTHxHEIGHT",
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
