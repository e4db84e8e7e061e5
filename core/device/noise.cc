#include "core/device/noise.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/normal.h>

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
  Buffer buffer = Buffer::Allocate(DType::kF32, shape);
  Fill(buffer);
  return buffer;
}

void NoiseGenerator::Fill(Buffer& buffer) {
  at::Tensor view = View(buffer);
  at::normal_out(view, 0.0, 1.0, buffer.shape().dims(), state_->generator);
}

}  // namespace latentd::device
