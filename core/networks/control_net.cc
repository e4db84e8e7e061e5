#include "core/networks/control_net.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/networks/unet_2d_blocks.h"
#include "core/networks/unet_2d_conditions.h"

namespace latentd::networks {
namespace {

// Red and blue change places.
Value TurnChannels(GraphBuilder& b, Value image) {
  return b.Concat({b.Slice(image, 1, 2, 3), b.Slice(image, 1, 1, 2), b.Slice(image, 1, 0, 1)}, 1);
}

// A convolution of one pixel, which training begins at zero.
Value ZeroConvolution(const Scope& scope, Value x) {
  return Convolution(scope, x, {.out_channels = Dimension(scope.builder(), x, 1), .kernel = 1});
}

bool CheckHint(GraphBuilder& b, const ControlNetConfig& config, Value sample, Value hint) {
  const Shape wanted = {Dimension(b, sample, 0), config.unet.blocks.front().channels,
                        Dimension(b, sample, 2), Dimension(b, sample, 3)};
  if (hint.id >= 0 && b.shape(hint) == wanted) return true;
  b.Fail(absl::InvalidArgumentError(absl::StrCat(
      "the ControlNet's hint has shape ", hint.id < 0 ? "none" : b.shape(hint).ToString(), ", but ",
      wanted.ToString(), " is what its config and the sample ask for")));
  return false;
}

}  // namespace

Value ControlNetHint(GraphBuilder& builder, const ControlNetConfig& config,
                     absl::string_view component, Value image) {
  const Scope scope = Scope(builder, component).Child("controlnet_cond_embedding");
  if (!RequireImage(builder, "image", image, config.hint_channels)) return image;
  Value x = image;
  if (config.channel_order == ControlNetConfig::ChannelOrder::kBgr) x = TurnChannels(builder, x);
  const std::vector<int64_t>& features = config.hint_features;
  x = builder.Silu(Convolution(scope.Child("conv_in"), x, {.out_channels = features.front()}));
  for (size_t i = 0; i + 1 < features.size(); ++i) {
    const auto block = static_cast<int64_t>(2 * i);
    x = builder.Silu(Convolution(scope.Child("blocks", block), x, {.out_channels = features[i]}));
    x = builder.Silu(Convolution(scope.Child("blocks", block + 1), x,
                                 {.out_channels = features[i + 1], .stride = 2}));
  }
  return Convolution(scope.Child("conv_out"), x,
                     {.out_channels = config.unet.blocks.front().channels});
}

std::vector<Value> ControlNet(GraphBuilder& builder, const ControlNetConfig& config,
                              absl::string_view component, const Unet2dConditionInputs& inputs,
                              Value hint) {
  const Scope net(builder, component);
  if (absl::Status status = CheckInputs(builder, config.unet, inputs); !status.ok()) {
    builder.Fail(std::move(status));
    return {};
  }
  if (!CheckHint(builder, config, inputs.sample, hint)) return {};
  const UnetConditions conditions = EmbedConditions(net, config.unet, inputs);
  Value x = Convolution(net.Child("conv_in"), inputs.sample,
                        {.out_channels = config.unet.blocks.front().channels});
  x = builder.Add(x, hint);
  std::vector<Value> residuals = {x};
  for (size_t i = 0; i < config.unet.blocks.size(); ++i) {
    x = UnetDownBlock(net, config.unet, i, x, conditions, residuals);
  }
  for (size_t i = 0; i < residuals.size(); ++i) {
    residuals[i] =
        ZeroConvolution(net.Child("controlnet_down_blocks", static_cast<int64_t>(i)), residuals[i]);
  }
  x = UnetMiddleBlock(net, config.unet, x, conditions);
  residuals.push_back(ZeroConvolution(net.Child("controlnet_mid_block"), x));
  return residuals;
}

std::vector<Shape> ResidualShapes(const Unet2dConditionConfig& unet, int64_t height,
                                  int64_t width) {
  std::vector<Shape> shapes = {{unet.blocks.front().channels, height, width}};
  // Padded on all sides, or on two: an odd side is rounded up, or down.
  const int64_t more = unet.downsample_padding == 1 ? 1 : 0;
  for (size_t i = 0; i < unet.blocks.size(); ++i) {
    const int64_t channels = unet.blocks[i].channels;
    shapes.insert(shapes.end(), static_cast<size_t>(unet.blocks[i].layers),
                  {channels, height, width});
    if (i + 1 == unet.blocks.size()) break;
    height = (height + more) / 2;
    width = (width + more) / 2;
    shapes.push_back({channels, height, width});
  }
  shapes.push_back({unet.blocks.back().channels, height, width});
  return shapes;
}

}  // namespace latentd::networks
