#include "core/base/threads/threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/errors/fatal.h"
#include "core/base/files/files.h"
#include "core/base/process/cgroup.h"

namespace latentd {
namespace {

constexpr size_t kMaxLimitBytes = 4096;
constexpr size_t kMaxNameBytes = 15;
constexpr int kMaxCpus = 1 << 14;  // the kernel's own limit is 8192

int CpusInAffinityMask() {
  const size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(
      CPU_ALLOC(kMaxCpus), [](cpu_set_t* set) { CPU_FREE(set); });
  if (mask == nullptr || sched_getaffinity(0, bytes, mask.get()) != 0) {
    return static_cast<int>(std::thread::hardware_concurrency());
  }
  return CPU_COUNT_S(bytes, mask.get());
}

std::optional<double> QuotaOf(const CgroupDirectory& directory) {
  const auto read = [&](absl::string_view name) {
    return ReadFile(absl::StrCat(directory.path, "/", name), kMaxLimitBytes).value_or("");
  };
  if (directory.version == 2) return ParseCpuMax(read("cpu.max"));
  return ParseCfsQuota(read("cpu.cfs_quota_us"), read("cpu.cfs_period_us"));
}

}  // namespace

int UsableCpus() {
  int cpus = CpusInAffinityMask();
  for (const CgroupDirectory& directory : OwnCgroupDirectories("cpu")) {
    const std::optional<double> quota = QuotaOf(directory);
    if (quota && *quota < cpus) cpus = static_cast<int>(*quota);
  }
  return std::max(cpus, 1);
}

std::optional<double> ParseCpuMax(absl::string_view text) {
  const std::vector<absl::string_view> fields =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  if (fields.size() != 2) return std::nullopt;
  return ParseCfsQuota(fields[0], fields[1]);
}

std::optional<double> ParseCfsQuota(absl::string_view quota, absl::string_view period) {
  int64_t quota_us = 0;
  int64_t period_us = 0;
  if (!absl::SimpleAtoi(quota, &quota_us) || !absl::SimpleAtoi(period, &period_us)) {
    return std::nullopt;
  }
  if (quota_us <= 0 || period_us <= 0) return std::nullopt;
  return static_cast<double>(quota_us) / static_cast<double>(period_us);
}

std::thread StartThread(std::string name, std::function<void()> body) {
  try {
    return std::thread([name, body = std::move(body)] {
      NameThisThread(name);
      body();
    });
  } catch (const std::system_error& error) {
    Fatal(absl::StrCat("cannot start the thread '", name,
                       "': ", ExplainSystemError(error.code().value(), error.what())));
  }
}

void NameThisThread(absl::string_view name) {
  pthread_setname_np(pthread_self(), std::string(name.substr(0, kMaxNameBytes)).c_str());
}

}  // namespace latentd
