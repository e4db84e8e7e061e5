#include "server/config/flag_values.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/duration_text.h"
#include "core/base/text/text.h"

namespace latentd::server::config {
namespace {

constexpr absl::Duration kMaxTimeout = absl::Hours(24);
constexpr absl::string_view kUnixPrefix = "unix:";
// Limits for sides of a bucket, as for a request's width and height.
constexpr int kMinSide = 64;
constexpr int kMaxSide = 2048;
constexpr int kSideMultiple = 8;

bool IsPort(absl::string_view text) {
  int port = -1;
  return std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, &port) && port <= 65535;
}

bool IsIpv6(absl::string_view text) {
  in6_addr address = {};
  return inet_pton(AF_INET6, std::string(text.substr(0, text.find('%'))).c_str(), &address) == 1;
}

// True for a scheme of gRPC's own addresses, which have a host and a port behind it.
bool IsScheme(absl::string_view text) { return text == "dns" || text == "ipv4" || text == "ipv6"; }

// The reason why it is not HOST:PORT; empty where it is. A name is not looked up.
std::string WhyNotHostAndPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  absl::string_view host = address.substr(0, colon);
  if (absl::StrContains(address, "://") || IsScheme(address.substr(0, host.find(':')))) {
    return "it begins with the host";
  }
  if (colon == absl::string_view::npos || absl::EndsWith(address, "]")) {
    return "the port is missing";
  }
  if (host.empty()) return "the host is missing: 0.0.0.0 and [::] are all addresses";
  const bool is_bracketed = absl::StartsWith(host, "[") && absl::ConsumeSuffix(&host, "]");
  const bool is_host =
      is_bracketed ? IsIpv6(host.substr(1)) : host.find_first_of("[]:") == host.npos;
  if (!is_host) return "an IPv6 address, and nothing else, stands in brackets: [::1]:50051";
  if (!IsPort(address.substr(colon + 1))) return "the port is a number from 0 to 65535";
  return "";
}

absl::Status CheckTcp(absl::string_view flag, absl::string_view address, absl::string_view right) {
  const std::string why_not = WhyNotHostAndPort(address);
  if (why_not.empty()) return absl::OkStatus();
  return WrongValue(flag, address, absl::StrCat(right, "; ", why_not));
}

std::optional<double> ToNumberOfBytes(absl::string_view text) {
  static constexpr std::pair<absl::string_view, double> kUnits[] = {
      {"KiB", 1024.0}, {"MiB", 1024.0 * 1024}, {"GiB", 1024.0 * 1024 * 1024}, {"", 1.0}};
  for (const auto& [unit, factor] : kUnits) {
    absl::string_view number = text;
    if (!absl::ConsumeSuffix(&number, unit)) continue;
    double value = 0;
    if (!absl::SimpleAtod(number, &value) || !(value >= 0) || value * factor > 1e15) break;
    return value * factor;
  }
  return std::nullopt;
}

bool IsSide(int side) { return side >= kMinSide && side <= kMaxSide && side % kSideMultiple == 0; }

std::optional<pipeline::Size> ToSize(absl::string_view text) {
  const std::vector<absl::string_view> sides = absl::StrSplit(text, 'x');
  pipeline::Size size;
  const bool parsed = sides.size() == 2 && absl::SimpleAtoi(sides[0], &size.width) &&
                      absl::SimpleAtoi(sides[1], &size.height);
  if (!parsed || !IsSide(size.width) || !IsSide(size.height)) return std::nullopt;
  return size;
}

constexpr absl::string_view kFloat32 = "fp32", kTf32 = "tf32", kF8 = "fp8", kF8All = "fp8_all";

bool IsF8(absl::string_view text) { return text == kF8 || text == kF8All; }

std::optional<engine::DType> ToDType(absl::string_view text) {
  if (text == kFloat32 || text == kTf32) return engine::DType::kF32;
  if (text == "bf16") return engine::DType::kBF16;
  if (text == "fp16") return engine::DType::kF16;
  if (IsF8(text)) return engine::DType::kF8E4M3;
  return std::nullopt;
}

