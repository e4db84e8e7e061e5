#include "core/base/text/duration_text.h"

#include <cmath>

#include "absl/strings/numbers.h"

namespace latentd {

std::optional<absl::Duration> ParseDurationText(absl::string_view text) {
  absl::Duration duration;
  if (absl::ParseDuration(text, &duration)) return duration;
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds) || !std::isfinite(seconds)) return std::nullopt;
  return absl::Seconds(seconds);
}

}  // namespace latentd
