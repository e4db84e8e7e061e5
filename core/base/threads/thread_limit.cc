#include "core/base/threads/thread_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/fatal.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"
#include "core/base/process/cgroup.h"
#include "core/base/threads/threads.h"

namespace latentd {
namespace {

constexpr size_t kMostPidsBytes = 4096;
// A stack of 128 KiB is too small to draw with, one of 256 KiB was not.
constexpr rlim_t kLeastStackBytes = rlim_t{512} << 10;

void AddControlGroups(std::vector<std::string>& limits) {
  for (const CgroupDirectory& directory : OwnCgroupDirectories("pids")) {
    const std::string text =
        ReadFile(absl::StrCat(directory.path, "/pids.max"), kMostPidsBytes).value_or("max");
    const absl::string_view most = absl::StripAsciiWhitespace(text);
    if (most != "max") {
      limits.push_back(absl::StrCat("pids.max of ", directory.path, " is ", most));
    }
  }
}

// `unit`: what the shell counts in.
void AddLimit(__rlimit_resource_t resource, const char* name, rlim_t unit,
              std::vector<std::string>& limits) {
  rlimit limit = {};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  limits.push_back(absl::StrCat("ulimit ", name, " is ", limit.rlim_cur / unit));
}

// How many of `count` there are at once. They ask for no memory, of which there may be none left.
int StartAtOnce(int count) {
  std::atomic_flag end;
  std::vector<std::thread> threads;
  try {
    threads.reserve(count);
    while (static_cast<int>(threads.size()) < count)
      threads.emplace_back([&end] { end.wait(false); });
  } catch (const std::system_error&) {
    // These are all.
  } catch (const std::bad_alloc&) {
  }
  end.test_and_set();
  end.notify_all();
  for (std::thread& thread : threads) thread.join();
  return static_cast<int>(threads.size());
}

absl::Status CheckStacks() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeastStackBytes) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("ulimit -s, the stack of each thread in KiB, is ", limit.rlim_cur / 1024,
                   ", and serving needs ", kLeastStackBytes / 1024));
}

}  // namespace

absl::StatusOr<std::thread> TryStartThread(std::string name, std::function<void()> body) {
  try {
    return std::thread([name = std::move(name), body = std::move(body)] {
      NameThisThread(name);
      body();
    });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(ExplainSystemError(error.code().value(), error.what()));
  }
}

absl::Status CheckThreads(int count) {
  RETURN_IF_ERROR(CheckStacks());
  const int started = StartAtOnce(count);
  if (started == count) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the system gives this process ", started, " more threads, and serving needs ",
                   count, " (fewer with a smaller --threads): ", ThreadLimitsText()));
}

void ExplainExit() {
  std::atexit([] {
    if (gettid() == getpid()) return;
    Fatal(
        absl::StrCat("a library ended this process, after a line that says why on standard "
                     "error; if that is for threads: ",
                     ThreadLimitsText()));
  });
}

std::string ThreadLimitsText() {
  std::vector<std::string> limits;
  AddControlGroups(limits);
  AddLimit(RLIMIT_NPROC, "-u", 1, limits);
  AddLimit(RLIMIT_AS, "-v", 1024, limits);
  AddLimit(RLIMIT_DATA, "-d", 1024, limits);
  AddLimit(RLIMIT_STACK, "-s, of each of them,", 1024, limits);
  if (limits.empty()) return "this process has no limits of its own";
  return absl::StrJoin(limits, ", ");
}

}  // namespace latentd
