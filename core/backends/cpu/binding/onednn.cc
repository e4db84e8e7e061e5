#include "core/backends/cpu/binding/onednn.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "absl/algorithm/container.h"

namespace latentd::backends::cpu {
namespace {

// Some hypervisors report AMX and do not grant its registers; oneDNN 2.6 would die of an illegal
// instruction. The system call is how a process asks for them (arch/x86/kernel/fpu/xstate.c).
bool MayUseAmx() {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// True if oneDNN's own variable caps it to less than AMX; setting a cap would undo that.
bool IsCapped() {
  constexpr std::array<absl::string_view, 7> kCaps = {
      "SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX512_CORE", "AVX512_CORE_VNNI", "AVX512_CORE_BF16"};
  const char* cap = std::getenv("DNNL_MAX_CPU_ISA");
  return cap != nullptr && absl::c_linear_search(kCaps, cap);
}

dnnl::algorithm AlgorithmOf(graph::Op activation) {
  switch (activation) {
    case graph::Op::kGelu:
      return dnnl::algorithm::eltwise_gelu_erf;
    case graph::Op::kRelu:
      return dnnl::algorithm::eltwise_relu;
    default:
      return dnnl::algorithm::eltwise_swish;  // x sigmoid(alpha x)
  }
}

float AlphaOf(graph::Op activation) {
  switch (activation) {
    case graph::Op::kSilu:
      return 1.0f;
    case graph::Op::kQuickGelu:
      return 1.702f;
    default:
      return 0.0f;
  }
}

dnnl::memory::data_type TypeOf(device::DType dtype) {
  return dtype == device::DType::kBF16 ? dnnl::memory::data_type::bf16
                                       : dnnl::memory::data_type::f32;
}

}  // namespace

dnnl::engine& Engine() {
  static auto* engine = [] {
    if (!MayUseAmx() && !IsCapped()) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return *engine;
}

dnnl::stream& Stream() {
  thread_local dnnl::stream stream(Engine());
  return stream;
}

int OneDnnInstructionSet() {
  Engine();
  return static_cast<int>(dnnl::get_effective_cpu_isa());
}

std::string OneDnnName() {
  const dnnl_version_t* version = dnnl_version();
  return absl::StrCat("onednn-", version->major, ".", version->minor, ".", version->patch, "-isa-",
                      OneDnnInstructionSet());
}

// Larger sets have the bits of the smaller ones that they contain.
bool OneDnnUsesAvx512() {
  return (OneDnnInstructionSet() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
}

bool OneDnnUsesBf16() {
  return (OneDnnInstructionSet() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

dnnl::memory::desc Layout(device::DType dtype, const dnnl::memory::dims& dims,
                          dnnl::memory::format_tag tag) {
  return dnnl::memory::desc(dims, TypeOf(dtype), tag);
}

dnnl::primitive_attr Attributes(const dnnl::memory::desc* residual, graph::Op activation) {
  dnnl::post_ops post_ops;
  if (residual != nullptr) post_ops.append_binary(dnnl::algorithm::binary_add, *residual);
  if (activation != graph::Op::kInput) {
    post_ops.append_eltwise(1.0f, AlgorithmOf(activation), AlphaOf(activation), 0.0f);
  }
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(post_ops);
  return attributes;
}

Primitive::Primitive(const dnnl::primitive& primitive,
                     const std::vector<std::pair<int, dnnl::memory::desc>>& arguments)
    : primitive_(primitive), addresses_(arguments.size(), nullptr) {
  for (const auto& [id, desc] : arguments) {
    memories_.emplace_back(desc, Engine(), nullptr);
    arguments_.emplace(id, memories_.back());
  }
}

void Primitive::Run(absl::Span<const void* const> addresses) {
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i] == addresses_[i]) continue;
    memories_[i].set_data_handle(const_cast<void*>(addresses[i]));
    addresses_[i] = addresses[i];
  }
  primitive_.execute(Stream(), arguments_);
}

}  // namespace latentd::backends::cpu
