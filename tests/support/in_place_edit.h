// Edits of a file that only its change time shows.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "core/base/files/files.h"

namespace latentd::testing {

// Does it until the file's change time is another: the kernel's clock stands for milliseconds.
inline void UntilItShows(const std::string& path, const std::function<void()>& change) {
  struct stat before, after;
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  do {
    ASSERT_NO_FATAL_FAILURE(change());
    ASSERT_EQ(stat(path.c_str(), &after), 0);
  } while (after.st_ctim.tv_sec == before.st_ctim.tv_sec &&
           after.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
}

// Writes `bytes`, as many as the file has, over its own, and sets its modification time back, as
// touch -r, cp -p and rsync --inplace -t do. Who has mapped the file sees the new bytes.
inline void EditInPlace(const std::string& path, const std::string& bytes) {
  struct stat before;
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  ASSERT_EQ(static_cast<size_t>(before.st_size), bytes.size());
  UntilItShows(path, [&] {
    const FileDescriptor file(open(path.c_str(), O_WRONLY));
    ASSERT_EQ(pwrite(file.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    const timespec times[2] = {before.st_atim, before.st_mtim};
    ASSERT_EQ(futimens(file.get(), times), 0);
  });
}

}  // namespace latentd::testing
