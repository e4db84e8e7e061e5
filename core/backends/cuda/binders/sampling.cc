#include "core/backends/cuda/kernels/values/sampling.h"

#include <cmath>

#include "core/backends/cuda/binders/binders.h"

namespace latentd::backends::cuda {

absl::StatusOr<BoundKernel> BindTimestepEmbedding(const BinderArguments& a) {
  const auto& embedding = std::get<graph::TimestepEmbeddingAttributes>(a.instruction.attributes);
  kernels::TimestepEmbeddingArgs args;
  args.rows = a.operand(0).shape[0];
  args.dim = embedding.dim;
  const int64_t half = embedding.dim / 2;
  args.exponent_step =
      static_cast<float>(-std::log(10000.0) / (half - embedding.downscale_freq_shift));
  args.cosines_first = embedding.flip_sin_to_cos;
  return OwnKernel(a, args, [x = a.operand(0), y = a.result()](auto& args, const Frame& f) {
    args.timesteps = AddressOf<float>(x, f);
    args.result = AddressOf<float>(y, f);
    return kernels::TimestepEmbedding(args, f.stream);
  });
}

absl::StatusOr<BoundKernel> BindSchedulerStep(const BinderArguments& a) {
  const graph::Shape& state = a.operand(0).shape;
  kernels::SchedulerStepArgs args;
  args.rows = state[0];
  args.elements = state[2];
  return OwnKernel(a, args,
                   [state = a.operand(0), output = a.operand(1), noise = a.operand(2),
                    lines = a.operand(3), y = a.result()](auto& args, const Frame& f) {
                     args.state = AddressOf<float>(state, f);
                     args.output = AddressOf<float>(output, f);
                     args.noise = AddressOf<float>(noise, f);
                     args.lines = AddressOf<float>(lines, f);
                     args.result = AddressOf<float>(y, f);
                     return kernels::SchedulerStep(args, f.stream);
                   });
}

}  // namespace latentd::backends::cuda
