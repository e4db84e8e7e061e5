// oneDNN as this backend uses it: primitives whose memory is given at each run, scratch in the
// caller's memory, exceptions caught at the seam.
//
// Internal to this directory; include it in .cc files only.
#pragma once

#include <dnnl.hpp>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/backends/cpu/binding/bound_kernel.h"
#include "core/base/errors/out_of_memory.h"

namespace latentd::backends::cpu {

// The process's engine. Instructions that Linux does not grant (AMX) are switched off before the
// first primitive; so are those that oneDNN's variable DNNL_MAX_CPU_ISA excludes.
dnnl::engine& Engine();

// One for each thread: weights are packed beside a run.
dnnl::stream& Stream();

// The library's version and the instruction set that it really uses: "onednn-2.6.3-isa-999".
std::string OneDnnName();
// The number of that instruction set.
int OneDnnInstructionSet();
bool OneDnnUsesAvx512();
bool OneDnnUsesBf16();

// REQUIRES: f32 or bf16.
dnnl::memory::desc Layout(device::DType dtype, const dnnl::memory::dims& dims,
                          dnnl::memory::format_tag tag);
inline dnnl::memory::desc Float32(const dnnl::memory::dims& dims, dnnl::memory::format_tag tag) {
  return Layout(device::DType::kF32, dims, tag);
}

// Scratch from the caller; then what follows the product: a residual of the result's layout, an
// activation (kInput: none).
dnnl::primitive_attr Attributes(const dnnl::memory::desc* residual, graph::Op activation);

// Goes on to the first implementation that can be relied on.
//
// Not oneDNN's own "gemm:jit", which fails beside LibTorch: both export the function in which
// std::call_once prepares it, so the process has one of the two, and it prepares LibTorch's. Linear
// layers and convolutions have another implementation wherever there are vectors.
//
// Not "jit_1x1:avx512_core_amx_bf16", which in oneDNN 2.6 writes past the end of an NHWC result
// whose pixels do not fill its tiles ([2, 7, 6, 48]).
template <typename PrimitiveDesc>
void SkipUnsound(PrimitiveDesc& desc) {
  const auto unsound = [&] {
    const absl::string_view name = desc.impl_info_str();
    return absl::EndsWith(name, "gemm:jit") || absl::StartsWith(name, "jit_1x1:avx512_core_amx");
  };
  while (unsound() && desc.next_impl()) {
  }
}

// A primitive and its arguments. Copies of one must not run at the same time.
class Primitive {
 public:
  // `arguments`: ids (DNNL_ARG_SRC, ...) with their layouts.
  Primitive(const dnnl::primitive& primitive,
            const std::vector<std::pair<int, dnnl::memory::desc>>& arguments);

  // Addresses in the order of the arguments.
  void Run(absl::Span<const void* const> addresses);

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<const void*> addresses_;  // current addresses of the memories
  std::unordered_map<int, dnnl::memory> arguments_;
};

// Calls `function`; what oneDNN throws becomes a status that names `what`: RESOURCE_EXHAUSTED with
// reason OUT_OF_MEMORY, or INTERNAL.
template <typename Function>
auto CatchOneDnn(absl::string_view what, Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return OutOfMemoryError(absl::StrCat(what, ": out of memory"));
  } catch (const dnnl::error& error) {
    const std::string message = absl::StrCat(what, ": oneDNN: ", error.what());
    return error.status == dnnl_out_of_memory ? OutOfMemoryError(message)
                                              : absl::InternalError(message);
  }
}

}  // namespace latentd::backends::cpu
