#include "server/calls/trace_parent.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace latentd::server::calls {
namespace {

bool IsHex(absl::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

bool IsZero(absl::string_view text) { return text.find_first_not_of('0') == text.npos; }

}  // namespace

std::string TraceIdOf(absl::string_view traceparent) {
  const std::vector<absl::string_view> parts = absl::StrSplit(traceparent, '-');
  if (parts.size() < 4) return "";
  const absl::string_view version = parts[0], trace = parts[1], parent = parts[2];
  const bool is_valid = IsHex(version, 2) && version != "ff" && IsHex(trace, 32) &&
                        !IsZero(trace) && IsHex(parent, 16) && !IsZero(parent) &&
                        IsHex(parts[3], 2) && (version != "00" || parts.size() == 4);
  return is_valid ? std::string(trace) : "";
}

}  // namespace latentd::server::calls
