#include "server/http/request/field_values.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/files/unique_json.h"
#include "core/base/text/utf8.h"
#include "server/http/request/block_scales.h"
#include "server/http/request/picture_text.h"

namespace latentd::server::http {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using nlohmann::json;

constexpr size_t kExcerptBytes = 64;

const FieldDescriptor* Find(const Descriptor& type, absl::string_view name) {
  return type.FindFieldByName(std::string(name));
}

// "snap" of BUCKET_POLICY_SNAP.
std::string ShortNameOf(const EnumDescriptor& type, int index) {
  const absl::string_view prefix = absl::StripSuffix(type.value(0)->name(), "UNSPECIFIED");
  return absl::AsciiStrToLower(absl::StripPrefix(type.value(index)->name(), prefix));
}

// The value's name in the proto, where `text` is its short one; else the text.
std::string FullNameOf(const EnumDescriptor& type, const std::string& text) {
  for (int i = 1; i < type.value_count(); ++i) {
    if (absl::AsciiStrToLower(text) == ShortNameOf(type, i)) return type.value(i)->name();
  }
  return text;
}

std::string NamesOf(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 1; i < type.value_count(); ++i) names.push_back(ShortNameOf(type, i));
  return absl::StrJoin(names, ", ");
}

// The right kind of value, in words.
std::string TypeText(const FieldDescriptor& field) {
  if (field.is_repeated()) {
    return field.message_type() == nullptr ? "a list of numbers" : "a list of objects";
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat("one of ", NamesOf(*field.enum_type()));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return absl::StrCat("an object as protobuf's JSON has ", field.message_type()->full_name());
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a whole number from 0 on";
    case FieldDescriptor::CPPTYPE_STRING:
      return "a text";
    default:
      return "a whole number";
  }
}

// The value of a text in JSON; nothing where it is none, and where ParseUniqueJsonObject refuses
// it, as it does what is nested so deep that a reader would run out of stack.
std::optional<json> ValueIn(const std::string& text) {
  const std::string object = absl::StrCat("{\"value\":", text, "}");
  auto parsed = ParseUniqueJsonObject(object, "the text", object.size());
  if (!parsed.ok() || parsed->size() != 1) return std::nullopt;
  return std::move(parsed->front());
}

// Texts of a form, and short names, as protobuf's JSON has them.
json ToProtoJson(const FieldDescriptor& field, const json& value) {
  if (!value.is_string()) return value;
  const std::string& text = value.get_ref<const std::string&>();
  const bool is_list = field.is_repeated();
  if (is_list || field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return ValueIn(text).value_or(value);
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    const std::optional<bool> boolean = BooleanOf(value);
    return boolean ? json(*boolean) : value;
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    return FullNameOf(*field.enum_type(), text);
  }
  return value;
}

bool SetBytes(const FieldDescriptor& field, const json& value, Message& request,
              std::vector<FieldViolation>& violations) {
  if (field.type() != FieldDescriptor::TYPE_BYTES) return false;
  if (!value.is_string()) {
    violations.push_back({field.name(), "must be a text: base64, or a data: URL"});
    return true;
  }
  auto bytes = PictureOf(value.get_ref<const std::string&>());
  if (bytes.ok()) {
    request.GetReflection()->SetString(&request, &field, *std::move(bytes));
  } else {
    violations.push_back({field.name(), std::string(bytes.status().message())});
  }
  return true;
}

// Gives a file the form that protobuf's JSON has.
void ReadFileOf(const std::string& field, json& file, std::vector<FieldViolation>& violations) {
  if (!file.is_string()) return;
  const auto bytes = PictureOf(file.get_ref<const std::string&>());
  if (bytes.ok()) {
    file = absl::Base64Escape(*bytes);
  } else {
    violations.push_back({field, std::string(bytes.status().message())});
  }
}

