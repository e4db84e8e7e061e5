#include "core/adapters/catalogue/adapter_kind.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/adapters/lora/lora_keys.h"
#include "core/adapters/textual_inversion/embedding.h"
#include "core/base/text/text.h"
#include "core/weights/containers/recognize/foreign_model.h"

namespace latentd::adapters {
namespace {

using pipeline::AdapterKind;
using weights::TensorMap;

// Parts of names that only ControlNets have, and their relatives.
constexpr absl::string_view kControlNetParts[] = {"controlnet_cond_embedding.",
                                                  "controlnet_down_blocks.",
                                                  "input_hint_block.",
                                                  "zero_convs.",
                                                  "lllite_unet_",
                                                  "lora_controlnet"};
constexpr absl::string_view kIpAdapterStarts[] = {"image_proj.", "ip_adapter."};

bool HasPart(absl::string_view name) {
  return absl::c_any_of(kControlNetParts,
                        [&](absl::string_view part) { return absl::StrContains(name, part); });
}

// Relatives of ControlNets that are not served, by a part of their tensors' names.
struct Relative {
  absl::string_view part, name;
};
constexpr Relative kRelatives[] = {{"lllite_unet_", "ControlNet-LLLite"},
                                   {"lora_controlnet", "Control-LoRA"}};

bool IsOfIpAdapter(absl::string_view name) {
  return absl::c_any_of(kIpAdapterStarts,
                        [&](absl::string_view start) { return absl::StartsWith(name, start); });
}

template <typename Test>
bool AnyName(const TensorMap& tensors, Test test) {
  return absl::c_any_of(tensors, [&](const auto& named) { return test(named.first); });
}

std::string SomeNames(const TensorMap& tensors) {
  constexpr size_t kMostListed = 3;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(Excerpt(name));
  absl::c_sort(names);
  return ListSome(names, kMostListed);
}

}  // namespace

AdapterKind KindOf(const TensorMap& tensors) {
  if (AnyName(tensors, HasPart)) return AdapterKind::kControlNet;
  if (AnyName(tensors, IsOfIpAdapter)) return AdapterKind::kIpAdapter;
  if (IsEmbedding(tensors)) return AdapterKind::kTextualInversion;
  const auto is_lora = [](const std::string& name) {
    return SplitKey(NormalKey(name)).has_value();
  };
  const auto is_other_lora = [&](const auto& named) {
    return !OtherKind(NormalKey(named.first), named.second).empty();
  };
  if (AnyName(tensors, is_lora) || absl::c_any_of(tensors, is_other_lora)) {
    return AdapterKind::kLora;
  }
  return AdapterKind::kUnknown;
}

std::string WhyNotServed(AdapterKind kind, const TensorMap& tensors) {
  switch (kind) {
    case AdapterKind::kLora:
    case AdapterKind::kTextualInversion:
    case AdapterKind::kIpAdapter:
      return "";
    case AdapterKind::kControlNet:
      for (const auto& [part, name] : kRelatives) {
        if (AnyName(tensors, [part = part](const std::string& tensor) {
              return absl::StrContains(tensor, part);
            })) {
          return absl::StrCat("is a ", name, ", which is not served");
        }
      }
      return "";
    case AdapterKind::kUnknown:
      break;
  }
  if (tensors.empty()) return "has no tensors";
  const std::string foreign = weights::DescribeForeignTensors(tensors);
  if (!foreign.empty()) return absl::StrCat("is ", foreign);
  return absl::StrCat("is no LoRA, textual inversion, ControlNet or IP-Adapter: none of its ",
                      tensors.size(), " tensors is one's (", SomeNames(tensors), ")");
}

}  // namespace latentd::adapters
