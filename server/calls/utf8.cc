#include "server/calls/utf8.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace latentd::server::calls {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// The length of the sequence that starts with `lead`, and the bits of the code point in it; 0 where
// none can.
int SequenceLength(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // a continuation byte, or an overlong form
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Overlong forms, surrogates and what lies above U+10FFFF show in the second byte.
bool SecondByteFits(unsigned char lead, unsigned char second) {
  if (lead == 0xE0) return second >= 0xA0;
  if (lead == 0xED) return second < 0xA0;
  if (lead == 0xF0) return second >= 0x90;
  if (lead == 0xF4) return second < 0x90;
  return true;
}

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

bool IsUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = static_cast<size_t>(SequenceLength(lead));
    if (length == 0 || length > text.size() - i) return false;
    const absl::string_view rest = text.substr(i + 1, length - 1);
    if (!std::all_of(rest.begin(), rest.end(), IsContinuation)) return false;
    if (!rest.empty() && !SecondByteFits(lead, static_cast<unsigned char>(rest[0]))) return false;
    i += length;
  }
  return true;
}

std::vector<std::string> FindInvalidUtf8(const Descriptor& type, absl::string_view bytes) {
  Walk walk;
  walk.Message(type, bytes, "");
  return std::move(walk.fields);
}

}  // namespace latentd::server::calls