// Does so with a field of an object in a list, whose name is `own`.
void ReadFilesIn(const std::string& own, json& value, std::vector<FieldViolation>& violations) {
  if (!value.is_array()) return ReadFileOf(own, value, violations);
  for (size_t i = 0; i < value.size(); ++i) {
    ReadFileOf(absl::StrCat(own, "[", i, "]"), value[i], violations);
  }
}

// Does so with all files in the objects of a list. False: one is none, and `violations` says which.
bool ReadFilesOf(const FieldDescriptor& field, json& list,
                 std::vector<FieldViolation>& violations) {
  if (!field.is_repeated() || field.message_type() == nullptr || !list.is_array()) return true;
  const size_t before = violations.size();
  for (size_t i = 0; i < list.size(); ++i) {
    for (int number = 0; number < field.message_type()->field_count(); ++number) {
      const FieldDescriptor& part = *field.message_type()->field(number);
      const bool is_file = part.type() == FieldDescriptor::TYPE_BYTES && list[i].is_object();
      const auto found = is_file ? list[i].find(part.name()) : json::iterator();
      if (!is_file || found == list[i].end()) continue;
      ReadFilesIn(absl::StrCat(field.name(), "[", i, "].", part.name()), *found, violations);
    }
  }
  return violations.size() == before;
}

// Gives scales by block in the objects of a list the form that protobuf's JSON has.
void ReadScalesOf(const FieldDescriptor& field, json& list) {
  if (!field.is_repeated() || field.message_type() == nullptr || !list.is_array()) return;
  for (json& object : list) {
    if (!object.is_object()) continue;
    for (int number = 0; number < field.message_type()->field_count(); ++number) {
      const FieldDescriptor& part = *field.message_type()->field(number);
      const Descriptor* type = part.message_type();
      if (type == nullptr || type->full_name() != "latent.v1.BlockScale") continue;
      const auto found = object.find(part.name());
      if (found != object.end()) *found = BlockScalesOf(*found);
    }
  }
}

}  // namespace

bool IsField(const Descriptor& type, absl::string_view name) { return Find(type, name) != nullptr; }

void SetField(absl::string_view name, const json& value, Message& request,
              std::vector<FieldViolation>& violations) {
  const FieldDescriptor& field = *Find(*request.GetDescriptor(), name);
  if (value.is_null() || SetBytes(field, value, request, violations)) return;
  json read = ToProtoJson(field, value);
  if (!ReadFilesOf(field, read, violations)) return;
  ReadScalesOf(field, read);
  const json object = {{field.name(), std::move(read)}};
  const std::unique_ptr<Message> one(request.New());
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      object.dump(-1, ' ', false, json::error_handler_t::replace), one.get());
  // A number for a text, too, which protobuf takes.
  const bool is_text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  if (parsed.ok() && (!is_text || value.is_string())) {
    request.MergeFrom(*one);
    return;
  }
  violations.push_back(
      {field.name(), absl::StrCat("must be ", TypeText(field), ", is ", Excerpt(value))});
}

std::optional<double> NumberOf(const json& value) {
  if (value.is_number()) return value.get<double>();
  double number = 0;
  if (!value.is_string()) return std::nullopt;
  if (!absl::SimpleAtod(value.get_ref<const std::string&>(), &number)) return std::nullopt;
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<int64_t> IntegerOf(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  const std::optional<double> number = NumberOf(value);
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!number || std::trunc(*number) != *number || std::abs(*number) > kExact) return std::nullopt;
  return static_cast<int64_t>(*number);
}

std::optional<bool> BooleanOf(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (!value.is_string()) return std::nullopt;
  const std::string text = absl::AsciiStrToLower(value.get_ref<const std::string&>());
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  return std::nullopt;
}

std::string Excerpt(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() <= kExcerptBytes) return text;
  return absl::StrCat(ToUtf8(absl::string_view(text).substr(0, kExcerptBytes)), "...");
}

}  // namespace latentd::server::http
