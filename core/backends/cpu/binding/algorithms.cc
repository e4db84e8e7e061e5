#include "core/backends/cpu/binding/algorithms.h"

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"
#include "core/backends/cpu/binding/onednn.h"

namespace latentd::backends::cpu {
namespace {

// In a row: from here on oneDNN is faster without the residual, which costs it its better
// convolution, and an addition after it (measured from 512 KiB to 16 MiB on AVX-512).
constexpr int64_t kLargeElements = int64_t{1} << 17;

// Winograd's convolution takes 0.4 to 0.5 of the direct one's time from 16x16 pixels on (two cores;
// a step 0.76, a decode 0.64). It needs enough tiles for every thread: with 4 or 8 in all it is no
// faster. Its weight is four times as large, and held only where that is not much larger than the
// images: not for SDXL's 1280 channels of 32x32 pixels, where most of the weights are.
constexpr int64_t kTilePixels = 16, kLeastTilesOfAThread = 8, kMostWeightsOfImages = 16;
constexpr int64_t kPositions = 36;

bool HasAvx512(const Machine& machine) {
  return absl::string_view(machine.kernels->name) == "avx512" && OneDnnUsesAvx512();
}

bool AddsResidualOnly(const Instruction& instruction) {
  return instruction.kernel == Kernel::kConvolution && instruction.operands[3].present() &&
         instruction.activation == graph::Op::kInput;
}

bool HasWinograd(const Program& program, const Instruction& instruction) {
  const auto* conv = std::get_if<graph::Conv2dAttributes>(&instruction.attributes);
  const graph::Shape& weight = instruction.operands[1].shape;
  const graph::Padding around = {1, 1, 1, 1};
  return conv != nullptr && weight[2] == 3 && weight[3] == 3 && conv->stride == 1 &&
         conv->padding == around && weight[0] % kWinogradChannels == 0 &&
         weight[1] % kWinogradChannels == 0 && instruction.activation == graph::Op::kInput &&
         instruction.operands[0].dtype == device::DType::kF32 &&
         lowering::IsHeld(program, instruction.operands[1]);
}

bool WinogradIsWorthIt(const Instruction& instruction, const Machine& machine) {
  const graph::Shape& x = instruction.operands[0].shape;
  const graph::Shape& y = instruction.result.shape;
  const int64_t pixels = y[1] * y[2], images = x[1] * x[2] * x[3] + pixels * y[3];
  return pixels >= kTilePixels * kLeastTilesOfAThread * machine.threads &&
         kPositions * x[3] * y[3] <= kMostWeightsOfImages * images;
}

}  // namespace

bool MultipliesInBf16(const Machine& machine) { return HasAvx512(machine) && OneDnnUsesBf16(); }

std::vector<Algorithm> AlgorithmsFor(const Program& program, const Instruction& instruction) {
  std::vector<Algorithm> algorithms = {Algorithm::kDirect};
  const bool convolves = instruction.kernel == Kernel::kConvolution ||
                         instruction.kernel == Kernel::kUpsampleConvolution;
  const bool multiplies =
      instruction.kernel == Kernel::kLinear || instruction.kernel == Kernel::kMatmul;
  if (multiplies) algorithms.push_back(Algorithm::kAsConvolution);
  if (AddsResidualOnly(instruction)) algorithms.push_back(Algorithm::kThenAdd);
  if (convolves && HasWinograd(program, instruction)) algorithms.push_back(Algorithm::kWinograd);
  return algorithms;
}

Algorithm ChooseAlgorithm(const Program& program, const Instruction& instruction,
                          const Machine& machine) {
  const std::vector<Algorithm> algorithms = AlgorithmsFor(program, instruction);
  const auto has = [&](Algorithm algorithm) {
    return absl::c_linear_search(algorithms, algorithm);
  };
  if (has(Algorithm::kWinograd) && WinogradIsWorthIt(instruction, machine))
    return Algorithm::kWinograd;
  // Below AVX-512 oneDNN's product that can be relied on is a plain loop. With it oneDNN cuts that
  // convolution's sums by the number of rows and the caches of the machine: a row alone would have
  // other bytes than beside others.
  if (has(Algorithm::kAsConvolution) && !OneDnnUsesAvx512()) return Algorithm::kAsConvolution;
  if (!has(Algorithm::kThenAdd) || !HasAvx512(machine)) return Algorithm::kDirect;
  const graph::Shape& y = instruction.result.shape;
  return y.elements() / y[0] >= kLargeElements ? Algorithm::kThenAdd : Algorithm::kDirect;
}

std::vector<Algorithm> ChooseAlgorithms(const Program& program, const Machine& machine) {
  std::vector<Algorithm> algorithms;
  for (const Instruction& instruction : program.instructions) {
    algorithms.push_back(ChooseAlgorithm(program, instruction, machine));
  }
  return algorithms;
}

}  // namespace latentd::backends::cpu
