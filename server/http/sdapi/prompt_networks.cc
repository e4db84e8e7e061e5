#include "server/http/sdapi/prompt_networks.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;

// "<KIND:ITEMS>" as the web UI finds it: <(\w+):([^>]+)>.
struct Tag {
  absl::string_view all, kind, items;
};

// Letters, digits and _; bytes beyond ASCII are taken for letters.
bool IsWordByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return absl::ascii_isalnum(byte) || c == '_' || byte >= 0x80;
}

// The tag that `text` begins with, if there is one.
std::optional<Tag> TagAt(absl::string_view text) {
  size_t colon = 1;
  while (colon < text.size() && IsWordByte(text[colon])) ++colon;
  if (colon == 1 || colon == text.size() || text[colon] != ':') return std::nullopt;
  const size_t end = text.find('>', colon);
  if (end == text.npos || end == colon + 1) return std::nullopt;
  return Tag{.all = text.substr(0, end + 1),
             .kind = text.substr(1, colon - 1),
             .items = text.substr(colon + 1, end - colon - 1)};
}

absl::Status RefusedTag(const Tag& tag, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("has \"", Excerpt(tag.all), "\": ", why));
}

absl::StatusOr<double> WeightOf(const Tag& tag, absl::string_view text) {
  double weight = 0;
  if (absl::SimpleAtod(text, &weight) && std::isfinite(weight)) return weight;
  return RefusedTag(tag, "a weight is no number");
}

// Parts of a tag between its colons.
struct Items {
  std::vector<absl::string_view> places;  // without a name of their own
  std::optional<absl::string_view> te, unet;
};

absl::StatusOr<Items> ItemsOf(const Tag& tag) {
  Items items;
  for (const absl::string_view item : absl::StrSplit(tag.items, ':')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(item, '=');
    if (parts.size() != 2) {
      items.places.push_back(item);
    } else if (parts[0] == "te") {
      items.te = parts[1];
    } else if (parts[0] == "unet") {
      items.unet = parts[1];
    } else {
      return RefusedTag(tag, "LoRAs have weights, te= and unet= here, and nothing else");
    }
  }
  constexpr size_t kNameAndWeights = 3;
  if (items.places.empty()) return RefusedTag(tag, "it names no LoRA");
  if (items.places.size() > kNameAndWeights) {
    return RefusedTag(tag,
                      "LoRAs have a weight of the text encoders and one of the UNet here, and "
                      "nothing else");
  }
  return items;
}

// The name of an adapter that has that name or, alone, that last part.
absl::StatusOr<std::string> LoraNamed(const Tag& tag, absl::string_view name,
                                      const std::vector<std::string>& loras) {
  std::vector<std::string> found;
  for (const std::string& lora : loras) {
    if (lora == name) return lora;
    if (absl::EndsWith(lora, absl::StrCat("/", name))) found.push_back(lora);
  }
  if (found.size() > 1) {
    return RefusedTag(
        tag, absl::StrCat("there are ", absl::StrJoin(found, " and "), ": write the whole name"));
  }
  return found.empty() ? std::string(name) : found.front();
}

absl::StatusOr<v1::Adapter> AdapterOf(const Tag& tag, const std::vector<std::string>& loras) {
  ASSIGN_OR_RETURN(const Items items, ItemsOf(tag));
  v1::Adapter adapter;
  ASSIGN_OR_RETURN(*adapter.mutable_name(), LoraNamed(tag, items.places.front(), loras));
  const auto place = [&](size_t at) {
    return at < items.places.size() ? std::optional(items.places[at]) : std::nullopt;
  };
  const std::optional<absl::string_view> te = items.te ? items.te : place(1);
  const std::optional<absl::string_view> unet = items.unet ? items.unet : place(2);
  // As the web UI has it: what is said of the text encoders holds for the UNet too, and not the
  // other way round.
  ASSIGN_OR_RETURN(const double of_encoders, WeightOf(tag, te.value_or("1")));
  ASSIGN_OR_RETURN(const double of_unet, WeightOf(tag, unet ? *unet : te.value_or("1")));
  if (te || unet) adapter.set_weight(of_unet);
  if (of_encoders != of_unet) adapter.set_text_encoder_weight(of_encoders);
  return adapter;
}

}  // namespace

absl::StatusOr<PromptNetworks> TakeNetworks(absl::string_view prompt,
                                            const std::vector<std::string>& loras) {
  PromptNetworks networks;
  while (!prompt.empty()) {
    const size_t at = std::min(prompt.find('<'), prompt.size());
    absl::StrAppend(&networks.prompt, prompt.substr(0, at));
    prompt.remove_prefix(at);
    if (prompt.empty()) break;
    const std::optional<Tag> tag = TagAt(prompt);
    if (!tag) {
      networks.prompt.push_back(prompt.front());
      prompt.remove_prefix(1);
      continue;
    }
    if (tag->kind != "lora" && tag->kind != "lyco") {
      return RefusedTag(*tag, "prompts name no networks but LoRAs here");
    }
    ASSIGN_OR_RETURN(v1::Adapter adapter, AdapterOf(*tag, loras));
    networks.adapters.push_back(std::move(adapter));
    prompt.remove_prefix(tag->all.size());
  }
  return networks;
}

}  // namespace latentd::server::http
