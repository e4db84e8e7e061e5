#include "core/engine/models/stores.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/backends/reference/evaluate.h"
#include "core/backends/reference/reference_backend.h"
#include "core/compiler/graph_key.h"

namespace latentd::engine {
namespace {

using cache::DiskCache;
using cache::Kind;

constexpr size_t kMostUnwritten = size_t{256} << 20;

void Warn(const Config& config, absl::string_view what) {
  if (config.warn) config.warn(what);
}

// Bytes that cannot be written are counted by the cache, and made again after the next start.
weights::DigestArchive DigestsIn(DiskCache* cache, const Clock& clock, Worker& writes) {
  if (cache == nullptr) return {};
  return {.find = [cache](absl::string_view key) -> std::optional<std::string> {
            const auto entry = cache->Read(Kind::kTensorDigests, key);
            if (!entry.ok()) return std::nullopt;
            return std::string(entry->payload());
          },
          .keep =
              [cache, &writes](absl::string_view key, absl::string_view digests) {
                writes.Add(
                    [cache, key = std::string(key), digests = std::string(digests)] {
                      cache->Write(Kind::kTensorDigests, key, digests).IgnoreError();
                    },
                    digests.size());
              },
          .clock = &clock};
}

// Likewise.
weights::WeightCache WeightCacheIn(DiskCache* cache, const backends::Backend& backend,
                                   Worker& writes) {
  if (cache == nullptr) return {};
  return {.find = [cache](absl::string_view key) -> std::optional<device::ConstBuffer> {
            const auto entry = cache->Read(Kind::kPackedWeight, key);
            if (!entry.ok()) return std::nullopt;
            const absl::string_view bytes = entry->payload();
            return device::ConstBuffer::Wrap(bytes.data(), device::DType::kU8,
                                             {static_cast<int64_t>(bytes.size())}, entry->owner());
          },
          .keep =
              [cache, &writes](absl::string_view key, const device::ConstBuffer& bytes) {
                writes.Add(
                    [cache, key = std::string(key), bytes] {
                      cache
                          ->Write(Kind::kPackedWeight, key,
                                  {static_cast<const char*>(bytes.data()), bytes.bytes()})
                          .IgnoreError();
                    },
                    bytes.bytes());
              },
          .version = absl::StrCat(compiler::BuildKeyOf(backend, {}).sources, " ",
                                  backend.WeightFingerprint())};
}

}  // namespace

std::shared_ptr<DiskCache> OpenDiskCache(const Config& config, const Clock& clock,
                                         metrics::Registry& registry) {
  if (config.cache_dir.empty()) return nullptr;
  auto cache = DiskCache::Open({.directory = config.cache_dir, .max_bytes = config.cache_max_bytes},
                               clock, registry);
  if (cache.ok()) return *std::move(cache);
  Warn(config,
       absl::StrCat("nothing that is compiled survives a restart: ", cache.status().message()));
  return nullptr;
}

Stores::Stores(const Config& config, std::shared_ptr<DiskCache> cache, backends::Backend& backend,
               const Clock& clock, metrics::Registry& registry, const std::atomic<bool>& stop,
               BeforeLoad before_load, OnDeviceFault on_device_fault)
    : disk(std::move(cache)),
      digests(DigestsIn(disk.get(), clock, writes)),
      reference(std::make_unique<backends::reference::ReferenceBackend>()),
      weights(backend, WeightCacheIn(disk.get(), backend, writes)),
      graphs(backend, clock, registry, disk.get(),
             {.compile = {.skipped_passes = {config.skipped_passes.begin(),
                                             config.skipped_passes.end()},
                          .evaluate = backends::reference::EvaluateRecipe},
              .memory_budget = static_cast<size_t>(config.graph_memory_bytes),
              .run_once = true,
              .stop = [&stop] { return stop.load(); },
              .write = [this](size_t bytes, auto write) { writes.Add(std::move(write), bytes); },
              .on_warning = config.warn,
              .on_device_fault = std::move(on_device_fault),
              .before_load = std::move(before_load)}),
      writes("disk writer", kMostUnwritten),
      findings({.backend = backend,
                .disk = disk.get(),
                .writes = writes,
                .registry = registry,
                .warn = config.warn}) {}

}  // namespace latentd::engine
