#include "core/compiler/disk_artifacts.h"

namespace latentd::compiler {

DiskArtifacts::Found DiskArtifacts::Find(const GraphKey&) { return {}; }

absl::Status DiskArtifacts::Write(const GraphKey&, absl::string_view) { return absl::OkStatus(); }

const char* DiskArtifacts::Name(Result result) {
  switch (result) {
    case Result::kFound:
      return "disk";
    case Result::kMissing:
      return "miss";
    case Result::kIncompatible:
      return "incompatible";
    case Result::kCorrupt:
      return "corrupt";
  }
  return "";
}

void DiskArtifacts::Discard(const GraphKey&) {}

bool DiskArtifacts::Contains(const GraphKey&) const { return false; }

}  // namespace latentd::compiler
