// Types that the kernels of every backend share, once they are chosen: their arguments, their
// needs, and the addresses in a run.
#pragma once

#include <cstddef>
#include <optional>

#include "core/backends/lowering/program.h"
#include "core/device/dtype.h"
#include "core/weights/weight_maker.h"

namespace latentd::backends::lowering {

// The instruction that a binder makes a kernel for; a backend adds what it chooses by.
struct BinderArguments {
  const Program& program;
  const Instruction& instruction;

  const View& operand(int i) const { return instruction.operands[i]; }
  const View& result() const { return instruction.result; }

  bool weight_is_held() const { return IsHeld(program, instruction.operands[1]); }
};

// A row of a backend's table of binders: functions from its BinderArguments to its bound kernel.
template <typename Binder>
struct BinderRow {
  Kernel kernel;
  Binder binder;
};

// Memory that a kernel needs beside its operands and its result.
struct KernelNeeds {
  size_t workspace_bytes = 0;
  std::optional<weights::WeightFormat> packing = {};  // form of the second operand, a held weight
};

// Addresses of one run.
struct Frame {
  char* const* storages;  // address of each storage of the program, on the device
  char* workspace;        // workspace_bytes of it
  const void* packed;     // the packed weight, if the kernel wants one
};

// The address of a view's first element.
inline char* BytesOf(const View& view, const Frame& frame) {
  return frame.storages[view.storage] + view.offset * device::SizeOf(view.dtype);
}
// REQUIRES: T is the C++ type of the view's dtype.
template <typename T>
T* AddressOf(const View& view, const Frame& frame) {
  return reinterpret_cast<T*>(BytesOf(view, frame));
}

}  // namespace latentd::backends::lowering
