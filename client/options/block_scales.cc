#include "client/options/block_scales.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"

namespace latentd::client {
namespace {

namespace v1 = ::latent::v1;
using google::protobuf::Value;
using Scales = google::protobuf::RepeatedPtrField<v1::BlockScale>;

absl::Status WrongTree() {
  return absl::InvalidArgumentError(
      "must have scales by block as diffusers has them, numbers or lists of these: {\"mid\": 0.5, "
      "\"up\": {\"block_0\": [0, 1, 0]}}");
}

// Adds the numbers of a block.
absl::Status AddScale(const std::string& block, const Value& value, Scales& scales) {
  v1::BlockScale& scale = *scales.Add();
  scale.set_block(block);
  if (value.has_number_value()) {
    scale.add_values(value.number_value());
    return absl::OkStatus();
  }
  if (!value.has_list_value() || value.list_value().values().empty()) return WrongTree();
  for (const Value& one : value.list_value().values()) {
    if (!one.has_number_value()) return WrongTree();
    scale.add_values(one.number_value());
  }
  return absl::OkStatus();
}

// Adds all of a tree below `prefix`.
absl::Status AddTree(const google::protobuf::Struct& tree, const std::string& prefix,
                     Scales& scales) {
  const std::map<std::string, Value> sorted(tree.fields().begin(), tree.fields().end());
  if (sorted.empty()) return WrongTree();
  for (const auto& [name, value] : sorted) {
    const std::string block = prefix + name;
    if (prefix.empty() && value.has_struct_value()) {
      RETURN_IF_ERROR(AddTree(value.struct_value(), block + ".", scales));
    } else {
      RETURN_IF_ERROR(AddScale(block, value, scales));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AddBlockScales(const std::string& tree, Scales& scales) {
  google::protobuf::Struct parsed;
  if (!google::protobuf::util::JsonStringToMessage(tree, &parsed).ok()) return WrongTree();
  return AddTree(parsed, "", scales);
}

}  // namespace latentd::client
