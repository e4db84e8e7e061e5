// The modules of a model that a LoRA can change, found by any name that a LoRA's file has for them.
//
// Every spelling is made from the model's own names and looked up: no name is repaired. Spellings
// are a prefix, which says the component and who wrote it, and a path:
//
//   UNet           paths of diffusers and of latent diffusion (LDM), with dots, or flattened by '_'
//   text encoders  paths of transformers, with and without "text_model.", with the attention of
//                  diffusers' old processors (to_q), and of OpenCLIP, likewise
//
// Immutable; any thread may read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "core/device/shape.h"

namespace latentd::adapters {

struct Module {
  std::string component;  // "unet", "text_encoder" or "text_encoder_2"
  std::string path;       // "mid_block.attentions.0.proj_in"
  // Shapes of its two weights; absent: it has none.
  std::optional<device::Shape> weight, bias;

  std::string WeightName() const;  // "unet/mid_block.attentions.0.proj_in.weight"
  std::string BiasName() const;
};

class ModelModules {
 public:
  // The model's weights by name, as WeightSet::Shapes has them.
  explicit ModelModules(const absl::btree_map<std::string, device::Shape>& weights);

  // The module that has the spelling; or several of one shape, the rows of which are stacked in
  // this order in what has the spelling (OpenCLIP's attn.in_proj). Empty: there is none.
  std::vector<const Module*> Find(absl::string_view spelling) const;

  // In the order of components and paths.
  const std::vector<Module>& modules() const { return modules_; }

  // Features of the text that the UNet's attention reads: 768 in Stable Diffusion 1, 1024 in 2,
  // 2048 in SDXL. 0: it reads none.
  int64_t text_features() const { return text_features_; }

  // "component: path" of each path that would find two modules, and finds neither. None in any
  // published network.
  std::vector<std::string> ambiguous() const;

 private:
  struct Prefix {
    std::string text;
    bool is_flat;
    std::string component;
  };
  // Numbers in modules_, by path. Empty: ambiguous.
  struct Component {
    absl::flat_hash_map<std::string, std::vector<int>> dotted, flat;
  };

  void AddPrefixes();
  void AddComponent(const std::string& name);
  void AddProjections(const std::string& name, Component& component);
  void AddPath(Component& component, const std::string& path, const std::vector<int>& modules);
  void FindTextFeatures();

  std::vector<Module> modules_;
  std::vector<Prefix> prefixes_;
  absl::btree_map<std::string, Component> components_;
  int64_t text_features_ = 0;
};

}  // namespace latentd::adapters
