// A cache in a directory of its own, and what tests do to its files.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "core/base/text/digest.h"
#include "core/cache/disk_cache.h"
#include "core/metrics/registry.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::cache {

inline constexpr int64_t kHeadBytes = 4096;  // head of an entry with a short key

struct CacheFixture : ::testing::Test {
  std::unique_ptr<DiskCache> Open(int64_t max_bytes = 1 << 20) {
    auto cache = TryOpen(max_bytes);
    EXPECT_OK(cache);
    return cache.ok() ? *std::move(cache) : nullptr;
  }
  absl::StatusOr<std::unique_ptr<DiskCache>> TryOpen(int64_t max_bytes = 1 << 20) {
    return DiskCache::Open(
        {.directory = root, .max_bytes = max_bytes, .lock_wait = absl::Milliseconds(20)}, clock,
        registry);
  }

  std::string EntryFile(const std::string& key, const std::string& kind = "artifacts") const {
    return root + "/" + kind + "/" + DigestOf(key).ToString() + ".latent";
  }
  std::string QuarantineFile(const std::string& key, const std::string& kind = "artifacts") const {
    return root + "/quarantine/" + kind + "-" + DigestOf(key).ToString() + ".latent";
  }
  std::vector<std::string> FilesIn(const std::string& subdirectory) const {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(root + "/" + subdirectory)) {
      names.push_back(file.path().filename().string());
    }
    return names;
  }

  double Evictions() {
    return registry.GetCounter(metrics::kGraphCacheEvictions, {"disk_budget"}).Value();
  }
  double LoadFailures(const std::string& reason) {
    return registry.GetCounter(metrics::kGraphCacheLoadFailures, {reason}).Value();
  }
  double WriteFailures(const std::string& reason) {
    return registry.GetCounter(metrics::kGraphCacheWriteFailures, {reason}).Value();
  }
  double ByteGauge() { return registry.GetGauge(metrics::kGraphCacheBytes, {"disk"}).Value(); }

  testing::TemporaryDirectory temporary;
  std::string root = temporary.File("cache");
  testing::FakeClock clock;
  metrics::Registry registry;
};

inline std::string FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::vector<std::string> KeysOf(const DiskCache& cache, Kind kind = Kind::kArtifact) {
  std::vector<std::string> keys;
  for (const EntryInfo& info : cache.List(kind)) keys.push_back(info.key);
  return keys;
}

// Reads, and forgets the rest of the entry.
inline absl::StatusOr<std::string> ReadPayload(DiskCache& cache, const std::string& key,
                                               Kind kind = Kind::kArtifact) {
  const auto entry = cache.Read(kind, key);
  if (!entry.ok()) return entry.status();
  return std::string(entry->payload());
}

}  // namespace latentd::cache
