// The artifacts in the disk cache, by GraphKey: looking one up with the reason where it cannot be
// had, writing, listing. Works without a disk cache too: then there are none.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

  enum class Result : uint8_t { kFound, kMissing, kIncompatible, kCorrupt };
  // "disk", "miss", ...: of the metric of look-ups.
  static const char* Name(Result result);
  struct Found {
    Result result = Result::kMissing;
    std::string bytes;  // kFound
    absl::Duration compile_time;
    std::string reason;  // of the others: why there is none that can be used; empty: there was none
  };
  // kIncompatible: there is none, but one of the same graph that another build or machine made.
  Found Find(const GraphKey& key);

  // OK without a disk cache.
  absl::Status Write(const GraphKey& key, absl::string_view artifact);
  // Nothing shall find it again.
  void Discard(const GraphKey& key);
  bool Contains(const GraphKey& key) const;

 private:
  cache::DiskCache* const disk_;
};

}  // namespace latentd::compiler
