// For the sources that are compiled once per instruction set: LATENTD_ISA is the namespace that
// keeps the copies apart, kWidth the number of floats in a vector.
#pragma once

#include "core/backends/cpu/kernels/kernel_table.h"

namespace latentd::backends::cpu::LATENTD_ISA {

#if defined(__AVX512F__)
inline constexpr int64_t kWidth = 16;
#elif defined(__AVX__)
inline constexpr int64_t kWidth = 8;
#else
inline constexpr int64_t kWidth = 4;
#endif

// As core/base/alignment.h has it, whose copies of all instruction sets would be one.
static inline int64_t RoundUp(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// The rows of the table.
void GroupNormNhwc(const GroupNormArguments& arguments);
void GroupNormNchw(const GroupNormArguments& arguments);
size_t GroupNormWorkspace(int64_t rows, int64_t channels, int threads);
void Attention(const AttentionArguments& arguments);
size_t AttentionWorkspace(const AttentionArguments& arguments);
void LowRank(const LowRankArguments& arguments);
size_t LowRankWorkspace(const LowRankArguments& arguments);
void Winograd(const WinogradArguments& arguments);
size_t WinogradWorkspace(const WinogradArguments& arguments);
size_t WinogradWeightBytes(int64_t channels, int64_t out);
void WinogradPack(const float* weight, int64_t channels, int64_t out, float* packed);
void LayerNorm(Element element, const void* x, void* y, const float* gamma, const float* beta,
               int64_t rows, int64_t size, float epsilon);
void Softmax(const float* x, float* y, int64_t rows, int64_t size);
void RowStd(const float* x, float* y, int64_t rows, int64_t size);
void IsFinite(Element element, const void* x, uint8_t* y, int64_t rows, int64_t size);
void Unary(UnaryFunction function, Element element, const void* x, void* y, int64_t size);
void Clamp(Element element, const void* x, void* y, int64_t size, float min, float max);
void Geglu(Element element, const void* x, void* y, int64_t rows, int64_t size);
void Binary(BinaryFunction function, Element element, const LoopNest& loops, void* y, const void* a,
            const void* b);
void Convert(Element from, Element to, const void* x, void* y, int64_t size);
void ToPixels(Element element, const void* x, uint8_t* y, int64_t size);
void SchedulerStep(const SchedulerStepArguments& arguments);
void Copy(const LoopNest& loops, int64_t element_bytes, char* to, const char* from);
void UpsampleNearest(const UpsampleArguments& arguments);
void Interleave(const InterleaveArguments& arguments);

const KernelTable& Table();

}  // namespace latentd::backends::cpu::LATENTD_ISA
