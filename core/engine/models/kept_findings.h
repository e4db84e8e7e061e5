// Has a backend keep in the disk cache what it finds out about shapes, and counts the work that it
// has with them, as long as this lives.
#pragma once

#include <functional>

#include "absl/strings/string_view.h"
#include "core/backends/backend.h"
#include "core/base/threads/worker.h"
#include "core/cache/disk_cache.h"
#include "core/metrics/registry.h"

namespace latentd::engine {

class KeptFindings {
 public:
  // All must outlive this. Without a disk cache nothing is kept, but counted.
  struct Parts {
    backends::Backend& backend;  // one that finds nothing out is left alone
    cache::DiskCache* disk;      // may be null
    Worker& writes;
    metrics::Registry& registry;
    // Told of findings that are damaged, refused or another build's: those are chosen anew. May be
    // empty.
    std::function<void(absl::string_view)> warn;
  };

  explicit KeptFindings(const Parts& parts);
  ~KeptFindings();
  KeptFindings(const KeptFindings&) = delete;

 private:
  backends::Findings* const findings_;  // null: it finds nothing out
};

}  // namespace latentd::engine
