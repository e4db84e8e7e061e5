#include "core/device/noise.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>

#include "core/device/tensor_view.h"

namespace latentd::device {

struct NoiseGenerator::State {
  at::Generator generator;
};

NoiseGenerator::NoiseGenerator(uint64_t seed)
    : state_(new State{at::detail::createCPUGenerator(seed)}) {}
NoiseGenerator::~NoiseGenerator() = default;
NoiseGenerator::NoiseGenerator(NoiseGenerator&&) noexcept = default;
NoiseGenerator& NoiseGenerator::operator=(NoiseGenerator&&) noexcept = default;

Buffer NoiseGenerator::Normal(const Shape& shape) {
  return ToBuffer(
      at::randn(shape.dims(), state_->generator, at::TensorOptions().dtype(at::kFloat)));
}

}  // namespace latentd::device
