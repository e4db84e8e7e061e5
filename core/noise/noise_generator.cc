#include "core/noise/noise_generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/normal.h>

namespace latentd::noise {

using device::Buffer;
using device::DType;
using device::Shape;

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

void NoiseGenerator::Fill(const Buffer& buffer, double deviation) {
  at::Tensor view = at::from_blob(buffer.as<float>().data(), buffer.shape().dims(), at::kFloat);
  at::normal_out(view, 0.0, deviation, buffer.shape().dims(), state_->generator);
}

}  // namespace latentd::noise
