#include "core/adapters/lora/unet_names.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/weights/containers/recognize/part_reader.h"
#include "core/weights/containers/recognize/unet_paths.h"

namespace latentd::adapters {
namespace {

using weights::kLdmSpelling;
using weights::UnetPaths;
using weights::UnetSpelling;

// LDM's paths of modules, and of lists of modules that it calls as diffusers does.
class LdmTable {
 public:
  explicit LdmTable(const UnetPaths& paths) : diffusers_(paths.spelling) {
    AddOnce();
    int number = 1;  // 0 is the first convolution
    for (const UnetPaths::Block& block : paths.down) AddDown(block, number);
    number = 0;
    for (const UnetPaths::Block& block : paths.up) AddUp(block, number);
    AddMiddle(paths.middle);
  }

  // Empty: LDM has no such module.
  std::string NameOf(absl::string_view module) const {
    for (size_t end = module.size(); end != absl::string_view::npos && end > 0;
         end = module.rfind('.', end - 1)) {
      const auto found = names_.find(module.substr(0, end));
      if (found != names_.end()) return absl::StrCat(found->second, module.substr(end));
    }
    return "";
  }

 private:
  using Member = absl::string_view UnetSpelling::*;

  void Add(absl::string_view module, std::string name) {
    if (!module.empty()) names_.emplace(module, std::move(name));
  }

  void AddOnce() {
    constexpr Member kOnce[] = {&UnetSpelling::conv_in,       &UnetSpelling::conv_norm_out,
                                &UnetSpelling::conv_out,      &UnetSpelling::time_linear_1,
                                &UnetSpelling::time_linear_2, &UnetSpelling::time_cond_proj,
                                &UnetSpelling::add_linear_1,  &UnetSpelling::add_linear_2};
    for (const Member member : kOnce) {
      Add(diffusers_.*member, std::string(kLdmSpelling.*member));
    }
  }

  void AddResnet(absl::string_view path, absl::string_view name) {
    constexpr Member kInResnet[] = {&UnetSpelling::norm1,         &UnetSpelling::conv1,
                                    &UnetSpelling::time_emb_proj, &UnetSpelling::norm2,
                                    &UnetSpelling::conv2,         &UnetSpelling::conv_shortcut};
    for (const Member member : kInResnet) {
      Add(absl::StrCat(path, ".", diffusers_.*member),
          absl::StrCat(name, ".", kLdmSpelling.*member));
    }
  }

  void AddLayer(const UnetPaths::Layer& layer, const std::string& name) {
    AddResnet(layer.resnet, name + ".0");
    Add(layer.attention, name + ".1");
  }

  void AddDown(const UnetPaths::Block& block, int& number) {
    for (const UnetPaths::Layer& layer : block.layers) {
      AddLayer(layer, absl::StrCat("input_blocks.", number++));
    }
    if (!block.sampler.empty())
      Add(block.sampler, absl::StrCat("input_blocks.", number++, ".0.op"));
  }

  // On the way up a sampler is behind the last layer, with its number.
  void AddUp(const UnetPaths::Block& block, int& number) {
    for (const UnetPaths::Layer& layer : block.layers) {
      AddLayer(layer, absl::StrCat("output_blocks.", number++));
    }
    if (block.layers.empty()) return;
    const int place = block.layers.back().attention.empty() ? 1 : 2;
    Add(block.sampler, absl::StrCat("output_blocks.", number - 1, ".", place, ".conv"));
  }

  void AddMiddle(const std::vector<UnetPaths::Layer>& middle) {
    if (!middle.empty()) AddLayer(middle[0], "middle_block");
    if (middle.size() > 1) AddResnet(middle[1].resnet, "middle_block.2");
  }

  const UnetSpelling diffusers_;
  absl::flat_hash_map<std::string, std::string> names_;
};

}  // namespace

absl::flat_hash_map<std::string, std::string> LdmNames(
    const absl::btree_set<std::string>& modules) {
  weights::PartTensors tensors;
  for (const std::string& module : modules) tensors.by_name.emplace(module + ".weight", nullptr);
  const std::optional<UnetPaths> paths = weights::FindUnetPaths(tensors);
  absl::flat_hash_map<std::string, std::string> names;
  if (!paths) return names;
  const LdmTable table(*paths);
  for (const std::string& module : modules) {
    std::string name = table.NameOf(module);
    if (!name.empty()) names.emplace(module, std::move(name));
  }
  return names;
}

}  // namespace latentd::adapters
