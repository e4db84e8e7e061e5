// Artifacts as entries of the disk cache: read with the reason where there is none that can be
// used, checked, written, listed. Without a disk cache there are none.
//
// Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/text/digest.h"
#include "core/cache/disk_cache.h"
#include "core/compiler/artifact.h"
#include "core/compiler/graph_spec.h"

namespace latentd::compiler {

// An artifact, and which bytes say it.
struct StoredArtifact {
  ArtifactPointer artifact;
  Digest payload;
};

class ArtifactFiles {
 public:
  // `disk` may be null, and must outlive this.
  explicit ArtifactFiles(cache::DiskCache* disk) : disk_(disk) {}

  bool available() const { return disk_ != nullptr; }

  // Marks it as used. NOT_FOUND: there is none; FAILED_PRECONDITION: only one that another build,
  // version or machine made, and what differs; DATA_LOSS: damaged, and in quarantine now; else why
  // it cannot be read.
  absl::StatusOr<StoredArtifact> Read(const GraphDefinition& graph);

  // Reads it again and checks everything but the plan, without marking it used; `declared` may be
  // null. NOT_FOUND; DATA_LOSS: damaged, and in quarantine now; FAILED_PRECONDITION: of another
  // version.
  absl::StatusOr<StoredArtifact> Check(const GraphKey& key, const graph::Graph* declared) const;

  // As DiskCache::LockKey. REQUIRES: available().
  absl::StatusOr<cache::KeyLock> Lock(const GraphKey& key, absl::Duration wait,
                                      const std::function<bool()>& stop) const {
    return disk_->LockKey(kKind, key.ToText(), wait, stop);
  }

  // FAILED_PRECONDITION, reason NO_DISK_CACHE, without a disk cache.
  absl::Status Write(const Artifact& artifact);
  // To quarantine with it, unless another has been written in its place since that payload was
  // read: ABORTED. These are OK where there is none, too.
  absl::Status SetAside(const GraphKey& key, const Digest& payload) const;
  absl::Status Remove(const GraphKey& key);
  absl::Status SetPinned(const GraphKey& key, bool pinned);

  bool IsPinned(const GraphKey& key) const {
    return available() && disk_->IsPinned(kKind, key.ToText());
  }
  bool Contains(const GraphKey& key) const { return FindInfo(key).has_value(); }

  // In order of last use, the newest first.
  std::vector<cache::EntryInfo> List() const;
  std::optional<cache::EntryInfo> FindInfo(const GraphKey& key) const;
  // The head of an artifact, or why it cannot be read. Only reads: a damaged file stays
  // where it is.
  absl::StatusOr<PayloadHead> Describe(const GraphKey& key) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using ReadEntry = absl::FunctionRef<absl::StatusOr<cache::Entry>()>;
  // Moves a damaged file to quarantine; one that was written in its place meanwhile is read.
  absl::StatusOr<StoredArtifact> ReadSound(const GraphKey& key, const graph::Graph* declared,
                                           ReadEntry read) const;
  absl::Status WhyNot(const GraphKey& key) const;

  static constexpr cache::Kind kKind = cache::Kind::kArtifact;
  static constexpr size_t kMaxDescribed = 4096;

  cache::DiskCache* const disk_;
  mutable absl::Mutex mutex_;
  // So that listing does not read every file each time.
  mutable absl::flat_hash_map<Digest, PayloadHead> described_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::compiler
