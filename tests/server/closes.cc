#include "tests/server/closes.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "tests/support/sanitized.h"

namespace latentd::testing {
namespace {

std::atomic<int> wrong_closes = 0;

}  // namespace

int ClosesOfWhatIsClosed() { return wrong_closes; }

}  // namespace latentd::testing

#if !defined(LATENTD_SANITIZED)
// Stands before the C library's: a symbol of the program goes before one of a shared library.
extern "C" int close(int descriptor) {
  const int result = static_cast<int>(syscall(SYS_close, descriptor));
  if (result != 0 && errno == EBADF) ++latentd::testing::wrong_closes;
  return result;
}
#endif
