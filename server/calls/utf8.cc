#include "server/calls/utf8.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/text/utf8.h"

namespace latentd::server::calls {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

class Walk {
 public:
  std::vector<std::string> fields;

  void Message(const Descriptor& type, absl::string_view bytes, const std::string& prefix) {
    CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                           static_cast<int>(bytes.size()));
    while (const uint32_t tag = input.ReadTag()) {
      const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      const bool sized =
          WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
      if (field == nullptr || !sized) {
        if (!WireFormatLite::SkipField(&input, tag)) return;
        continue;
      }
      uint32_t size = 0;
      if (!input.ReadVarint32(&size)) return;
      const size_t start = static_cast<size_t>(input.CurrentPosition());
      if (size > bytes.size() - start || !input.Skip(static_cast<int>(size))) return;
      Field(*field, bytes.substr(start, size), prefix);
    }
  }

 private:
  void Field(const FieldDescriptor& field, absl::string_view value, const std::string& prefix) {
    const std::string name = absl::StrCat(prefix, field.name());
    if (field.type() == FieldDescriptor::TYPE_MESSAGE) {
      Message(*field.message_type(), value, absl::StrCat(name, "."));
    } else if (field.type() == FieldDescriptor::TYPE_STRING && !IsUtf8(value)) {
      if (std::find(fields.begin(), fields.end(), name) == fields.end()) fields.push_back(name);
    }
  }
};

}  // namespace

std::vector<std::string> FindInvalidUtf8(const Descriptor& type, absl::string_view bytes) {
  Walk walk;
  walk.Message(type, bytes, "");
  return std::move(walk.fields);
}

}  // namespace latentd::server::calls
