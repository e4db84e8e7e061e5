#include "core/backends/cuda/trial/plan_trial.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/backends/cuda/libraries/trial_memory.h"
#include "core/base/errors/status_macros.h"

namespace latentd::backends::cuda {
namespace {

using Array = TrialMemory::Array;
using Random = TrialMemory::Random;
using Sample = TrialMemory::Sample;

// A pixel of an NHWC image.
struct Pixel {
  int64_t row, y, x;

  static Pixel Any(Random& random, int64_t rows, int64_t height, int64_t width) {
    return {TrialMemory::Below(random, rows), TrialMemory::Below(random, height),
            TrialMemory::Below(random, width)};
  }
  int64_t Index(int64_t height, int64_t width, int64_t channels) const {
    return ((row * height + y) * width + x) * channels;
  }
};

absl::Status Run(TrialMemory& memory, const CudnnPlan& plan, absl::Span<const Array> operands,
                 const Array& result) {
  absl::InlinedVector<void*, 5> addresses;
  for (const Array& operand : operands) {
    if (operand.elements > 0) addresses.push_back(operand.data);
  }
  addresses.push_back(result.data);
  ASSIGN_OR_RETURN(char* const workspace, memory.Take(plan.workspace_bytes()));
  RETURN_IF_ERROR(memory.Poison(result));
  return plan.Enqueue(addresses, workspace, memory.stream());
}

// Weights of one query, which sum up to 1.
std::vector<double> Softmax(std::vector<double> scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
  return scores;
}

}  // namespace

absl::Status TryPlan(const ConvolutionShape& s, const CudnnPlan& plan) {
  const int64_t height = s.result_height(), width = s.result_width();
  const int64_t taps = s.kernel_height * s.kernel_width;
  ASSIGN_OR_RETURN(const std::unique_ptr<TrialMemory> memory, TrialMemory::Create());
  ASSIGN_OR_RETURN(const Array x, memory->Draw(s.rows * s.height * s.width * s.channels, s.dtype));
  ASSIGN_OR_RETURN(const Array weight, memory->Draw(s.out * taps * s.channels, s.dtype));
  ASSIGN_OR_RETURN(const Array bias, memory->Draw(s.has_bias ? s.out : 0, s.dtype));
  const int64_t elements = s.rows * height * width * s.out;
  ASSIGN_OR_RETURN(const Array residual, memory->Draw(s.has_residual ? elements : 0, s.dtype));
  ASSIGN_OR_RETURN(const Array y, memory->Allocate(elements, s.dtype));
  RETURN_IF_ERROR(Run(*memory, plan, {x, weight, bias, residual}, y));
  const auto draw = [&](Random& random) {
    const Pixel at = Pixel::Any(random, s.rows, height, width);
    const int64_t out = TrialMemory::Below(random, s.out),
                  index = at.Index(height, width, s.out) + out;
    double sum = 0;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t from_y = at.y * s.stride - s.padding_height + tap / s.kernel_width;
      const int64_t from_x = at.x * s.stride - s.padding_width + tap % s.kernel_width;
      if (from_y < 0 || from_y >= s.height || from_x < 0 || from_x >= s.width) continue;
      const int64_t of_x = Pixel{at.row, from_y, from_x}.Index(s.height, s.width, s.channels);
      const int64_t of_weight = (out * taps + tap) * s.channels;
      for (int64_t c = 0; c < s.channels; ++c) {
        sum += memory->Value(x, of_x + c) * memory->Value(weight, of_weight + c);
      }
    }
    if (s.has_bias) sum += memory->Value(bias, out);
    if (s.has_residual) sum += memory->Value(residual, index);
    return Sample{index, sum, std::sqrt(static_cast<double>(taps * s.channels)) + 1};
  };
  return memory->Check(y, draw, s.Key(), s.tf32());
}

