// A kernel chosen for one instruction, ready to run as often as one likes.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/backends/cpu/kernels/kernel_table.h"
#include "core/backends/lowering/program.h"
#include "core/weights/weight_maker.h"

namespace latentd::backends::cpu {

// What kernels are bound to.
using lowering::Instruction;
using lowering::Kernel;
using lowering::Place;
using lowering::Program;
using lowering::Storage;
using lowering::View;

// Where things are in one run.
struct Frame {
  char* const* storages;  // address of each storage of the program
  char* workspace;        // workspace_bytes of it
  const void* packed;     // the packed weight, if the kernel wants one
};

struct BoundKernel {
  size_t workspace_bytes = 0;
  std::optional<weights::WeightFormat> packing;  // of the second operand, a held weight
  // Throws what oneDNN throws.
  std::function<absl::Status(const Frame&)> run;
};

// How an instruction is computed: what a plan chooses. Plans hold the numbers.
enum class Algorithm : uint8_t {
  kDirect,         // one primitive of oneDNN, or this backend's only kernel
  kAsConvolution,  // a linear layer as oneDNN's convolution of one pixel
  kThenAdd,        // a convolution, to which its residual is then added in place
  kWinograd,       // a 3x3 convolution, of an upsampled image or not, by kernels/winograd.cc
};

// What kernels are made for.
struct Machine {
  const KernelTable* kernels = nullptr;
  int threads = 1;
};

// `algorithm` is one of AlgorithmsFor(program, instruction). Throws what oneDNN throws.
absl::StatusOr<BoundKernel> BindKernel(const Program& program, const Instruction& instruction,
                                       Algorithm algorithm, const Machine& machine);

// The address of a view's first element.
inline char* BytesOf(const View& view, const Frame& frame) {
  return frame.storages[view.storage] + view.offset * device::SizeOf(view.dtype);
}
// REQUIRES: T is the C++ type of the view's dtype.
template <typename T>
T* AddressOf(const View& view, const Frame& frame) {
  return reinterpret_cast<T*>(BytesOf(view, frame));
}

}  // namespace latentd::backends::cpu
