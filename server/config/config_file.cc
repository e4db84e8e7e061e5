#include "server/config/config_file.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace latentd::server::config {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;
using latent::v1::ServerConfig;

// Far more than the fields can take.
constexpr uintmax_t kMaxFileBytes = 1 << 20;

class LineErrors : public google::protobuf::io::ErrorCollector {
 public:
  explicit LineErrors(absl::string_view name) : name_(name) {}

  void AddError(int line, int column, const std::string& message) override {
    errors_.push_back(absl::StrCat(name_, ":", line + 1, ":", column + 1, ": ", message));
  }
  void AddWarning(int line, int column, const std::string& message) override {
    AddError(line, column, message);
  }

  bool empty() const { return errors_.empty(); }

  absl::Status status() const {
    return errors_.empty() ? absl::InvalidArgumentError(absl::StrCat(name_, ": cannot be read"))
                           : absl::InvalidArgumentError(absl::StrJoin(errors_, "\n"));
  }

 private:
  const std::string name_;
  std::vector<std::string> errors_;
};

std::string NamesOf(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 1; i < type.value_count(); ++i)
    names.push_back(type.value(i)->name());  // 0 is unset
  return absl::StrJoin(names, ", ");
}

// The text format takes any number for an enum, and the name of the value that means "unset".
void CheckEnums(const ServerConfig& config, const TextFormat::ParseInfoTree& locations,
                LineErrors& errors) {
  const google::protobuf::Reflection& reflection = *config.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(config, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) continue;
    const int number = reflection.GetEnumValue(config, field);
    if (number != 0 && field->enum_type()->FindValueByNumber(number) != nullptr) continue;
    const TextFormat::ParseLocation at = locations.GetLocation(field, -1);
    errors.AddError(at.line, at.column,
                    absl::StrCat(field->name(), ": ", number, ": must be one of ",
                                 NamesOf(*field->enum_type())));
  }
}

}  // namespace

absl::StatusOr<ServerConfig> ParseConfig(absl::string_view text, absl::string_view name) {
  LineErrors errors(name);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  ServerConfig config;
  TextFormat::ParseInfoTree locations;
  parser.WriteLocationsTo(&locations);
  if (!parser.ParseFromString(std::string(text), &config)) return errors.status();
  CheckEnums(config, locations, errors);
  if (!errors.empty()) return errors.status();
  return config;
}

absl::StatusOr<ServerConfig> ReadConfigFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return absl::UnknownError(absl::StrCat(path, ": ", std::strerror(errno)));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is larger than a configuration can be"));
  }
  return ParseConfig(text, path);
}

std::string PrintConfig(const ServerConfig& config) {
  std::string text;
  TextFormat::PrintToString(config, &text);
  return text;
}

}  // namespace latentd::server::config
