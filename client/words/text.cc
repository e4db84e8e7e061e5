#include "client/words/text.h"

#include <google/protobuf/wrappers.pb.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/text/text.h"

namespace latentd::client {

std::string BytesText(int64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes == 0) return "0";
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string DurationText(const google::protobuf::Duration& duration) {
  const double seconds = static_cast<double>(duration.seconds()) + duration.nanos() / 1e9;
  if (seconds <= 0) return "-";
  if (seconds < 0.1) return absl::StrFormat("%.3f s", seconds);
  if (seconds < 120) return absl::StrFormat("%.1f s", seconds);
  return absl::StrFormat("%.0f min", seconds / 60);
}

std::string AgoText(absl::Time time, absl::Time now) {
  if (time == absl::InfinitePast()) return "never";
  constexpr int64_t kHour = 3600, kDay = 24 * kHour;
  const int64_t seconds = std::max<int64_t>(absl::ToInt64Seconds(now - time), 0);
  if (seconds < 120) return absl::StrCat(seconds, " s ago");
  if (seconds < 2 * kHour) return absl::StrCat(seconds / 60, " min ago");
  if (seconds < 2 * kDay) return absl::StrCat(seconds / kHour, " h ago");
  return absl::StrCat(seconds / kDay, " d ago");
}

std::string SizeText(const ::latent::v1::Size& size) {
  return size.width() == 0 ? "-" : latentd::SizeText(size.width(), size.height());
}

std::string SizeText(const ::latent::v1::BucketSize& size) {
  if (size.width() == 0) return "-";
  const std::string sides = latentd::SizeText(size.width(), size.height());
  return size.num_frames() == 0 ? sides : absl::StrCat(sides, "x", size.num_frames());
}

std::string TableText(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      absl::StrAppend(&text, row[i], last ? "\n" : std::string(widths[i] - row[i].size() + 2, ' '));
    }
  }
  return text;
}

bool IsUtf8(const std::string& text) {
  google::protobuf::StringValue written, read;
  written.set_value(text);
  return read.ParseFromString(written.SerializeAsString());
}

}  // namespace latentd::client
