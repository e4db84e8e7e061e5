#include "core/base/process/cgroup.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/files/files.h"

namespace latentd {
namespace {

constexpr absl::string_view kMount = "/sys/fs/cgroup";
constexpr size_t kMaxMembershipBytes = 1 << 20;

// mount/a/b, mount/a, mount for the group "/a/b". A group outside of the namespace ("/../x") has
// nothing to read but the root.
void AppendUpwards(const std::string& mount, absl::string_view group, int version,
                   std::vector<CgroupDirectory>* directories) {
  std::vector<absl::string_view> parts = absl::StrSplit(group, '/', absl::SkipEmpty());
  if (std::find(parts.begin(), parts.end(), "..") != parts.end()) parts.clear();
  std::vector<std::string> paths = {mount};
  for (absl::string_view part : parts) paths.push_back(absl::StrCat(paths.back(), "/", part));
  std::reverse(paths.begin(), paths.end());
  for (std::string& path : paths) directories->push_back({std::move(path), version});
}

}  // namespace

std::vector<CgroupDirectory> CgroupDirectories(absl::string_view membership,
                                               absl::string_view controller) {
  std::vector<CgroupDirectory> directories;
  // Each line is "hierarchy:controllers:group"; version 2 is hierarchy 0 without controllers.
  for (absl::string_view line : absl::StrSplit(membership, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    if (fields[1].empty()) {
      AppendUpwards(std::string(kMount), fields[2], 2, &directories);
      continue;
    }
    const std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    if (std::find(controllers.begin(), controllers.end(), controller) == controllers.end()) {
      continue;
    }
    AppendUpwards(absl::StrCat(kMount, "/", controller), fields[2], 1, &directories);
  }
  return directories;
}

std::vector<CgroupDirectory> OwnCgroupDirectories(absl::string_view controller) {
  const absl::StatusOr<std::string> membership = ReadFile("/proc/self/cgroup", kMaxMembershipBytes);
  if (!membership.ok()) return {};
  return CgroupDirectories(*membership, controller);
}

}  // namespace latentd
