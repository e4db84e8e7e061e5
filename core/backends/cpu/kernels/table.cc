#include "core/backends/cpu/kernels/instruction_set.h"

#define LATENTD_STRING_(x) #x
#define LATENTD_STRING(x) LATENTD_STRING_(x)

namespace latentd::backends::cpu::LATENTD_ISA {

const KernelTable& Table() {
  static constexpr KernelTable kTable = {
      .name = LATENTD_STRING(LATENTD_ISA),
      .group_norm_nhwc = GroupNormNhwc,
      .group_norm_nchw = GroupNormNchw,
      .group_norm_workspace = GroupNormWorkspace,
      .attention = Attention,
      .attention_workspace = AttentionWorkspace,
      .low_rank = LowRank,
      .low_rank_workspace = LowRankWorkspace,
      .winograd = Winograd,
      .winograd_workspace = WinogradWorkspace,
      .winograd_weight_bytes = WinogradWeightBytes,
      .winograd_pack = WinogradPack,
      .layer_norm = LayerNorm,
      .softmax = Softmax,
      .row_std = RowStd,
      .is_finite = IsFinite,
      .unary = Unary,
      .clamp = Clamp,
      .geglu = Geglu,
      .binary = Binary,
      .convert = Convert,
      .to_pixels = ToPixels,
      .scheduler_step = SchedulerStep,
      .copy = Copy,
      .upsample_nearest = UpsampleNearest,
      .interleave = Interleave,
  };
  return kTable;
}

}  // namespace latentd::backends::cpu::LATENTD_ISA
