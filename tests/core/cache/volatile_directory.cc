#include "tests/core/cache/volatile_directory.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace latentd::testing {
namespace {

namespace fs = std::filesystem;

VolatileDirectory* active = nullptr;

std::string PathOf(int file) {
  std::error_code error;
  return fs::read_symlink(absl::StrCat("/proc/self/fd/", file), error).native();
}

ino_t InodeOf(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

VolatileDirectory::VolatileDirectory(std::string root) : root_(std::move(root)) {
  active = this;
  KeepNames(root_);
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root_)) {
    if (entry.is_directory()) KeepNames(entry.path());
    if (entry.is_regular_file()) KeepContent(entry.path());
  }
}

VolatileDirectory::~VolatileDirectory() { active = nullptr; }

bool VolatileDirectory::IsBelowRoot(const std::string& path) const {
  return path == root_ || absl::StartsWith(path, root_ + "/");
}

void VolatileDirectory::KeepNames(const std::string& directory) {
  std::map<std::string, ino_t> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (entry.is_regular_file()) names[entry.path().filename()] = InodeOf(entry.path());
  }
  names_[fs::relative(directory, root_)] = std::move(names);
}

void VolatileDirectory::KeepContent(const std::string& file) {
  contents_[InodeOf(file)] = Read(file);
}

void VolatileDirectory::Before(int file) {
  if (listener_ && IsBelowRoot(PathOf(file))) listener_();
}

void VolatileDirectory::After(int file) {
  const std::string path = PathOf(file);
  if (!IsBelowRoot(path)) return;
  if (fs::is_directory(path)) {
    KeepNames(path);
  } else {
    KeepContent(path);
  }
  if (listener_) listener_();
}

void VolatileDirectory::LosePower(const std::string& target) const {
  for (const auto& [directory, names] : names_) {
    const fs::path copy = fs::path(target) / directory;
    fs::create_directories(copy);
    for (const auto& [name, inode] : names) {
      const auto content = contents_.find(inode);  // none: its name was synced and it was not
      std::ofstream(copy / name, std::ios::binary)
          << (content == contents_.end() ? "" : content->second);
    }
  }
}

}  // namespace latentd::testing

// Takes the place of the C library's in this program.
extern "C" int fsync(int file) {
  static const auto real = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "fsync"));
  using latentd::testing::active;
  if (active != nullptr) active->Before(file);
  const int result = real(file);
  if (result == 0 && active != nullptr) active->After(file);
  return result;
}
