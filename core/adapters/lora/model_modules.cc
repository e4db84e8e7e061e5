#include "core/adapters/lora/model_modules.h"

#include <algorithm>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "core/adapters/lora/encoder_names.h"
#include "core/adapters/lora/unet_names.h"

namespace latentd::adapters {
namespace {

constexpr absl::string_view kUnet = "unet";
constexpr absl::string_view kFirst = "text_encoder";
constexpr absl::string_view kSecond = "text_encoder_2";

struct PrefixRow {
  absl::string_view component, text;
  bool is_flat;
};

// Prefixes of kohya's scripts, LyCORIS, diffusers, ComfyUI and OneTrainer; PEFT writes none.
constexpr PrefixRow kPrefixes[] = {
    {kUnet, "lora_unet_", true},
    {kUnet, "lycoris_unet_", true},
    {kUnet, "lycoris_", true},
    {kUnet, "unet.", false},
    {kUnet, "diffusion_model.", false},
    {kUnet, "model.diffusion_model.", false},
    {kUnet, "", false},
    {kFirst, "lora_te1_", true},
    {kFirst, "lycoris_te1_", true},
    {kFirst, "text_encoders.clip_l.transformer.", false},
    {kFirst, "text_encoders.clip_h.transformer.", false},
    {kFirst, "clip_l.transformer.", false},
    {kFirst, "clip_h.transformer.", false},
    {kFirst, "text_encoders.clip_l.", false},
    {kFirst, "clip_l.", false},
    {kFirst, "clip_h.", false},
    {kSecond, "lora_te2_", true},
    {kSecond, "lycoris_te2_", true},
    {kSecond, "text_encoder_2.", false},
    {kSecond, "text_encoders.clip_g.transformer.", false},
    {kSecond, "clip_g.transformer.", false},
    {kSecond, "text_encoders.clip_g.", false},
    {kSecond, "clip_g.", false},
};
// For the first encoder of a model, or for its only one.
constexpr PrefixRow kOnlyPrefixes[] = {
    {kFirst, "lora_te_", true},
    {kFirst, "lycoris_te_", true},
    {kFirst, "text_encoder.", false},
    {kFirst, "", false},
};

// Names that a UNet's module has, with dots.
std::vector<std::string> UnetSpellings(const std::string& module, const std::string& ldm) {
  std::vector<std::string> spellings = {module};
  if (!ldm.empty()) spellings.push_back(ldm);
  for (size_t i = 0, count = spellings.size(); i < count; ++i) {
    absl::string_view bare = spellings[i];
    if (absl::ConsumeSuffix(&bare, ".to_out.0")) {
      spellings.push_back(absl::StrCat(bare, ".to_out"));
    }
  }
  return spellings;
}

std::vector<Module> ModulesOf(const absl::btree_map<std::string, device::Shape>& weights) {
  absl::btree_map<std::pair<std::string, std::string>, Module> modules;
  for (const auto& [name, shape] : weights) {
    const size_t slash = name.find('/');
    if (slash == std::string::npos) continue;
    const std::string component = name.substr(0, slash);
    if (component != kUnet && component != kFirst && component != kSecond) continue;
    absl::string_view path = absl::string_view(name).substr(slash + 1);
    const bool is_weight = absl::ConsumeSuffix(&path, ".weight");
    if (!is_weight && !absl::ConsumeSuffix(&path, ".bias")) continue;
    Module& module = modules[{component, std::string(path)}];
    module.component = component;
    module.path = std::string(path);
    (is_weight ? module.weight : module.bias) = shape;
  }
  std::vector<Module> list;
  for (auto& [key, module] : modules) list.push_back(std::move(module));
  return list;
}

// True if both have weights of the same shapes, or neither has.
bool AreAlike(const Module& a, const Module& b) { return a.weight == b.weight && a.bias == b.bias; }

}  // namespace

std::string Module::WeightName() const { return absl::StrCat(component, "/", path, ".weight"); }
std::string Module::BiasName() const { return absl::StrCat(component, "/", path, ".bias"); }

ModelModules::ModelModules(const absl::btree_map<std::string, device::Shape>& weights)
    : modules_(ModulesOf(weights)) {
  for (const absl::string_view name : {kUnet, kFirst, kSecond}) AddComponent(std::string(name));
  AddPrefixes();
  FindTextFeatures();
}

void ModelModules::AddPrefixes() {
  for (const PrefixRow& row : kPrefixes) {
    prefixes_.push_back({std::string(row.text), row.is_flat, std::string(row.component)});
  }
  const bool has_first = components_.contains(std::string(kFirst));
  for (const PrefixRow& row : kOnlyPrefixes) {
    prefixes_.push_back(
        {std::string(row.text), row.is_flat, std::string(has_first ? kFirst : kSecond)});
  }
}

void ModelModules::AddComponent(const std::string& name) {
  absl::btree_set<std::string> paths;
  for (const Module& module : modules_) {
    if (module.component == name) paths.insert(module.path);
  }
  if (paths.empty()) return;
  absl::flat_hash_map<std::string, std::string> ldm;
  if (name == kUnet) ldm = LdmNames(paths);
  Component& component = components_[name];
  for (int i = 0; i < static_cast<int>(modules_.size()); ++i) {
    const Module& module = modules_[i];
    if (module.component != name) continue;
    const std::vector<std::string> spellings = name == kUnet
                                                   ? UnetSpellings(module.path, ldm[module.path])
                                                   : EncoderSpellings(module.path);
    for (const std::string& spelling : spellings) AddPath(component, spelling, {i});
  }
  if (name != kUnet) AddProjections(name, component);
}

void ModelModules::AddProjections(const std::string& name, Component& component) {
  absl::flat_hash_map<std::string, int> numbers;
  for (int i = 0; i < static_cast<int>(modules_.size()); ++i) {
    if (modules_[i].component == name) numbers.emplace(modules_[i].path, i);
  }
  for (const auto& [path, query] : numbers) {
    const std::string projection = OpenClipProjection(path);
    if (projection.empty()) continue;
    const std::string layer(absl::StripSuffix(path, "q_proj"));
    const auto key = numbers.find(layer + "k_proj"), value = numbers.find(layer + "v_proj");
    if (key == numbers.end() || value == numbers.end()) continue;
    const Module& own = modules_[query];
    if (!AreAlike(own, modules_[key->second]) || !AreAlike(own, modules_[value->second])) continue;
    AddPath(component, projection, {query, key->second, value->second});
  }
}

void ModelModules::AddPath(Component& component, const std::string& path,
                           const std::vector<int>& modules) {
  const auto add = [&](absl::flat_hash_map<std::string, std::vector<int>>& table,
                       std::string spelling) {
    const auto [known, is_new] = table.try_emplace(std::move(spelling), modules);
    if (!is_new && known->second != modules) known->second.clear();
  };
  add(component.dotted, path);
  add(component.flat, absl::StrReplaceAll(path, {{".", "_"}}));
}

std::vector<const Module*> ModelModules::Find(absl::string_view spelling) const {
  std::vector<const Module*> found;
  for (const Prefix& prefix : prefixes_) {
    absl::string_view path = spelling;
    const auto component = components_.find(prefix.component);
    if (component == components_.end() || !absl::ConsumePrefix(&path, prefix.text)) continue;
    const auto& table = prefix.is_flat ? component->second.flat : component->second.dotted;
    const auto known = table.find(path);
    if (known == table.end()) continue;
    for (const int module : known->second) found.push_back(&modules_[module]);
    break;
  }
  return found;
}

std::vector<std::string> ModelModules::ambiguous() const {
  std::vector<std::string> paths;
  for (const auto& [name, component] : components_) {
    for (const auto* table : {&component.dotted, &component.flat}) {
      for (const auto& [path, modules] : *table) {
        if (modules.empty()) paths.push_back(absl::StrCat(name, ": ", path));
      }
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

void ModelModules::FindTextFeatures() {
  for (const Module& module : modules_) {
    if (module.component != kUnet || !absl::EndsWith(module.path, ".attn2.to_k")) continue;
    if (module.weight && module.weight->rank() >= 2) text_features_ = (*module.weight)[1];
    return;
  }
}

}  // namespace latentd::adapters
