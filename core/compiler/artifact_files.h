// Artifacts as entries of the disk cache: looked up with the reason where there is none that can be
// used, checked, written, listed. Without a disk cache there are none.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/cache/disk_cache.h"
#include "core/compiler/artifact.h"
#include "core/compiler/graph_spec.h"

namespace latentd::compiler {

class ArtifactFiles {
 public:
  // `disk` may be null, and must outlive this.
  explicit ArtifactFiles(cache::DiskCache* disk) : disk_(disk) {}

  bool available() const { return disk_ != nullptr; }

  // What a look-up came to: there is one; none; one of the same graph that another build, version
  // or machine made; one that is damaged, and in quarantine now.
  enum class Result : uint8_t { kDisk, kMiss, kIncompatible, kCorrupt };
  struct Found {
    Result result = Result::kMiss;
    ArtifactPointer artifact;  // of kDisk
    std::string reason;        // of the others: why; empty where there is nothing to say
  };
  Found Find(const GraphDefinition& graph);

  // Reads it again and checks everything but the plan, without marking it used; `declared` may be
  // null. NOT_FOUND; DATA_LOSS: damaged, and in quarantine now; FAILED_PRECONDITION: of another
  // version.
  absl::StatusOr<ArtifactPointer> Check(const GraphKey& key, const graph::Graph* declared) const;

  // As DiskCache::LockKey. REQUIRES: available().
  absl::StatusOr<cache::KeyLock> Lock(const GraphKey& key, absl::Duration wait,
                                      const std::function<bool()>& stop) const;

  // FAILED_PRECONDITION, reason NO_DISK_CACHE, without a disk cache.
  absl::Status Write(const Artifact& artifact);
  // To quarantine with it. These are OK where there is none, too.
  absl::Status SetAside(const GraphKey& key) const;
  absl::Status Remove(const GraphKey& key);
  absl::Status SetPinned(const GraphKey& key, bool pinned);
  bool IsPinned(const GraphKey& key) const;
  bool Contains(const GraphKey& key) const;

  // In order of last use, the newest first.
  std::vector<cache::EntryInfo> List() const;
  std::optional<cache::EntryInfo> FindInfo(const GraphKey& key) const;
  // The one whose key has that digest. Reads every artifact's key.
  std::optional<cache::EntryInfo> FindInfo(const Digest& id) const;
  // What an artifact says of itself, or why it cannot be read. Only reads: what is damaged stays
  // where it is.
  absl::StatusOr<PayloadHead> Describe(const GraphKey& key) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<ArtifactPointer> Parse(const GraphKey& key, const graph::Graph* declared,
                                        const absl::StatusOr<cache::Entry>& entry) const;
  Found WhyNot(const GraphKey& key) const;

  static constexpr size_t kMaxDescribed = 4096;

  cache::DiskCache* const disk_;
  mutable absl::Mutex mutex_;
  // So that listing does not read every file each time.
  mutable absl::flat_hash_map<Digest, PayloadHead> described_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::compiler
