// A backend's findings on shapes (core/backends/findings.h), as entries of the disk cache:
// one for each shape and build, so that a process that ends early leaves what it had found, and
// several may add at a time. One build's findings on one machine are used by no other.
//
// Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/cache/disk_cache.h"
#include "core/compiler/graph_key.h"

namespace latentd::compiler {

class FindingFiles {
 public:
  // `disk` must outlive this.
  FindingFiles(cache::DiskCache& disk, BuildKey build) : disk_(disk), build_(std::move(build)) {}

  // The choice, and marks it as used. Errors as DiskCache::Read's. REQUIRES: a shape of one line.
  absl::StatusOr<std::string> Read(absl::string_view shape) const;

  // As DiskCache::Write.
  absl::Status Write(absl::string_view shape, absl::string_view choice) const;

  // The difference to another build's finding, if there is none of this build. Looks at all.
  std::optional<std::string> WhyNone() const;

 private:
  std::string KeyOf(absl::string_view shape) const;

  cache::DiskCache& disk_;
  const BuildKey build_;
};

}  // namespace latentd::compiler
