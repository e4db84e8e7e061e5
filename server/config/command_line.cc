#include "server/config/command_line.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"

namespace latentd::server::config {
namespace {

namespace v1 = ::latent::v1;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

absl::Status Usage(absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(message, " (latentd --help lists the flags)"));
}

bool IsBool(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
}

// The field of a flag, which is spelled with dashes; null: there is none.
const FieldDescriptor* FindField(absl::string_view flag) {
  if (absl::StrContains(flag, '_')) return nullptr;
  return v1::ServerConfig::descriptor()->FindFieldByName(absl::StrReplaceAll(flag, {{"-", "_"}}));
}

// --noNAME and --no-NAME; null: there is no such switch.
const FieldDescriptor* FindNegated(absl::string_view flag) {
  if (!absl::ConsumePrefix(&flag, "no")) return nullptr;
  absl::ConsumePrefix(&flag, "-");
  const FieldDescriptor* field = FindField(flag);
  return field != nullptr && IsBool(*field) ? field : nullptr;
}

std::string EnumNames(const FieldDescriptor& field) {
  std::vector<std::string> names;
  for (int i = 1; i < field.enum_type()->value_count(); ++i) {  // 0 is "unspecified"
    names.push_back(absl::AsciiStrToLower(field.enum_type()->value(i)->name()));
  }
  return absl::StrJoin(names, ", ");
}

absl::Status SetEnum(v1::ServerConfig& config, const FieldDescriptor& field, absl::string_view flag,
                     const std::string& value) {
  const EnumValueDescriptor* found =
      field.enum_type()->FindValueByName(absl::AsciiStrToUpper(value));
  if (found == nullptr || found->number() == 0) {
    return Usage(
        absl::StrCat("--", flag, "=", Excerpt(value), ": must be one of ", EnumNames(field)));
  }
  config.GetReflection()->SetEnum(&config, &field, found);
  return absl::OkStatus();
}

absl::Status SetBool(v1::ServerConfig& config, const FieldDescriptor& field, absl::string_view flag,
                     const std::string& value) {
  bool on = false;
  if (!absl::SimpleAtob(value, &on)) {
    return Usage(absl::StrCat("--", flag, "=", Excerpt(value), ": must be true or false"));
  }
  config.GetReflection()->SetBool(&config, &field, on);
  return absl::OkStatus();
}

absl::Status SetField(v1::ServerConfig& config, const FieldDescriptor& field,
                      absl::string_view flag, const std::string& value) {
  const Reflection& reflection = *config.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    return SetEnum(config, field, flag, value);
  }
  if (IsBool(field)) return SetBool(config, field, flag, value);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    int32_t number = 0;
    if (!absl::SimpleAtoi(value, &number)) {
      return Usage(absl::StrCat("--", flag, "=", Excerpt(value), ": must be a whole number"));
    }
    reflection.SetInt32(&config, &field, number);
    return absl::OkStatus();
  }
  if (field.is_repeated()) {
    reflection.AddString(&config, &field, value);
  } else {
    reflection.SetString(&config, &field, value);
  }
  return absl::OkStatus();
}

// Reads the arguments one by one.
class Parser {
 public:
  explicit Parser(const std::vector<std::string>& arguments) : arguments_(arguments) {}

  absl::StatusOr<CommandLine> Parse() {
    while (next_ < arguments_.size()) RETURN_IF_ERROR(ParseOne(arguments_[next_++]));
    return line_;
  }

 private:
  absl::Status ParseOne(const std::string& argument) {
    if (argument == "-h") return Switch(line_.help, std::nullopt, "help");
    if (!absl::StartsWith(argument, "--")) {
      return Usage(absl::StrCat("latentd takes flags only, not '", Excerpt(argument), "'"));
    }
    const size_t equals = argument.find('=');
    const std::string flag = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = argument.substr(equals + 1);
    if (flag == "help") return Switch(line_.help, value, flag);
    if (flag == "version") return Switch(line_.version, value, flag);
    if (flag == "print-config") return Switch(line_.print_config, value, flag);
    if (flag == "exit-when-ready") return Switch(line_.exit_when_ready, value, flag);
    if (flag == "exit-if-degraded") return Switch(line_.exit_if_degraded, value, flag);
    return Setting(flag, std::move(value));
  }

  absl::Status Switch(bool& flag, const std::optional<std::string>& value, absl::string_view name) {
    if (value) return Usage(absl::StrCat("--", name, " takes no value"));
    flag = true;
    return absl::OkStatus();
  }

  // A second value would silently replace the first: the wrong one, where a script adds flags.
  absl::Status CheckFirst(const std::string& flag, const std::string& value) {
    const auto [first, is_first] = given_.emplace(flag, value);
    if (is_first || first->second == value) return absl::OkStatus();
    return Usage(absl::StrCat("--", flag, " is given twice, as '", Excerpt(first->second),
                              "' and as '", Excerpt(value), "'"));
  }

  absl::Status Setting(const std::string& flag, std::optional<std::string> value) {
    const FieldDescriptor* field = FindField(flag);
    if (field == nullptr && flag != "config") return Negation(flag, value);
    if (!value && field != nullptr && IsBool(*field)) value = "true";
    if (!value) {
      if (next_ == arguments_.size()) return Usage(absl::StrCat("--", flag, " needs a value"));
      value = arguments_[next_++];
    }
    const bool repeats = field != nullptr && field->is_repeated();
    if (!repeats) RETURN_IF_ERROR(CheckFirst(flag, *value));
    if (flag != "config") return SetField(line_.flags, *field, flag, *value);
    line_.config_file = *value;
    return absl::OkStatus();
  }

  absl::Status Negation(const std::string& flag, const std::optional<std::string>& value) {
    const FieldDescriptor* field = FindNegated(flag);
    if (field == nullptr) return Usage(absl::StrCat("there is no flag --", Excerpt(flag)));
    if (value) return Usage(absl::StrCat("--", flag, " takes no value"));
    RETURN_IF_ERROR(CheckFirst(absl::StrReplaceAll(field->name(), {{"_", "-"}}), "false"));
    return SetField(line_.flags, *field, flag, "false");
  }

  const std::vector<std::string>& arguments_;
  size_t next_ = 0;
  CommandLine line_;
  std::map<std::string, std::string> given_;  // values, by flag
};

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  return Parser(arguments).Parse();
}

}  // namespace latentd::server::config