absl::Status TryPlan(const TransposedConvolutionShape& s, const CudnnPlan& plan) {
  constexpr int64_t kTaps = 4;  // a side
  const int64_t height = 2 * s.height, width = 2 * s.width;
  ASSIGN_OR_RETURN(const std::unique_ptr<TrialMemory> memory, TrialMemory::Create());
  ASSIGN_OR_RETURN(const Array x, memory->Draw(s.rows * s.height * s.width * s.channels, s.dtype));
  ASSIGN_OR_RETURN(const Array weight, memory->Draw(s.channels * kTaps * kTaps * s.out, s.dtype));
  ASSIGN_OR_RETURN(const Array y, memory->Allocate(s.rows * height * width * s.out, s.dtype));
  RETURN_IF_ERROR(Run(*memory, plan, {x, weight}, y));
  const auto draw = [&](Random& random) {
    const Pixel at = Pixel::Any(random, s.rows, height, width);
    const int64_t out = TrialMemory::Below(random, s.out);
    double sum = 0;
    // A pixel of the small image goes to those from twice its place less 1 on.
    for (int64_t tap = 0; tap < kTaps * kTaps; ++tap) {
      const int64_t twice_y = at.y + 1 - tap / kTaps, twice_x = at.x + 1 - tap % kTaps;
      if (twice_y < 0 || twice_y >= height || twice_y % 2 != 0) continue;
      if (twice_x < 0 || twice_x >= width || twice_x % 2 != 0) continue;
      const int64_t of_x =
          Pixel{at.row, twice_y / 2, twice_x / 2}.Index(s.height, s.width, s.channels);
      for (int64_t c = 0; c < s.channels; ++c) {
        sum += memory->Value(x, of_x + c) *
               memory->Value(weight, (c * kTaps * kTaps + tap) * s.out + out);
      }
    }
    return Sample{at.Index(height, width, s.out) + out, sum,
                  std::sqrt(static_cast<double>(4 * s.channels)) + 1};
  };
  return memory->Check(y, draw, s.Key(), s.tf32());
}

absl::Status TryPlan(const AttentionShape& s, const CudnnPlan& plan) {
  const int64_t line = s.heads * s.size;
  ASSIGN_OR_RETURN(const std::unique_ptr<TrialMemory> memory, TrialMemory::Create());
  const auto tokens = [&](const AttentionShape::Operand& operand, int64_t count) {
    return memory->Draw((s.rows - 1) * operand.row + (count - 1) * operand.token + line, s.dtype);
  };
  ASSIGN_OR_RETURN(const Array query, tokens(s.query, s.queries));
  ASSIGN_OR_RETURN(const Array key, tokens(s.key, s.keys));
  ASSIGN_OR_RETURN(const Array value, tokens(s.value, s.keys));
  ASSIGN_OR_RETURN(const Array y, memory->Allocate(s.rows * s.queries * line, s.dtype));
  RETURN_IF_ERROR(Run(*memory, plan, {query, key, value}, y));
  const auto draw = [&](Random& random) {
    const int64_t row = TrialMemory::Below(random, s.rows),
                  own = TrialMemory::Below(random, s.queries);
    const int64_t head = TrialMemory::Below(random, s.heads) * s.size,
                  element = head + TrialMemory::Below(random, s.size);
    std::vector<double> weights(s.causal ? std::min(own + 1, s.keys) : s.keys);
    for (size_t other = 0; other < weights.size(); ++other) {
      const int64_t of_query = row * s.query.row + own * s.query.token + head;
      const int64_t of_key = row * s.key.row + static_cast<int64_t>(other) * s.key.token + head;
      for (int64_t i = 0; i < s.size; ++i) {
        weights[other] += memory->Value(query, of_query + i) * memory->Value(key, of_key + i);
      }
      weights[other] *= s.scale;
    }
    weights = Softmax(std::move(weights));
    double sum = 0, squares = 0;
    for (size_t other = 0; other < weights.size(); ++other) {
      const int64_t of_value = row * s.value.row + static_cast<int64_t>(other) * s.value.token;
      sum += weights[other] * memory->Value(value, of_value + element);
      squares += weights[other] * weights[other];
    }
    return Sample{(row * s.queries + own) * line + element, sum, 4 * std::sqrt(squares)};
  };
  return memory->Check(y, draw, s.Key());
}

}  // namespace latentd::backends::cuda