std::optional<engine::ComponentMode> ToMode(absl::string_view text) {
  if (text == "compiled") return engine::ComponentMode::kCompiled;
  if (text == "reference") return engine::ComponentMode::kReference;
  if (text == "off") return engine::ComponentMode::kOff;
  return std::nullopt;
}

bool IsName(absl::string_view text) {
  const auto allowed = [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '_';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), allowed);
}

// The parts between commas, without the blanks around them; none for an empty text.
std::vector<absl::string_view> Parts(absl::string_view text) {
  std::vector<absl::string_view> parts;
  if (absl::StripAsciiWhitespace(text).empty()) return parts;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    parts.push_back(absl::StripAsciiWhitespace(part));
  }
  return parts;
}

template <typename T>
bool Contains(const std::vector<T>& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// How precisions are spelled, by component; those of all that has none of its own, by "".
using PrecisionWords = std::map<absl::string_view, absl::string_view>;
constexpr absl::string_view kEveryComponent;

absl::StatusOr<PrecisionWords> ToPrecisionWords(absl::string_view flag, absl::string_view text) {
  const std::string right = absl::StrCat(
      "PRECISION or COMPONENT=PRECISION, where PRECISION is one of fp32, bf16, fp16, fp8, fp8_all, "
      "tf32 and COMPONENT one of ",
      absl::StrJoin(engine::kComponentNames, ", "));
  PrecisionWords words;
  for (const absl::string_view part : Parts(text)) {
    const size_t equals = part.find('=');
    const bool is_named = equals != absl::string_view::npos;
    const absl::string_view component = is_named ? part.substr(0, equals) : kEveryComponent;
    const absl::string_view word = is_named ? part.substr(equals + 1) : part;
    if (!ToDType(word) || (is_named && !engine::IsComponentName(component)))
      return WrongValue(flag, part, right);
    if (words.emplace(component, word).second) continue;
    return WrongValue(
        flag, part,
        is_named ? "the only precision of that component" : "the only precision of all components");
  }
  return words;
}

bool IsUnet(absl::string_view component) { return absl::StartsWith(component, "unet_"); }

// OK unless fp8 is asked for by the name of what has none.
absl::Status CheckF8(absl::string_view flag, absl::string_view text, const PrecisionWords& words) {
  for (const auto& [component, word] : words) {
    if (!IsF8(word) || component == kEveryComponent || IsUnet(component)) continue;
    return WrongValue(flag, text,
                      "fp8 for all components or for a UNet: the others compute in bf16 beside it, "
                      "so that bf16 is the word for them");
  }
  return absl::OkStatus();
}

bool Contains(const PrecisionWords& words, absl::string_view word) {
  return std::any_of(words.begin(), words.end(),
                     [&](const auto& each) { return each.second == word; });
}

}  // namespace

absl::Status WrongValue(absl::string_view flag, absl::string_view value, absl::string_view right) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", Excerpt(value), ": must be ", right));
}

absl::Status CheckRange(absl::string_view flag, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return WrongValue(flag, absl::StrCat(value), absl::StrCat(low, " to ", high));
}

absl::Status CheckPredictionType(absl::string_view flag, absl::string_view text) {
  for (const absl::string_view right : {"", "epsilon", "v_prediction", "sample"}) {
    if (text == right) return absl::OkStatus();
  }
  return WrongValue(flag, text, "epsilon, v_prediction or sample");
}

absl::StatusOr<int64_t> ToBytes(absl::string_view flag, absl::string_view text) {
  const std::optional<double> bytes = ToNumberOfBytes(text);
  if (!bytes) return WrongValue(flag, text, "a number of bytes, such as 64MiB or 2GiB");
  return static_cast<int64_t>(std::llround(*bytes));
}

absl::StatusOr<absl::Duration> ToTimeout(absl::string_view flag, const std::string& text) {
  const std::optional<absl::Duration> timeout = ParseDurationText(text);
  if (!timeout || *timeout < absl::ZeroDuration() || *timeout > kMaxTimeout) {
    return WrongValue(flag, text, "a duration of at most 24h, such as 30s, 1m30s or 30 (seconds)");
  }
  return *timeout;
}

