#include "core/backends/cpu/products/packing.h"

#include <cassert>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/backends/cpu/binding/element.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cpu {
namespace {

using device::DType;
using dnnl::memory;
using Tag = memory::format_tag;

constexpr size_t kLayoutWords = 13;

template <typename T>
std::string List(const T* values, int count) {
  return absl::StrJoin(absl::MakeSpan(values, count), "x");
}

// Empty for anything but a list of as many numbers as a layout can have.
std::vector<int64_t> Numbers(absl::string_view list) {
  std::vector<int64_t> numbers;
  for (absl::string_view word : absl::StrSplit(list, 'x', absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(word, &numbers.emplace_back())) return {};
  }
  return numbers.size() <= DNNL_MAX_NDIMS ? numbers : std::vector<int64_t>();
}

absl::Status Unknown(absl::string_view form) {
  return absl::UnimplementedError(absl::StrCat("this CPU backend packs no weight as ", form));
}

dnnl_data_type_t TypeOf(DType dtype) { return dtype == DType::kBF16 ? dnnl_bf16 : dnnl_f32; }

memory::desc Blocked(DType dtype, const std::vector<int64_t>& dims,
                     const std::vector<int64_t>& padded, const std::vector<int64_t>& strides,
                     const std::vector<int64_t>& blocks, const std::vector<int64_t>& of) {
  dnnl_memory_desc_t d = {};
  d.ndims = static_cast<int>(dims.size());
  d.data_type = TypeOf(dtype);
  d.format_kind = dnnl_blocked;
  absl::c_copy(dims, d.dims);
  absl::c_copy(padded, d.padded_dims);
  dnnl_blocking_desc_t& blocking = d.format_desc.blocking;
  blocking.inner_nblks = static_cast<int>(blocks.size());
  absl::c_copy(strides, blocking.strides);
  absl::c_copy(blocks, blocking.inner_blks);
  absl::c_copy(of, blocking.inner_idxs);
  return {d};
}

absl::StatusOr<Reordering> ReorderingOf(absl::Span<const absl::string_view> words) {
  const absl::StatusOr<DType> dtype = device::ParseDType(words[2]);
  const std::vector<int64_t> dims = Numbers(words[4]), padded = Numbers(words[6]),
                             strides = Numbers(words[8]), blocks = Numbers(words[10]),
                             of = Numbers(words[12]);
  const bool matmul = words[1] == "matmul";
  const size_t rank = matmul ? 2 : 4;
  if (words[0] != OneDnnName() || (!matmul && words[1] != "convolution") || !dtype.ok() ||
      (*dtype != DType::kF32 && *dtype != DType::kBF16) || dims.size() != rank ||
      padded.size() != rank || strides.size() != rank || blocks.size() != of.size()) {
    return Unknown(absl::StrJoin(words, " "));
  }
  return Reordering{Layout(*dtype, dims, matmul ? Tag::ba : Tag::oihw),
                    Blocked(*dtype, dims, padded, strides, blocks, of)};
}

bool Widens(DType stored, const memory::desc& plain) {
  return stored != DType::kF32 && plain.data_type() == memory::data_type::f32;
}

absl::Status PackLayout(absl::string_view form, const device::ConstBuffer& plain,
                        absl::Span<char> packed) {
  ASSIGN_OR_RETURN(const std::vector<Reordering> layouts, ReorderingsOf(form, 1));
  const Reordering& layout = layouts[0];
  const device::ConstBuffer from = AsPlain(plain, layout.plain);
  RETURN_IF_ERROR(
      CheckSizes(form, from, layout.plain.get_size(), packed, layout.packed.get_size()));
  layout.Run(from.data(), packed.data());
  return absl::OkStatus();
}

absl::Status Widen(const device::ConstBuffer& plain, absl::Span<char> packed) {
  RETURN_IF_ERROR(CheckSizes(kWideForm, plain, plain.bytes(), packed,
                             static_cast<size_t>(plain.elements()) * sizeof(float)));
  ConvertToFloat32(plain, packed.data());
  return absl::OkStatus();
}

}  // namespace

void Reordering::Run(const void* from, void* to) const {
  dnnl::memory source(plain, Engine(), const_cast<void*>(from));
  dnnl::memory result(packed, Engine(), to);
  dnnl::reorder(source, result).execute(Stream(), source, result);
  Stream().wait();
}

device::ConstBuffer AsPlain(const device::ConstBuffer& weight, const memory::desc& plain) {
  return Widens(weight.dtype(), plain) ? InFloat32(weight) : weight;
}

std::string LayoutForm(absl::string_view primitive, const memory::desc& packed) {
  const dnnl_memory_desc_t& d = packed.data;
  assert(d.format_kind == dnnl_blocked && d.extra.flags == dnnl_memory_extra_flag_none);
  const dnnl_blocking_desc_t& blocking = d.format_desc.blocking;
  return absl::StrCat(OneDnnName(), " ", primitive, " ",
                      device::Name(d.data_type == dnnl_bf16 ? DType::kBF16 : DType::kF32), " dims ",
                      List(d.dims, d.ndims), " padded ", List(d.padded_dims, d.ndims), " strides ",
                      List(blocking.strides, d.ndims), " blocks ",
                      List(blocking.inner_blks, blocking.inner_nblks), " of ",
                      List(blocking.inner_idxs, blocking.inner_nblks));
}

absl::StatusOr<std::vector<Reordering>> ReorderingsOf(absl::string_view form, size_t count) {
  const std::vector<absl::string_view> words = absl::StrSplit(form, ' ');
  if (words.size() != count * kLayoutWords) return Unknown(form);
  std::vector<Reordering> reorderings;
  for (size_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(reorderings.emplace_back(),
                     ReorderingOf(absl::MakeSpan(words).subspan(i * kLayoutWords, kLayoutWords)));
  }
  return reorderings;
}

weights::WeightFormat FormatFor(absl::string_view primitive, DType stored,
                                const memory::desc& plain, const memory::desc& packed) {
  const bool widens = Widens(stored, plain);
  if (!widens && plain == packed) return {"", plain.get_size()};
  return {LayoutForm(primitive, packed), packed.get_size(), widens ? plain.get_size() : 0};
}

absl::Status CheckSizes(absl::string_view form, const device::ConstBuffer& plain,
                        size_t plain_bytes, absl::Span<const char> packed, size_t packed_bytes) {
  if (plain.bytes() == plain_bytes && packed.size() == packed_bytes) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("a weight of ", plain.bytes(), " bytes and memory of ",
                                          packed.size(), " have not the sizes of the form \"", form,
                                          "\", ", plain_bytes, " and ", packed_bytes));
}

absl::Status Pack(absl::string_view form, const device::ConstBuffer& plain, absl::Span<char> packed,
                  const Machine& machine) {
  if (form == kWideForm) return Widen(plain, packed);
  if (form == WinogradForm(machine)) return PackWinograd(plain, packed, machine);
  if (absl::ConsumePrefix(&form, kHalvesForm)) return PackHalves(form, plain, packed);
  if (absl::ConsumePrefix(&form, kPhasesForm)) return PackPhases(form, plain, packed);
  return PackLayout(form, plain, packed);
}

}  // namespace latentd::backends::cpu
