#include "core/backends/cpu/binding/arena.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/alignment.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"
#include "core/base/process/memory_limit.h"

namespace latentd::backends::cpu {
namespace {

absl::Status OutOfMemory(absl::string_view message) {
  return WithReason(absl::ResourceExhaustedError(message), "OUT_OF_MEMORY");
}

// Pages are only given when they are touched, and the process is killed if there are none then: so
// ask before.
absl::Status CheckAvailable(size_t growth) {
  const AvailableMemory available = MeasureAvailableMemory();
  if (growth <= static_cast<size_t>(std::max<int64_t>(available.bytes, 0))) return absl::OkStatus();
  return OutOfMemory(absl::StrCat("intermediates need ", growth, " bytes more and ",
                                  available.bytes, " are available (", available.source, ")"));
}

// Whole huge pages, which the system is asked to use: the arena is walked from end to end at every
// step.
constexpr size_t kGranule = size_t{2} << 20;

constexpr size_t kMaxStatmBytes = 4096;

size_t MachineBytes() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// How many bytes more the process may map (RLIMIT_AS, which `ulimit -v` sets, less what it has
// mapped); nullopt: as many as it likes.
std::optional<size_t> AvailableAddresses() {
  struct rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const std::string statm = ReadFile("/proc/self/statm", kMaxStatmBytes).value_or("");
  size_t pages = 0;
  if (!absl::SimpleAtoi(statm.substr(0, statm.find(' ')), &pages)) return std::nullopt;
  const size_t mapped = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return limit.rlim_cur - std::min<size_t>(mapped, limit.rlim_cur);
}

size_t BytesToReserve(size_t most) {
  const size_t bytes = most == 0 ? MachineBytes() : std::min(most, MachineBytes());
  const std::optional<size_t> addresses = AvailableAddresses();
  return addresses ? std::min(bytes, *addresses / 2) : bytes;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Arena>> Arena::Reserve(size_t most) {
  const size_t wanted = std::max(RoundUp(BytesToReserve(most), kGranule), kLeast);
  for (size_t bytes = wanted; bytes >= kLeast; bytes = RoundUp(bytes / 2, kGranule)) {
    void* base =
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) continue;
    return std::shared_ptr<Arena>(new Arena(static_cast<char*>(base), bytes));
  }
  return OutOfMemory(
      absl::StrCat("the system gives no range of even ", kLeast,
                   " addresses for intermediates: a limit on the process's addresses (ulimit -v) "
                   "must leave room for twice what a picture needs, best there is none; --memory "
                   "limits memory"));
}

Arena::~Arena() { munmap(base_, reserved_); }

absl::StatusOr<std::unique_ptr<Arena::Lease>> Arena::Take(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (bytes > reserved_) {
    return OutOfMemory(absl::StrCat(
        "intermediates need ", bytes, " bytes, and there are addresses for ", reserved_,
        ": the memory budget, or half of what a limit on addresses (ulimit -v) left at the start"));
  }
  if (bytes > mapped_) {
    const size_t wanted = std::min(RoundUp(bytes, kGranule), reserved_);
    RETURN_IF_ERROR(CheckAvailable(wanted - mapped_));
    if (mprotect(base_, wanted, PROT_READ | PROT_WRITE) != 0) {
      return OutOfMemory(absl::StrCat("no memory for ", bytes, " bytes of intermediates"));
    }
    madvise(base_, wanted, MADV_HUGEPAGE);
    mapped_ = wanted;
  }
  leases_.insert(bytes);
  return std::make_unique<Lease>(shared_from_this(), bytes);
}

void Arena::Release(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  leases_.erase(leases_.find(bytes));
  const size_t needed = leases_.empty() ? 0 : RoundUp(*leases_.rbegin(), kGranule);
  if (needed >= mapped_) return;
  // The pages go back; the addresses stay.
  madvise(base_ + needed, mapped_ - needed, MADV_DONTNEED);
  mprotect(base_ + needed, mapped_ - needed, PROT_NONE);
  mapped_ = needed;
}

size_t Arena::bytes() const {
  absl::MutexLock lock(&mutex_);
  return leases_.empty() ? 0 : *leases_.rbegin();
}

}  // namespace latentd::backends::cpu
