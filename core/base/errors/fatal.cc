#include "core/base/errors/fatal.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace latentd {
namespace {

void WriteToStandardError(absl::string_view message) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
}

std::atomic<FatalLog> fatal_log = &WriteToStandardError;

std::string DescribeCurrentException() {
  const std::exception_ptr current = std::current_exception();
  if (current == nullptr) return "no exception";
  try {
    std::rethrow_exception(current);
  } catch (const std::system_error& error) {
    return ExplainSystemError(error.code().value(), error.what());
  } catch (const std::bad_alloc&) {
    return "out of memory: give it more, or lower --memory or --queue-capacity";
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown exception";
  }
}

[[noreturn]] void LogAndAbort() {
  static std::atomic_flag logging = ATOMIC_FLAG_INIT;
  if (!logging.test_and_set()) {
    fatal_log.load()(absl::StrCat("aborted: ", DescribeCurrentException()));
  }
  std::abort();
}

}  // namespace

void SetFatalLog(FatalLog log) { fatal_log = log; }

void Fatal(absl::string_view message) {
  fatal_log.load()(message);
  std::_Exit(EXIT_FAILURE);
}

void ExplainTerminate() { std::set_terminate(&LogAndAbort); }

std::string ExplainSystemError(int error, absl::string_view what) {
  if (error != EAGAIN) return std::string(what);
  return absl::StrCat(what,
                      " (the system gives this process no more threads: see ulimit -u, pids.max of "
                      "its control group, and its memory)");
}

}  // namespace latentd
