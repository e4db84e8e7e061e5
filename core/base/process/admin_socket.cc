#include "core/base/process/admin_socket.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace latentd {

std::string AdminSocketFolder(const char* xdg_runtime_dir, uid_t user) {
  // The XDG base directory specification has relative paths ignored.
  if (xdg_runtime_dir != nullptr && xdg_runtime_dir[0] == '/') {
    return absl::StrCat(xdg_runtime_dir, "/latentd");
  }
  return absl::StrCat("/tmp/latentd-", user);
}

std::string AdminSocketFolder() {
  return AdminSocketFolder(std::getenv("XDG_RUNTIME_DIR"), geteuid());
}

std::string AdminSocketAddress(absl::string_view folder, absl::string_view port) {
  return absl::StrCat("unix:", folder, "/", port, ".sock");
}

absl::Status CheckOwnFolder(const std::string& folder) {
  struct stat found = {};
  if (lstat(folder.c_str(), &found) != 0) {
    const std::string reason = absl::StrCat(folder, ": ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(reason) : absl::FailedPreconditionError(reason);
  }
  if (!S_ISDIR(found.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(folder, " is no folder"));
  }
  if (found.st_uid != geteuid()) {
    return absl::FailedPreconditionError(absl::StrCat(folder, " belongs to another user"));
  }
  if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("others may enter ", folder, ": chmod 0700 it"));
  }
  return absl::OkStatus();
}

absl::Status MakeOwnFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make ", folder, ": ", std::strerror(errno)));
  }
  return CheckOwnFolder(folder);
}

}  // namespace latentd
