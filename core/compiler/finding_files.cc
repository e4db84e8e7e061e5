#include "core/compiler/finding_files.h"

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"

namespace latentd::compiler {
namespace {

constexpr cache::Kind kKind = cache::Kind::kFinding;

// The build that FindingFiles::KeyOf puts behind the line of the shape.
std::optional<BuildKey> BuildOf(absl::string_view key) {
  const size_t end = key.find('\n');
  if (end == absl::string_view::npos) return std::nullopt;
  return BuildKey::FromText(key.substr(end + 1));
}

}  // namespace

std::string FindingFiles::KeyOf(absl::string_view shape) const {
  return absl::StrCat("shape ", shape, "\n", build_.ToText());
}

absl::StatusOr<std::string> FindingFiles::Read(absl::string_view shape) const {
  ASSIGN_OR_RETURN(const cache::Entry entry, disk_.Read(kKind, KeyOf(shape)));
  return std::string(entry.payload());
}

absl::Status FindingFiles::Write(absl::string_view shape, absl::string_view choice) const {
  return disk_.Write(kKind, KeyOf(shape), choice);
}

std::optional<std::string> FindingFiles::WhyNone() const {
  std::optional<std::string> why;
  for (const cache::EntryInfo& info : disk_.List(kKind)) {
    const std::optional<BuildKey> build = BuildOf(info.key);
    if (!build.has_value()) continue;
    if (*build == build_) return std::nullopt;
    if (!why.has_value()) why = Difference(*build, build_);
  }
  return why;
}

}  // namespace latentd::compiler
