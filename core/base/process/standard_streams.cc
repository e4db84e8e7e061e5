#include "core/base/process/standard_streams.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

namespace latentd {
namespace {

// By the kernel's calls: a sanitizer's own are not there yet. Takes the lowest number that is free,
// which is `number` where those below it are open.
void OpenIfClosed(int number, int mode) {
  if (syscall(SYS_fcntl, number, F_GETFD) == -1) syscall(SYS_openat, AT_FDCWD, "/dev/null", mode);
}

void OpenStandardStreams() {
  OpenIfClosed(STDIN_FILENO, O_WRONLY);
  OpenIfClosed(STDOUT_FILENO, O_RDONLY);
  OpenIfClosed(STDERR_FILENO, O_WRONLY);
}

// gRPC opens a descriptor as it is loaded.
[[gnu::used,
  gnu::section(".preinit_array")]] void (*const kBeforeLibraries)() = &OpenStandardStreams;

}  // namespace

int FinishOutput(absl::string_view program, int exit_code) {
  errno = 0;
  std::cout.flush();
  if (std::cout.good()) return exit_code;
  std::cerr << program << ": standard output could not be written";
  if (errno != 0) std::cerr << ": " << std::strerror(errno);  // else an earlier write failed
  std::cerr << '\n';
  return exit_code == 0 ? 1 : exit_code;
}

}  // namespace latentd
