// A kernel chosen for one instruction, ready to run as often as one likes.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "core/backends/cpu/kernels/kernel_table.h"
#include "core/backends/lowering/kernel_binding.h"

namespace latentd::backends::cpu {

// Names of lowering that kernels are bound with.
using lowering::AddressOf;
using lowering::BytesOf;
using lowering::Frame;
using lowering::Instruction;
using lowering::Kernel;
using lowering::Place;
using lowering::Program;
using lowering::Storage;
using lowering::View;

struct BoundKernel : lowering::KernelNeeds {
  // Throws what oneDNN throws.
  using Run = std::function<absl::Status(const Frame&)>;
  Run run;
};

// How an instruction is computed: what a plan chooses. Plans hold the numbers.
enum class Algorithm : uint8_t {
  kDirect,         // one primitive of oneDNN, or this backend's only kernel
  kAsConvolution,  // a linear layer or product as oneDNN's convolution of one pixel
  kThenAdd,        // a convolution, to which its residual is then added in place
  kWinograd,       // a 3x3 convolution, of an upsampled image or not, by kernels/winograd.cc
};

// The machine that kernels are made for.
struct Machine {
  const KernelTable* kernels = nullptr;
  int threads = 1;
};

// `algorithm` is one of AlgorithmsFor(program, instruction). Throws what oneDNN throws.
absl::StatusOr<BoundKernel> BindKernel(const Program& program, const Instruction& instruction,
                                       Algorithm algorithm, const Machine& machine);

}  // namespace latentd::backends::cpu
