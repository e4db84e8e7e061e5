#include "tests/golden/command_line.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/errors/status_macros.h"

namespace latentd::golden {
namespace {

constexpr char kTf32[] = "tf32", kF8All[] = "fp8_all";

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::StatusOr<std::set<std::string>> ParseKinds(const std::string& value) {
  const std::set<std::string> kinds = absl::StrSplit(value, ',');
  for (const std::string& kind : kinds) {
    if (!Options().only.contains(kind)) {
      return Wrong(absl::StrCat("--only: \"", kind,
                                "\" is not one of networks, pictures, tokens, "
                                "videos"));
    }
  }
  return kinds;
}

absl::StatusOr<device::DType> ParsePrecision(const std::string& value) {
  if (value == "fp32" || value == kTf32) return device::DType::kF32;
  if (value == "bf16") return device::DType::kBF16;
  if (value == "fp16") return device::DType::kF16;
  if (value == "fp8" || value == kF8All) return device::DType::kF8E4M3;
  return Wrong(absl::StrCat("--precision: \"", value,
                            "\" is not one of fp32, bf16, fp16, fp8, fp8_all, tf32"));
}

absl::Status Set(const std::string& name, const std::string& value, Options& options) {
  if (value.empty()) return Wrong(absl::StrCat(name, " needs a value"));
  if (name == "--only") {
    ASSIGN_OR_RETURN(options.only, ParseKinds(value));
    return absl::OkStatus();
  }
  if (name == "--precision") {
    ASSIGN_OR_RETURN(options.precision, ParsePrecision(value));
    options.tf32 = value == kTf32;
    options.f8_convolutions = value == kF8All;
    return absl::OkStatus();
  }
  if (name == "--skip-pass") {
    options.skip_passes.insert(value);
    return absl::OkStatus();
  }
  if (name == "--backend" && value != "cpu" && value != "cuda" && value != "reference") {
    return Wrong(absl::StrCat("--backend: \"", value, "\" is not one of cpu, cuda, reference"));
  }
  const std::vector<std::pair<absl::string_view, std::string*>> fields = {
      {"--cases", &options.cases},
      {"--checkpoint", &options.checkpoint},
      {"--backend", &options.backend},
      {"--case", &options.case_name}};
  for (const auto& [field, target] : fields) {
    if (name != field) continue;
    *target = value;
    return absl::OkStatus();
  }
  return Wrong(absl::StrCat("unknown option ", name));
}

absl::Status CheckComplete(const Options& options) {
  if (options.cases.empty()) return Wrong("--cases is missing");
  if (options.tf32 && options.backend != "cuda") {
    return Wrong("--precision tf32 is of --backend cuda alone; others compute float32 as it is");
  }
  const bool needs_checkpoint =
      options.only.contains("pictures") || options.only.contains("tokens");
  if (needs_checkpoint && options.checkpoint.empty()) {
    return Wrong("--checkpoint is missing; pictures and tokens need it");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Options> ParseCommandLine(absl::Span<char* const> arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string argument = arguments[i];
    if (argument == "--full") {
      options.full = true;
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    std::string value;
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    }
    RETURN_IF_ERROR(Set(name, value, options));
  }
  RETURN_IF_ERROR(CheckComplete(options));
  return options;
}

}  // namespace latentd::golden
