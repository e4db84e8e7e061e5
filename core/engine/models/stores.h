// The engine's stores of weights and graphs, wired to one disk cache: artifacts, packed weights,
// tensors' digests and the backend's findings survive a restart in it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "core/backends/backend.h"
#include "core/base/clock.h"
#include "core/base/threads/worker.h"
#include "core/cache/disk_cache.h"
#include "core/compiler/graph_store.h"
#include "core/engine/api/config.h"
#include "core/engine/models/kept_findings.h"
#include "core/metrics/registry.h"
#include "core/weights/archives.h"
#include "core/weights/weight_store.h"

namespace latentd::engine {

// Opens config.cache_dir; null where that is empty, and where it is unusable, which is a warning.
// `clock` and `registry` must outlive it.
std::shared_ptr<cache::DiskCache> OpenDiskCache(const Config& config, const Clock& clock,
                                                metrics::Registry& registry);

struct Stores {
  using BeforeLoad = std::function<absl::Status(
      const compiler::GraphLabel&, const backends::MemoryNeeds&, const compiler::Eviction&)>;

  using OnDeviceFault = std::function<void(const absl::Status& fault)>;

  // `disk` may be null, and may be others' too. `before_load` and `on_device_fault`: see
  // GraphStore; once `stop` is true no other process is waited for. `backend`, `clock`, `registry`
  // and `stop` must outlive the stores.
  Stores(const Config& config, std::shared_ptr<cache::DiskCache> disk, backends::Backend& backend,
         const Clock& clock, metrics::Registry& registry, const std::atomic<bool>& stop,
         BeforeLoad before_load, OnDeviceFault on_device_fault);
  Stores(const Stores&) = delete;

  const std::shared_ptr<cache::DiskCache> disk;  // may be null
  const weights::DigestArchive digests;
  const std::unique_ptr<backends::Backend> reference;  // for components that are not compiled
  weights::WeightStore weights;
  compiler::GraphStore graphs;
  // Keeps on disk what of the above is to be kept, as many bytes at a time as there may be
  // unwritten: making a graph or a weight ready does not wait for the disk. READY waits for it,
  // so that the next start has it; what a process that is killed had not written is made again.
  Worker writes;
  const KeptFindings findings;
};

}  // namespace latentd::engine
