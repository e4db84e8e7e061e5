#include "server/tracing/trace_parent.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"

namespace latentd::server::tracing {
namespace {

bool IsHex(absl::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

bool IsZero(absl::string_view text) { return text.find_first_not_of('0') == text.npos; }

}  // namespace

std::optional<TraceParent> ParseTraceParent(absl::string_view header) {
  const std::vector<absl::string_view> parts = absl::StrSplit(header, '-');
  if (parts.size() < 4) return std::nullopt;
  const absl::string_view version = parts[0], trace = parts[1], parent = parts[2], flags = parts[3];
  const bool is_valid = IsHex(version, 2) && version != "ff" && IsHex(trace, 32) &&
                        !IsZero(trace) && IsHex(parent, 16) && !IsZero(parent) && IsHex(flags, 2) &&
                        (version != "00" || parts.size() == 4);
  if (!is_valid) return std::nullopt;
  const bool sampled = (absl::HexStringToBytes(flags)[0] & 1) != 0;
  return TraceParent{std::string(trace), std::string(parent), sampled};
}

}  // namespace latentd::server::tracing
