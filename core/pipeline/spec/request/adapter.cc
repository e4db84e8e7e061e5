#include "core/pipeline/spec/request/adapter.h"

namespace latentd::pipeline {

absl::string_view NameOf(AdapterKind kind) {
  switch (kind) {
    case AdapterKind::kLora:
      return "LoRA";
    case AdapterKind::kTextualInversion:
      return "textual inversion";
    case AdapterKind::kControlNet:
      return "ControlNet";
    case AdapterKind::kIpAdapter:
      return "IP-Adapter";
    case AdapterKind::kUnknown:
      break;
  }
  return "unknown";
}

bool FitPaths(absl::Span<const Adapter> adapters, int ranks) {
  int64_t own = 0;
  for (const Adapter& adapter : adapters) {
    if (adapter.path_rank < 1) return false;
    own += adapter.path_rank;
  }
  return own > 0 && own <= ranks;
}

}  // namespace latentd::pipeline