absl::Status CheckAddress(absl::string_view flag, absl::string_view address) {
  constexpr absl::string_view kRight = "HOST:PORT or unix:PATH, such as 127.0.0.1:50051";
  absl::string_view path = address;
  if (!absl::ConsumePrefix(&path, kUnixPrefix)) return CheckTcp(flag, address, kRight);
  return path.empty() ? WrongValue(flag, address, kRight) : absl::OkStatus();
}

absl::Status CheckTcpAddress(absl::string_view flag, absl::string_view address) {
  constexpr absl::string_view kRight = "HOST:PORT, such as 127.0.0.1:9464";
  if (absl::StartsWith(address, kUnixPrefix)) return WrongValue(flag, address, kRight);
  return CheckTcp(flag, address, kRight);
}

absl::StatusOr<std::vector<pipeline::Size>> ToSizes(absl::string_view flag,
                                                    absl::string_view text) {
  std::vector<pipeline::Size> sizes;
  for (const absl::string_view part : Parts(text)) {
    const std::optional<pipeline::Size> size = ToSize(part);
    if (!size) {
      return WrongValue(
          flag, part,
          absl::StrCat("sizes of which each side is a multiple of ", kSideMultiple, " from ",
                       kMinSide, " to ", kMaxSide, ", such as 1024x1024,832x1216"));
    }
    if (Contains(sizes, *size)) return WrongValue(flag, part, "named once");
    sizes.push_back(*size);
  }
  if (sizes.size() > kMaxBuckets) {
    return WrongValue(flag, text, absl::StrCat("at most ", kMaxBuckets, " sizes"));
  }
  return sizes;
}

absl::StatusOr<std::optional<int64_t>> ToArea(absl::string_view flag, absl::string_view text) {
  ASSIGN_OR_RETURN(const std::vector<pipeline::Size> sizes, ToSizes(flag, text));
  if (sizes.size() > 1) return WrongValue(flag, text, "one size, such as 1536x1536");
  if (sizes.empty()) return std::nullopt;
  return int64_t{sizes.front().width} * sizes.front().height;
}

absl::StatusOr<std::vector<int>> ToRows(absl::string_view flag, absl::string_view text) {
  const std::string right =
      absl::StrCat("whole numbers from 1 to ", engine::kMostRows, ", such as 1,2");
  std::vector<int> rows;
  for (const absl::string_view part : Parts(text)) {
    int row = 0;
    if (!absl::SimpleAtoi(part, &row) || row < 1 || row > engine::kMostRows) {
      return WrongValue(flag, part, right);
    }
    if (Contains(rows, row)) return WrongValue(flag, part, "named once");
    rows.push_back(row);
  }
  return rows;
}

absl::StatusOr<std::vector<int>> ToDevices(absl::string_view flag, absl::string_view text) {
  std::vector<int> devices;
  for (const absl::string_view part : Parts(text)) {
    int device = 0;
    if (!absl::SimpleAtoi(part, &device) || device < 0) {
      return WrongValue(flag, part, "numbers of GPUs from 0 on, such as 0,1");
    }
    if (Contains(devices, device)) return WrongValue(flag, part, "named once");
    devices.push_back(device);
  }
  return devices;
}

absl::StatusOr<engine::Split> ToSplit(absl::string_view flag, absl::string_view text) {
  if (text.empty() || text == "never") return engine::Split::kNever;
  if (text == "auto") return engine::Split::kAuto;
  if (text == "always") return engine::Split::kAlways;
  return WrongValue(flag, text, "never, auto or always");
}

absl::StatusOr<pipeline::Placement> ToPlacement(absl::string_view flag, absl::string_view text) {
  if (text.empty() || text == "all") return pipeline::Placement::kAll;
  if (text == "budget") return pipeline::Placement::kBudget;
  return WrongValue(flag, text, "all or budget");
}

