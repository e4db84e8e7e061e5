// A kernel chosen for one instruction, ready to run as often as one likes.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/backends/cpu/kernels/kernel_table.h"
#include "core/backends/cpu/program.h"
#include "core/weights/weight_store.h"

namespace latentd::backends::cpu {

// Where things are in one run.
struct Frame {
  char* const* storages;  // address of each storage of the program
  char* workspace;        // workspace_bytes of it
  const void* packed;     // the packed weight, if the kernel wants one
};

struct BoundKernel {
  size_t workspace_bytes = 0;
  std::optional<weights::Packing> packing;  // of the second operand, a held weight
  // Throws what oneDNN throws.
  std::function<absl::Status(const Frame&)> run;
};

// What kernels are made for.
struct Machine {
  const KernelTable* kernels = nullptr;
  int threads = 1;
};

// Whether products of bf16 are computed as such, with sums in f32.
bool MultipliesInBf16(const Machine& machine);

// Kernels that there are to choose from, by number; which one Plan chooses when nothing was
// measured.
int ChoicesOf(const Instruction& instruction);
int DefaultChoice(const Instruction& instruction, const Machine& machine);

// `choice` is one of ChoicesOf(instruction). Throws what oneDNN throws.
absl::StatusOr<BoundKernel> BindKernel(const Program& program, const Instruction& instruction,
                                       int choice, const Machine& machine);

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
