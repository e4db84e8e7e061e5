// LoRAs merged into a model's weights: a weight set over the model's, in which each weight that
// some LoRA changes is made of the model's own and of the LoRAs' tensors when it is first read, on
// the device (core/weights/source.h).
//
// Everything is computed in float32 from the checkpoint's own weight, whatever that is stored in,
// and rounded once, to what the network computes in. Thread-safe: a free function without state.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/adapters/lora/lora.h"
#include "core/weights/weight_set.h"

namespace latentd::adapters {

// A LoRA with the user's weights: factors of all that it changes in a component. Any number that
// float32 holds, with the LoRA's own scale too; a component of weight 0 is not changed, but that a
// lora_magnitude_vector applies all the same, as it does in PEFT.
struct WeightedLora {
  std::shared_ptr<const Lora> lora;
  double unet = 1;
  double text_encoder = 1, text_encoder_2 = 1;
};

// Everything that `base` has, under its name, with the changes of the LoRAs. Those that add to a
// weight are added up in an order that their contents give, so that the order of the LoRAs is of no
// account to the bytes; then those that have a magnitude (DoRA) are applied in the order given,
// each to what the one before made. A weight that none changes is the base's own source.
//
// NOT_FOUND or INVALID_ARGUMENT name the LoRA and a weight that the base lacks, or has in another
// shape, or whose factor float32 does not hold.
absl::StatusOr<std::shared_ptr<const weights::WeightSet>> MergeLoras(
    std::shared_ptr<const weights::WeightSet> base, absl::Span<const WeightedLora> loras);

}  // namespace latentd::adapters
