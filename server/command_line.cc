#include "server/command_line.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "core/base/error_details.h"
#include "core/base/status_macros.h"

namespace latentd::server {
namespace {

namespace v1 = ::latent::v1;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

constexpr char kHelp[] =
    R"(latentd serves pictures from Stable Diffusion XL checkpoints over gRPC.

  latentd                                     the demo checkpoint, on 127.0.0.1:50051
  latentd --base=DIR                          a diffusers checkpoint directory
  latentd --base=DIR --refiner=DIR            base and refiner

Then, in another terminal:  latent generate "a large yellow star on a purple background"

What to serve
  --base=DIR              the base: a diffusers directory, with model_index.json in it
  --refiner=DIR           the refiner: the same
  --variant=NAME          fp16 reads *.fp16.safetensors; without it: files without a suffix, else fp16
  --backend=NAME          cpu (default), or reference: slow, in plain fp32, to compare with

Where
  --listen=ADDRESS        HOST:PORT or unix:PATH (default 127.0.0.1:50051); port 0 picks a free one and logs it

How much
  --threads=N             for computing (default: as many as this process may use)
  --memory=SIZE           budget, such as 8GiB (default: what the machine and its cgroup allow)
  --queue-capacity=N      pictures that may wait before requests are refused (default 64)
  --max-request-bytes=N   of one request, its picture included (default 32MiB)

Operation
  --drain-timeout=TIME    how long SIGTERM lets running requests finish (default 30s); a second signal ends at once
  --log-format=FORMAT     text (default) or json, on standard error
  --log-level=LEVEL       debug, info (default), warning, error
  --config=FILE           the same settings from a file, in protobuf's text format; flags win
  --print-config          print what flags, file and defaults come to, as such a file, and exit
  --version               print the version and exit
  --help                  print this and exit

Exit codes: 0 stopped by a signal, 1 could not start or failed, 2 wrong flags or configuration.
)";

absl::Status Usage(absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(message, " (latentd --help lists the flags)"));
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

absl::Status SetField(v1::ServerConfig& config, const FieldDescriptor& field,
                      absl::string_view flag, const std::string& value) {
  const Reflection& reflection = *config.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    return SetEnum(config, field, flag, value);
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    int32_t number = 0;
    if (!absl::SimpleAtoi(value, &number)) {
      return Usage(absl::StrCat("--", flag, "=", Excerpt(value), ": must be a whole number"));
    }
    reflection.SetInt32(&config, &field, number);
    return absl::OkStatus();
  }
  reflection.SetString(&config, &field, value);
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
    return Setting(flag, std::move(value));
  }

  absl::Status Switch(bool& flag, const std::optional<std::string>& value, absl::string_view name) {
    if (value) return Usage(absl::StrCat("--", name, " takes no value"));
    flag = true;
    return absl::OkStatus();
  }

  absl::Status Setting(const std::string& flag, std::optional<std::string> value) {
    const FieldDescriptor* field =
        v1::ServerConfig::descriptor()->FindFieldByName(absl::StrReplaceAll(flag, {{"-", "_"}}));
    if ((field == nullptr && flag != "config") || absl::StrContains(flag, "_")) {
      return Usage(absl::StrCat("there is no flag --", Excerpt(flag)));
    }
    if (!value) {
      if (next_ == arguments_.size()) return Usage(absl::StrCat("--", flag, " needs a value"));
      value = arguments_[next_++];
    }
    if (flag != "config") return SetField(line_.flags, *field, flag, *value);
    line_.config_file = *value;
    return absl::OkStatus();
  }

  const std::vector<std::string>& arguments_;
  size_t next_ = 0;
  CommandLine line_;
};

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  return Parser(arguments).Parse();
}

std::string HelpText() { return kHelp; }

}  // namespace latentd::server
