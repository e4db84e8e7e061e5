#include "core/backends/cuda/plan.h"

#include "core/backends/lowering/plan_bytes.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cuda {
namespace {

constexpr absl::string_view kMagic("latcuda\1", 8);

void PutString(std::string& bytes, absl::string_view value) {
  PutLittleEndian(bytes, static_cast<uint32_t>(value.size()));
  bytes.append(value.data(), value.size());
}

std::string TakeString(LittleEndianReader& reader) {
  const auto size = reader.Take<uint32_t>();
  return std::string(reader.TakeBytes(size));
}

}  // namespace

std::string Encode(const CudaPlan& plan) {
  std::string bytes(kMagic);
  PutLittleEndian(bytes, static_cast<uint32_t>(plan.choices.size()));
  for (const auto& [key, choice] : plan.choices) {
    PutString(bytes, key);
    PutString(bytes, choice);
  }
  lowering::PutMemory(bytes, plan.memory);
  return bytes;
}

absl::StatusOr<CudaPlan> Decode(absl::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("not a plan of this version of the CUDA backend");
  }
  LittleEndianReader reader(bytes.substr(kMagic.size()));
  CudaPlan plan;
  const size_t choices = reader.TakeCount(2 * sizeof(uint32_t));
  for (size_t i = 0; i < choices && reader.ok(); ++i) {
    std::string key = TakeString(reader);
    plan.choices.emplace(std::move(key), TakeString(reader));
  }
  ASSIGN_OR_RETURN(plan.memory, lowering::TakeMemory(reader));
  return plan;
}

}  // namespace latentd::backends::cuda
