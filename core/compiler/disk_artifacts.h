// The artifacts in the disk cache, by GraphKey: looked up with the reason where there is none that
// can be used, written, listed. Without a disk cache there are none.
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
#include "core/compiler/graph_key.h"
#include "core/compiler/graph_label.h"

namespace latentd::compiler {

class DiskArtifacts {
 public:
  // `disk` may be null, and must outlive this.
  explicit DiskArtifacts(cache::DiskCache* disk) : disk_(disk) {}

  bool available() const { return disk_ != nullptr; }

  // What a look-up came to: there is one; none; one of the same graph, which another build or
  // machine made; one that is damaged, and in quarantine now.
  enum class Result : uint8_t { kDisk, kMiss, kIncompatible, kCorrupt };
  struct Found {
    Result result = Result::kMiss;
    std::string bytes;            // of kDisk: an artifact with this key
    absl::Duration compile_time;  // as it says
    std::string reason;           // of the others: why; empty where there is nothing to say
  };
  Found Find(const GraphKey& key);

  // As Find, without marking it used. NOT_FOUND, DATA_LOSS.
  absl::StatusOr<std::string> Check(const GraphKey& key) const;

  // As DiskCache::LockKey. REQUIRES: available().
  absl::StatusOr<cache::KeyLock> Lock(const GraphKey& key, absl::Duration wait,
                                      const std::function<bool()>& stop) const;

  // FAILED_PRECONDITION without a disk cache.
  absl::Status Write(const GraphKey& key, const std::string& artifact);
  // To quarantine with it.
  absl::Status SetAside(const GraphKey& key) const;
  // OK, as SetPinned, where there is none.
  absl::Status Remove(const GraphKey& key);
  absl::Status SetPinned(const GraphKey& key, bool pinned);
  bool IsPinned(const GraphKey& key) const;
  bool Contains(const GraphKey& key) const;

  // In order of last use, the newest first.
  std::vector<cache::EntryInfo> List() const;
  std::optional<cache::EntryInfo> FindInfo(const GraphKey& key) const;
  // The one with the id: the digest of the key, as text. Reads every artifact's key.
  std::optional<cache::EntryInfo> FindInfo(absl::string_view id) const;
  // What an artifact says of itself. Only reads: what is damaged stays where it is.
  struct Description {
    GraphLabel label;
    absl::Duration compile_time;
    std::string damage;  // why it cannot be read, and then it has no label; empty: it can
  };
  Description Describe(const GraphKey& key) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<std::string> Parsed(const GraphKey& key,
                                     const absl::StatusOr<cache::Entry>& entry) const;
  Found WhyNot(const GraphKey& key) const;

  static constexpr size_t kMaxDescribed = 4096;

  cache::DiskCache* const disk_;
  mutable absl::Mutex mutex_;
  // So that listing does not read every file each time.
  mutable absl::flat_hash_map<Digest, Description> described_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::compiler
