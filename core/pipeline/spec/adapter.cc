#include "core/pipeline/spec/adapter.h"

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

}  // namespace latentd::pipeline
