// A kernel chosen for one instruction, ready to be enqueued as often as one likes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/backends/cuda/cublas_lt.h"
#include "core/backends/cuda/cudnn.h"
#include "core/backends/lowering/program.h"
#include "core/weights/weight_maker.h"

namespace latentd::backends::cuda {

// What kernels are bound to.
using lowering::Instruction;
using lowering::Kernel;
using lowering::Place;
using lowering::Program;
using lowering::Storage;
using lowering::View;

// Where things are in one run.
struct Frame {
  char* const* storages;  // address of each storage of the program, on the device
  char* workspace;        // workspace_bytes of it
  const void* packed;     // the packed weight, if the kernel wants one
  cudaStream_t stream;
};

struct BoundKernel {
  size_t workspace_bytes = 0;
  std::optional<weights::WeightFormat> packing;  // of the second operand, a held weight
  std::function<absl::Status(const Frame&)> enqueue;
};

// The vendor's libraries.
struct Libraries {
  CublasLt& cublas_lt;
  Cudnn& cudnn;
};

// What the libraries chose for each of the shapes that a graph has: what a plan holds.
using Choices = std::map<std::string, std::string>;

// How a binder comes by its choice: it is made and written down, or looked up.
class Chooser {
 public:
  static Chooser Choosing(Choices& made) { return {&made, nullptr}; }
  static Chooser LookingUp(const Choices& given) { return {nullptr, &given}; }

  // `choose` gives StatusOr<string>. INVALID_ARGUMENT: the plan has no choice for the key.
  template <typename Choose>
  absl::StatusOr<std::string> Get(const std::string& key, const Choose& choose) const {
    const Choices& known = made_ != nullptr ? *made_ : *given_;
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
    if (made_ == nullptr) return Missing(key);
    absl::StatusOr<std::string> chosen = choose();
    if (chosen.ok()) made_->emplace(key, *chosen);
    return chosen;
  }

 private:
  Chooser(Choices* made, const Choices* given) : made_(made), given_(given) {}
  static absl::Status Missing(const std::string& key);

  Choices* made_;
  const Choices* given_;
};

absl::StatusOr<BoundKernel> BindKernel(const Program& program, const Instruction& instruction,
                                       const Chooser& chooser, const Libraries& libraries);

// The address of a view's first element.
inline char* BytesOf(const View& view, const Frame& frame) {
  return frame.storages[view.storage] + view.offset * device::SizeOf(view.dtype);
}
// REQUIRES: T is the C++ type of the view's dtype.
template <typename T>
T* AddressOf(const View& view, const Frame& frame) {
  return reinterpret_cast<T*>(BytesOf(view, frame));
}

}  // namespace latentd::backends::cuda
