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

// The mean over height and width of one image [1, c, h, w]: [1, c]. By height first, so that no sum
// is of more than a side.
Value MeanOfImage(GraphBuilder& b, Value image) {
  const int64_t channels = Dimension(b, image, 1), height = Dimension(b, image, 2);
  const auto mean = [&](Value x, int64_t count, int64_t each) {
    const Value ones =
        b.Constant(std::vector<float>(static_cast<size_t>(count), 1), Shape{1, count});
    const Value sum = b.Matmul(ones, b.Reshape(x, {count, each}));
    return b.Div(sum, b.Scalar(static_cast<float>(count)));
  };
  const int64_t width = Dimension(b, image, 3);
  const Value of_columns = mean(ImageToTokens(b, image), height, width * channels);
  return mean(of_columns, width, channels);
}

// [n, c] of images [n, c, h, w].
Value MeansOfImages(GraphBuilder& b, Value images) {
  std::vector<Value> means;
  for (int64_t i = 0; i < Dimension(b, images, 0); ++i) {
    means.push_back(MeanOfImage(b, b.Slice(images, 0, i, i + 1)));
  }
  return means.size() == 1 ? means.front() : b.Concat(means, 0);
}

// A layer of a union's transformer for tokens that attend to themselves alone, [n, c].
Value ImageLayer(const Scope& layer, Value x) {
  constexpr double kEpsilon = 1e-5;
  GraphBuilder& b = layer.builder();
  const int64_t features = Dimension(b, x, 1);
  const Scope attention = layer.Child("attn");
  // Queries, keys and values are one matrix on disk.
  const Value weight = b.Slice(attention.Weight("in_proj_weight", {3 * features, features}), 0,
                               2 * features, 3 * features);
  const Value bias =
      b.Slice(attention.Weight("in_proj_bias", {3 * features}), 0, 2 * features, 3 * features);
  const Value value = b.Linear(LayerNorm(layer.Child("ln_1"), x, kEpsilon), weight, bias);
  x = b.Add(x, Linear(attention.Child("out_proj"), value, features));
  const Value hidden =
      Linear(layer.Child("mlp.c_fc"), LayerNorm(layer.Child("ln_2"), x, kEpsilon), 4 * features);
  return b.Add(x, Linear(layer.Child("mlp.c_proj"), b.QuickGelu(hidden), features));
}

// The hint of a union, with what it makes of the image's mean and type added to each pixel.
Value AddType(const Scope& net, const ControlNetConfig& config, Value hint, Value types) {
  GraphBuilder& b = net.builder();
  const int64_t rows = Dimension(b, hint, 0), features = Dimension(b, hint, 1);
  const Value embeddings = net.Weight("task_embedding", {config.image_types, features});
  Value x = b.Add(MeansOfImages(b, hint), b.Matmul(types, embeddings));
  for (int64_t i = 0; i < config.image_layers; ++i) {
    x = ImageLayer(net.Child("transformer_layes", i), x);  // spelled so on disk
  }
  const Value added = Linear(net.Child("spatial_ch_projs"), x, features);
  return b.Add(hint, b.Reshape(added, {rows, features, 1, 1}));
}

bool CheckTypes(GraphBuilder& b, const ControlNetConfig& config, int64_t rows, Value types) {
  const Shape wanted = {rows, config.image_types};
  if (types.id >= 0 && b.shape(types) == wanted) return true;
  b.Fail(absl::InvalidArgumentError(absl::StrCat(
      "the ControlNet's types have shape ", types.id < 0 ? "none" : b.shape(types).ToString(),
      ", but ", wanted.ToString(), " is what its config asks for")));
  return false;
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
                     absl::string_view component, Value image, Value types) {
  const Scope net(builder, component);
  const Scope scope = net.Child("controlnet_cond_embedding");
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
  x = Convolution(scope.Child("conv_out"), x,
                  {.out_channels = config.unet.blocks.front().channels});
  if (!config.is_union()) return x;
  if (!CheckTypes(builder, config, Dimension(builder, x, 0), types)) return x;
  return AddType(net, config, x, types);
}

Value ImageTypeEmbedding(GraphBuilder& builder, const ControlNetConfig& config,
                         absl::string_view component, Value types) {
  const int64_t rows = Dimension(builder, types, 0);
  if (!CheckTypes(builder, config, rows, types)) return types;
  std::vector<Value> sinusoids;
  for (int64_t i = 0; i < config.image_types; ++i) {
    const Value column = builder.Reshape(builder.Slice(types, 1, i, i + 1), {rows});
    sinusoids.push_back(
        Sinusoids(builder, config.unet, column, config.unet.addition_time_embed_dim));
  }
  // This embedding has silu whatever the config's act_fn is.
  return TimestepMlp(Scope(builder, component).Child("control_add_embedding"),
                     builder.Concat(sinusoids, 1), config.unet.time_embedding_dim,
                     Activation::kSilu);
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
  if (config.is_union() != (inputs.added_time.id >= 0)) {
    builder.Fail(absl::InvalidArgumentError(
        "added_time is what a ControlNet-Union reads, and no other ControlNet"));
    return {};
  }
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
