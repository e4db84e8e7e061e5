// libFuzzer target: any bytes as an adapter's file: its kind by its tensors, and where it is a
// textual inversion, its vectors.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/adapters/catalogue/adapter_facts.h"
#include "core/adapters/catalogue/adapter_kind.h"
#include "core/adapters/textual_inversion/embedding.h"
#include "core/weights/containers/safetensors.h"

namespace {

namespace adapters = latentd::adapters;
using latentd::pipeline::AdapterKind;
using latentd::pipeline::EmbeddingVectors;

void Demand(bool condition) {
  if (!condition) std::abort();
}

void Check(const EmbeddingVectors& vectors, int64_t width) {
  Demand(vectors.width == width && vectors.count() >= 1);
  Demand(vectors.count() <= adapters::kMostVectors);
  Demand(vectors.values.size() == static_cast<size_t>(vectors.count() * width));
  for (const float value : vectors.values) Demand(std::isfinite(value));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto tensors = latentd::weights::ParseSafetensorsBytes(bytes, "fuzzed", nullptr);
  if (!tensors.ok()) return 0;
  const AdapterKind kind = adapters::KindOf(*tensors);
  const std::string why = adapters::WhyNotServed(kind, *tensors);
  // Some ControlNets are not served.
  if (kind == AdapterKind::kUnknown) Demand(!why.empty());
  if (kind != AdapterKind::kUnknown && kind != AdapterKind::kControlNet) Demand(why.empty());
  adapters::DigestOf({.path = "fuzzed", .tensors = *tensors, .metadata = {}});
  if (kind != AdapterKind::kTextualInversion) return 0;
  const auto embedding = adapters::ReadEmbedding("fuzzed", *tensors);
  if (!embedding.ok()) return 0;
  const std::vector<adapters::TextEncoderWidth> encoders = {{"text_encoder", 64},
                                                            {"text_encoder_2", 96}};
  const auto vectors = adapters::VectorsFor("fuzzed", *embedding, encoders);
  if (!vectors.ok()) return 0;
  for (size_t i = 0; i < encoders.size(); ++i) Check((*vectors)[i], encoders[i].width);
  return 0;
}
