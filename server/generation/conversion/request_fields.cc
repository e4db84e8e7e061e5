#include "server/generation/conversion/request_fields.h"

#include "absl/strings/str_cat.h"

namespace latentd::server::generation {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

void AddPaths(const Descriptor& type, const std::string& prefix, std::vector<std::string>& paths) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    paths.push_back(absl::StrCat(prefix, field.name()));
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      AddPaths(*field.message_type(), absl::StrCat(paths.back(), "."), paths);
    }
  }
}

}  // namespace

std::vector<std::string> FieldPaths(const Descriptor& type) {
  std::vector<std::string> paths;
  AddPaths(type, "", paths);
  return paths;
}

}  // namespace latentd::server::generation
