#include "core/backends/cpu/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/memory_limit.h"
#include "core/base/status_macros.h"

namespace latentd::backends::cpu {
namespace {

// Pages are only given when they are touched, and the process is killed if there are none then: so
// ask before.
absl::Status CheckAvailable(size_t growth) {
  const AvailableMemory available = MeasureAvailableMemory();
  if (growth <= static_cast<size_t>(std::max<int64_t>(available.bytes, 0))) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(
                        absl::StrCat("intermediates need ", growth, " bytes more and ",
                                     available.bytes, " are available (", available.source, ")")),
                    "OUT_OF_MEMORY");
}

// Whole huge pages, which the system is asked to use: the arena is walked from end to end at every
// step.
constexpr size_t kGranule = size_t{2} << 20;

size_t RoundUp(size_t bytes) { return (bytes + kGranule - 1) / kGranule * kGranule; }

size_t MachineBytes() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Arena>> Arena::Reserve() {
  const size_t bytes = RoundUp(MachineBytes());
  void* base = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no range of ", bytes, " addresses for intermediates"));
  }
  return std::shared_ptr<Arena>(new Arena(static_cast<char*>(base), bytes));
}

Arena::~Arena() { munmap(base_, reserved_); }

absl::StatusOr<std::unique_ptr<Arena::Lease>> Arena::Take(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (bytes > reserved_) {
    return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                          "intermediates need ", bytes, " bytes, the machine has ", reserved_)),
                      "OUT_OF_MEMORY");
  }
  if (bytes > mapped_) {
    const size_t wanted = std::min(RoundUp(bytes), reserved_);
    RETURN_IF_ERROR(CheckAvailable(wanted - mapped_));
    if (mprotect(base_, wanted, PROT_READ | PROT_WRITE) != 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for ", bytes, " bytes of intermediates"));
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
  const size_t needed = leases_.empty() ? 0 : RoundUp(*leases_.rbegin());
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
