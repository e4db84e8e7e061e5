#include "server/http/request/block_scales.h"

#include <string>

namespace latentd::server::http {
namespace {

using nlohmann::json;

json ScaleOf(const std::string& block, const json& values) {
  return {{"block", block}, {"values", values.is_array() ? values : json::array({values})}};
}

}  // namespace

json BlockScalesOf(const json& tree) {
  if (!tree.is_object()) return tree;
  json scales = json::array();
  for (const auto& [side, below] : tree.items()) {
    if (!below.is_object()) {
      scales.push_back(ScaleOf(side, below));
      continue;
    }
    for (const auto& [block, values] : below.items()) {
      scales.push_back(ScaleOf(side + "." + block, values));
    }
  }
  return scales;
}

}  // namespace latentd::server::http
