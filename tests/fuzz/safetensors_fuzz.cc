// libFuzzer target: any bytes as a safetensors file. Build with clang and
// -fsanitize=fuzzer,address; good seeds are small real files.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "core/weights/containers/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto tensors = latentd::weights::ParseSafetensorsBytes(bytes, "fuzzed", nullptr);
  if (!tensors.ok()) return 0;
  // Accepted files must be readable to the last byte.
  for (const auto& [name, tensor] : *tensors) {
    if (tensor.digest != nullptr) tensor.digest->Get();
  }
  return 0;
}
