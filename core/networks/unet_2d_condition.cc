#include "core/networks/unet_2d_condition.h"

#include <algorithm>
#include <utility>

#include "core/networks/unet_2d_blocks.h"
#include "core/networks/unet_2d_conditions.h"

namespace latentd::networks {
namespace {

// The main path down does not read what is added to its outputs.
void AddResiduals(GraphBuilder& b, const std::vector<Value>& residuals, std::vector<Value>& skips) {
  for (size_t i = 0; i < skips.size(); ++i) skips[i] = b.Add(skips[i], residuals[i]);
}

// One for each skip connection, and the middle's.
bool CheckResiduals(GraphBuilder& b, const std::vector<Value>& residuals,
                    const std::vector<Value>& skips, Value middle) {
  if (residuals.empty()) return true;
  bool fits = residuals.size() == skips.size() + 1;
  for (size_t i = 0; fits && i < residuals.size(); ++i) {
    fits = b.shape(residuals[i]) == b.shape(i < skips.size() ? skips[i] : middle);
  }
  if (fits) return true;
  b.Fail(absl::InvalidArgumentError(
      absl::StrCat("the UNet's input residuals must be ", skips.size() + 1,
                   " values, one with the shape of each skip connection and of the middle")));
  return false;
}

// Resolutions whose blocks do not give deep features; there are more where there are any.
constexpr size_t kShallowResolutions = 2;

size_t ShallowOf(const Unet2dConditionConfig& config) {
  return config.blocks.empty() ? 0 : std::min(kShallowResolutions, config.blocks.size() - 1);
}

}  // namespace

std::optional<Shape> DeepShape(const Unet2dConditionConfig& config, int64_t height, int64_t width) {
  const size_t shallow = ShallowOf(config);
  if (shallow == 0) return std::nullopt;
  // As ResidualShapes has it.
  const int64_t more = config.downsample_padding == 1 ? 1 : 0;
  for (size_t i = 1; i < shallow; ++i) {
    height = (height + more) / 2;
    width = (width + more) / 2;
  }
  return Shape{config.blocks[shallow].channels, height, width};
}

Value Unet2dCondition(GraphBuilder& builder, const Unet2dConditionConfig& config,
                      absl::string_view component, const Unet2dConditionInputs& inputs) {
  const Scope unet(builder, component);
  if (absl::Status status = CheckInputs(builder, config, inputs); !status.ok()) {
    builder.Fail(std::move(status));
    return inputs.sample;
  }
  const UnetConditions conditions = EmbedConditions(unet, config, inputs);
  Value x = inputs.sample;
  if (config.center_input_sample) {
    x = builder.Sub(builder.Mul(builder.Scalar(2), x), builder.Scalar(1));
  }
  x = Convolution(
      unet.Child("conv_in"), x,
      {.out_channels = config.blocks.front().channels, .kernel = config.conv_in_kernel});
  std::vector<Value> skips = {x};
  for (size_t i = 0; i < config.blocks.size(); ++i) {
    x = UnetDownBlock(unet, config, i, x, conditions, skips);
  }
  x = UnetMiddleBlock(unet, config, x, conditions);
  if (!CheckResiduals(builder, inputs.residuals, skips, x)) return inputs.sample;
  if (!inputs.residuals.empty()) {
    AddResiduals(builder, inputs.residuals, skips);
    x = builder.Add(x, inputs.residuals.back());
  }
  for (size_t i = 0; i < config.blocks.size(); ++i) {
    x = UnetUpBlock(unet, config, i, x, conditions, skips);
    const bool is_last_deep = i + 1 + ShallowOf(config) == config.blocks.size();
    if (is_last_deep && inputs.pass_deep) x = inputs.pass_deep(x);
  }
  x = GroupNorm(unet.Child("conv_norm_out"), x, config.norm_num_groups, config.norm_eps);
  return Convolution(unet.Child("conv_out"), Activate(builder, x, config.activation),
                     {.out_channels = config.out_channels, .kernel = config.conv_out_kernel});
}

}  // namespace latentd::networks