absl::StatusOr<std::map<std::string, engine::ComponentMode>> ToModes(absl::string_view flag,
                                                                     absl::string_view text) {
  std::map<std::string, engine::ComponentMode> modes;
  for (const absl::string_view part : Parts(text)) {
    const std::pair<absl::string_view, absl::string_view> words =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const std::optional<engine::ComponentMode> mode = ToMode(words.second);
    if (!engine::IsComponentName(words.first)) {
      return WrongValue(flag, part,
                        absl::StrCat("COMPONENT=MODE, where COMPONENT is one of ",
                                     absl::StrJoin(engine::kComponentNames, ", ")));
    }
    if (!mode) {
      return WrongValue(flag, part,
                        "COMPONENT=MODE, where MODE is one of compiled, reference, off");
    }
    if (!modes.emplace(words.first, *mode).second) {
      return WrongValue(flag, part, "the only mode of that component");
    }
  }
  return modes;
}

absl::StatusOr<Precision> ToPrecision(absl::string_view flag, absl::string_view text,
                                      absl::string_view otherwise) {
  ASSIGN_OR_RETURN(PrecisionWords words, ToPrecisionWords(flag, text));
  const bool tf32 = Contains(words, kTf32);
  if (tf32 && Contains(words, kFloat32)) {
    return WrongValue(flag, text,
                      "fp32 or tf32, not both: all that a server computes in float32 is with TF32, "
                      "or nothing is");
  }
  const bool f8_convolutions = Contains(words, kF8All);
  if (f8_convolutions && Contains(words, kF8)) {
    return WrongValue(flag, text,
                      "fp8 or fp8_all, not both: all UNets that a server computes in 8 bits have "
                      "convolutions in them, or none has");
  }
  RETURN_IF_ERROR(CheckF8(flag, text, words));
  words.emplace(kEveryComponent, otherwise);
  Precision precision{.components = {}, .tf32 = tf32, .f8_convolutions = f8_convolutions};
  for (const absl::string_view component : engine::kComponentNames) {
    const auto own = words.find(component);
    const absl::string_view word = own == words.end() ? words[kEveryComponent] : own->second;
    const bool beside = IsF8(word) && !IsUnet(component);
    precision.components.emplace(component, beside ? engine::DType::kBF16 : *ToDType(word));
  }
  return precision;
}

absl::StatusOr<std::map<std::string, int, std::less<>>> ToCallerPriorities(absl::string_view flag,
                                                                           absl::string_view text) {
  std::map<std::string, int, std::less<>> priorities;
  for (const absl::string_view part : Parts(text)) {
    const size_t equals = part.rfind('=');  // a name may have one, such as a URI
    int priority = -1;
    if (equals == absl::string_view::npos || equals == 0 ||
        !absl::SimpleAtoi(part.substr(equals + 1), &priority) || priority < 0 ||
        priority > engine::kMaxPriority) {
      return WrongValue(flag, part,
                        absl::StrCat("NAME=N, where N is 0 to ", engine::kMaxPriority,
                                     ", such as renderer.example.org=2"));
    }
    if (!priorities.emplace(part.substr(0, equals), priority).second) {
      return WrongValue(flag, part, "the only priority of that caller");
    }
  }
  return priorities;
}

absl::StatusOr<std::vector<std::string>> ToOrigins(absl::string_view flag, absl::string_view text) {
  std::vector<std::string> origins;
  for (const absl::string_view part : Parts(text)) {
    absl::string_view host = part;
    const bool has_scheme =
        absl::ConsumePrefix(&host, "https://") || absl::ConsumePrefix(&host, "http://");
    const bool is_host = !host.empty() && host.find_first_of("/?#@* ") == absl::string_view::npos;
    if (part != "*" && !(has_scheme && is_host)) {
      return WrongValue(flag, part,
                        "an origin, such as https://app.example.org or http://localhost:3000, "
                        "without a path; or *, which is any page at all");
    }
    origins.push_back(absl::AsciiStrToLower(part));
  }
  return origins;
}

absl::StatusOr<std::vector<std::string>> ToNames(absl::string_view flag, absl::string_view text) {
  std::vector<std::string> names;
  for (const absl::string_view part : Parts(text)) {
    if (!IsName(part)) {
      return WrongValue(flag, part, "names separated by commas, such as epilogues,image_layout");
    }
    names.emplace_back(part);
  }
  return names;
}

}  // namespace latentd::server::config
