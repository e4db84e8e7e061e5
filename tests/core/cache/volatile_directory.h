// A directory as a loss of power would leave it: only what was synced. Of a file, what its last
// fsync wrote out; of a directory, the names that were in it at its last fsync. A real disk may
// keep more; it may not keep less.
//
// It sees the process's calls of fsync (volatile_directory.cc defines it), so that code under test
// stays as it is. One at a time. Not thread-safe: only the thread that made it may sync files of
// the directory.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>

namespace latentd::testing {

class VolatileDirectory {
 public:
  // Files in `root` and its subdirectories count as synced now, and the subdirectories themselves
  // always do.
  explicit VolatileDirectory(std::string root);
  ~VolatileDirectory();
  VolatileDirectory(const VolatileDirectory&) = delete;
  VolatileDirectory& operator=(const VolatileDirectory&) = delete;

  // Writes what a loss of power now would leave into `target`, a new directory.
  void LosePower(const std::string& target) const;

  // Called before and after every fsync of something in the directory.
  void OnSync(std::function<void()> listener) { listener_ = std::move(listener); }

  // For fsync.
  void Before(int file);
  void After(int file);

 private:
  bool IsBelowRoot(const std::string& path) const;
  void KeepNames(const std::string& directory);
  void KeepContent(const std::string& file);

  const std::string root_;
  std::map<std::string, std::map<std::string, ino_t>> names_;  // by directory
  std::map<ino_t, std::string> contents_;
  std::function<void()> listener_;
};

}  // namespace latentd::testing
