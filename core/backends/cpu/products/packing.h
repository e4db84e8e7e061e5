// The forms in which this backend holds weights. A form's name says all that packing takes, so that
// a plan is enough to make its weights:
//
//   f32                  the plain result, converted
//   LAYOUT               as a primitive of oneDNN reads it, in 13 words: library and
//                        instruction set, kind of primitive, dtype, dimensions, and where
//                        they lie:
//                        "onednn-2.6.3-isa-999 convolution bf16 dims 16x3x3x3 padded 16x16x3x3
//                        strides 2304x2304x768x256 blocks 16x16 of 1x0"
//   halves LAYOUT        the weight of a linear layer before a GEGLU (linear_geglu.cc)
//   phases LAYOUT * 4    of a convolution of an upsampled image (upsample_convolution.cc)
//   winograd-4x4 avx512  of a 3x3 convolution (winograd.cc), for that instruction set
//
// Internal to this directory; include it in .cc files only.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/backends/cpu/binding/bound_program.h"
#include "core/backends/cpu/binding/onednn.h"
#include "core/weights/weight_maker.h"

namespace latentd::backends::cpu {

using lowering::kWideForm;
inline constexpr absl::string_view kHalvesForm = "halves ", kPhasesForm = "phases ";

// From the layout of a plain weight into another of the same dtype.
struct Reordering {
  dnnl::memory::desc plain, packed;

  void Run(const void* from, void* to) const;
};

// The weight, in f32 if `plain` is and it is not.
device::ConstBuffer AsPlain(const device::ConstBuffer& weight, const dnnl::memory::desc& plain);

// Form of a weight that `primitive` reads: "matmul", [out, in] as a matrix [in, out], or
// "convolution", [out, in, height, width]. REQUIRES: f32 or bf16, and blocked.
std::string LayoutForm(absl::string_view primitive, const dnnl::memory::desc& packed);
// UNIMPLEMENTED: not so many layouts, or not this process's.
absl::StatusOr<std::vector<Reordering>> ReorderingsOf(absl::string_view form, size_t count);
std::string WinogradForm(const Machine& machine);

// The format of a weight of dtype `stored`, which lies as `plain`, for a primitive.
// REQUIRES: the dtype of `plain` is `stored`, or f32, into which the weight is then converted.
weights::WeightFormat FormatFor(absl::string_view primitive, device::DType stored,
                                const dnnl::memory::desc& plain, const dnnl::memory::desc& packed);

// UNIMPLEMENTED: a form that this machine does not know; INTERNAL: weight or memory of another size
// than the form wants. Throws what oneDNN throws, and std::bad_alloc.
absl::Status Pack(absl::string_view form, const device::ConstBuffer& plain, absl::Span<char> packed,
                  const Machine& machine);

// The forms of single kernels, beside them; `layouts`: the form without its first word.
absl::Status PackHalves(absl::string_view layouts, const device::ConstBuffer& plain,
                        absl::Span<char> packed);
absl::Status PackPhases(absl::string_view layouts, const device::ConstBuffer& plain,
                        absl::Span<char> packed);
absl::Status PackWinograd(const device::ConstBuffer& plain, absl::Span<char> packed,
                          const Machine& machine);

// INTERNAL unless weight and memory have so many bytes.
absl::Status CheckSizes(absl::string_view form, const device::ConstBuffer& plain,
                        size_t plain_bytes, absl::Span<const char> packed, size_t packed_bytes);

}  // namespace latentd::backends::cpu
