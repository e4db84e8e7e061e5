#include "core/adapters/lora/network_tensors.h"

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/text/text.h"
#include "core/device/shape.h"
#include "core/weights/containers/recognize/part_reader.h"

namespace latentd::adapters {

absl::Status CheckNetworkTensors(const graph::Graph& network, absl::string_view component,
                                 absl::string_view title, const weights::TensorMap& tensors) {
  constexpr size_t kMostNamed = 3;
  std::vector<std::string> wrong;
  size_t found = 0;
  absl::btree_map<std::string, const weights::StoredTensor*> left;
  for (const auto& [name, tensor] : tensors) {
    if (!weights::IsIgnorable(name)) left.emplace(name, &tensor);
  }
  for (const graph::ValueId id : network.Select(graph::Op::kWeight)) {
    const graph::Node& weight = network.node(id);
    const std::string name = weight.name.substr(component.size() + 1);
    const auto tensor = left.find(name);
    if (tensor == left.end()) {
      wrong.push_back(absl::StrCat("it lacks ", name));
      continue;
    }
    const device::Shape& shape = tensor->second->data.shape();
    if (shape != weight.shape) {
      wrong.push_back(absl::StrCat(name, " has the shape ", shape.ToString(), ", not ",
                                   weight.shape.ToString()));
    }
    ++found;
    left.erase(tensor);
  }
  for (const auto& [name, tensor] : left) {
    wrong.push_back(absl::StrCat(Excerpt(name), " is no part of it"));
  }
  if (wrong.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(found, " of its ", tensors.size(),
                                                 " tensors are those of ", title, ": ",
                                                 ListSome(wrong, kMostNamed, "; ")));
}

}  // namespace latentd::adapters
