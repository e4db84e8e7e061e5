// Modules that the UNets of pictures and of videos have alike, by the names that a file has for
// them: what reads one or the other is derived from it. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "core/device/shape.h"
#include "core/weights/containers/recognize/part_reader.h"
#include "core/weights/containers/recognize/unet_paths.h"

namespace latentd::weights {

class UnetModules {
 protected:
  // Fields of config.json that are lists have one element a block.
  static constexpr size_t kMostBlocks = 16;

  // `title` is for messages.
  UnetModules(std::string title, PartTensors tensors, UnetPaths paths)
      : reader_(std::move(title), std::move(tensors)), paths_(std::move(paths)) {}
  ~UnetModules() = default;

  // The module or tensor of that name in another.
  static std::string In(absl::string_view path, absl::string_view name);

  // False, and a mistake, where the file has no number of blocks that a UNet has.
  bool CheckBlockCounts();

  void TakeNorm(absl::string_view from, absl::string_view to, int64_t features);
  // A convolution or a linear layer.
  void TakeWithBias(absl::string_view from, absl::string_view to, const device::Shape& weight);
  void TakeLinear(absl::string_view from, absl::string_view to, int64_t out, int64_t in) {
    TakeWithBias(from, to, {out, in});
  }
  void TakeConvolutionIn(int64_t channels, int64_t first);
  void TakeTimeEmbedding(int64_t first);
  void TakeAddedEmbedding(int64_t features, int64_t first);
  void TakeConvolutionOut(int64_t channels, int64_t first);

  // Convolutions of `kernel`; `time_features` are those of the embedding of time.
  void TakeResidual(const std::string& from, const std::string& to, int64_t in, int64_t out,
                    int64_t time_features, const std::vector<int64_t>& kernel = {3, 3});
  // Attention to themselves and to `states` features, without a bias but for the last of each.
  void TakeTransformerBlock(const std::string& from, const std::string& to, int64_t channels,
                            int64_t states);
  void TakeFeedForward(const std::string& from, const std::string& to, int64_t channels);
  // Number of a transformer's layers.
  int64_t DepthOf(absl::string_view attention) const;

  // A layer of a block: the block's number and name as the network has it, the layer's number in
  // it, and channels that it reads and makes.
  struct Place {
    size_t number = 0;
    std::string block;
    size_t layer = 0;
    int64_t in = 0, out = 0;
  };
  using TakeLayer = absl::FunctionRef<void(const UnetPaths::Layer&, const Place&)>;
  // Blocks with so many channels, from the largest image to the smallest, and their samplers.
  void TakeDown(const std::vector<int64_t>& channels, TakeLayer take);
  // Likewise, the other way. REQUIRES: TakeDown was called.
  void TakeUp(const std::vector<int64_t>& channels, TakeLayer take);

  PartReader reader_;
  const UnetPaths paths_;

 private:
  void TakeAttention(const std::string& from, const std::string& to, int64_t channels,
                     int64_t states);

  std::vector<int64_t> skips_;  // channels of what the way up takes from the way down
};

}  // namespace latentd::weights
