// libFuzzer target: any bytes as the file of a cache entry, and any bytes as the payload of one
// that is then flipped, cut or extended. Each is read as the cache reads it, from a file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "core/base/text/digest.h"
#include "core/cache/disk_cache.h"
#include "core/cache/entry_file.h"
#include "core/metrics/registry.h"
#include "tests/support/temporary_directory.h"

namespace {

using latentd::cache::DiskCache;
using latentd::cache::EncodeHead;
using latentd::cache::Kind;

constexpr absl::string_view kKey = "key";  // the seeds' key

void Require(bool holds) {
  if (!holds) std::abort();
}

std::string FileOf(Kind kind, absl::string_view key, absl::string_view payload) {
  std::string file = EncodeHead(kind, key, payload);
  file.append(payload.data(), payload.size());
  return file;
}

class CacheOfOneFile {
 public:
  CacheOfOneFile()
      : path_(directory_.File("artifacts/" + latentd::DigestOf(kKey).ToString() + ".latent")) {
    auto cache =
        DiskCache::Open({.directory = directory_.path()}, latentd::SystemClock(), registry_);
    Require(cache.ok());
    cache_ = *std::move(cache);
  }

  // Either the one file of what it gives, or damage that is gone when it is asked for again.
  void Read(absl::string_view file) {
    std::ofstream(path_, std::ios::binary)
        .write(file.data(), static_cast<std::streamsize>(file.size()));
    const auto entry = cache_->Read(Kind::kArtifact, kKey);
    if (entry.ok()) {
      Require(FileOf(Kind::kArtifact, kKey, entry->payload()) == file);
      std::filesystem::remove(path_);
    } else {
      Require(absl::IsDataLoss(entry.status()));
    }
    Require(absl::IsNotFound(cache_->Read(Kind::kArtifact, kKey).status()));
  }

 private:
  latentd::testing::TemporaryDirectory directory_;
  latentd::metrics::Registry registry_;
  std::string path_;
  std::unique_ptr<DiskCache> cache_;
};

// Damages a good file: it may not be read as another entry, whatever the damage.
void Damage(CacheOfOneFile& cache, absl::string_view payload) {
  const std::string good = FileOf(Kind::kArtifact, kKey, payload);
  const size_t at = latentd::DigestOf(payload).low % good.size();
  std::string flipped = good;
  flipped[at] = static_cast<char>(flipped[at] ^ (1 << (payload.size() % 8)));
  const std::string extended = good + good.substr(at);
  for (const std::string& damaged : {flipped, good.substr(0, at), extended}) {
    Require(!latentd::cache::ParseEntry(damaged).ok());
    cache.Read(damaged);
  }
  Require(latentd::cache::ParseEntry(good).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static CacheOfOneFile cache;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto entry = latentd::cache::ParseEntry(bytes);
  if (entry.ok()) Require(FileOf(entry->kind, entry->key, entry->payload) == bytes);
  cache.Read(bytes);
  Damage(cache, bytes);
  return 0;
}
