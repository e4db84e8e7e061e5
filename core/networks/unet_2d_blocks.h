// The blocks of UNet2DConditionModel: one resolution on the way down, the middle, and one
// resolution on the way up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "core/networks/config/unet_2d_condition_config.h"

namespace latentd::networks {

// Hands out what attentions to the text read beside it, in the order in which they are built.
class ImagesInOrder {
 public:
  // None; or one for each attention of the network (cross_attentions.h).
  explicit ImagesInOrder(std::vector<std::vector<KeysAndValues>> images)
      : images_(std::move(images)) {}

  // Keys and values of the next so many attentions; empty: there are none at all. REQUIRES: there
  // are so many.
  absl::Span<const std::vector<KeysAndValues>> Take(int64_t count) {
    if (images_.empty()) return {};
    const auto first = std::exchange(next_, next_ + static_cast<size_t>(count));
    return absl::MakeConstSpan(images_).subspan(first, static_cast<size_t>(count));
  }

 private:
  const std::vector<std::vector<KeysAndValues>> images_;
  size_t next_ = 0;
};

// Conditions that all blocks of one evaluation read.
struct UnetConditions {
  Value time;                             // [n, time_embedding_dim], activated
  Value text;                             // [n, tokens, cross_attention_dim]
  std::shared_ptr<ImagesInOrder> images;  // never null
};

// Appends the output of every layer, and of the downsampling, to `skips`. The last block does not
// downsample.
Value UnetDownBlock(const Scope& unet, const Unet2dConditionConfig& config, size_t index, Value x,
                    const UnetConditions& conditions, std::vector<Value>& skips);

Value UnetMiddleBlock(const Scope& unet, const Unet2dConditionConfig& config, Value x,
                      const UnetConditions& conditions);

// Takes as many from the end of `skips` as it has layers; upsampling goes to the size of the next
// one, which is twice the size unless an odd size was halved on the way down. `index` counts up
// blocks, from the smallest image.
Value UnetUpBlock(const Scope& unet, const Unet2dConditionConfig& config, size_t index, Value x,
                  const UnetConditions& conditions, std::vector<Value>& skips);

}  // namespace latentd::networks
