// An event for a client. A picture's bytes are most of what a call sends: they are sent from where
// the engine's event has them, without a copy.
#pragma once

#include <memory>

#include "absl/strings/string_view.h"
#include "core/engine/api/events.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server::generation {

struct OutgoingEvent {
  latent::v1::GenerateEvent message;                  // a picture's chunk is without its `data`
  absl::string_view data;                             // bytes of that chunk, part of `of`
  std::shared_ptr<const engine::Event> of = nullptr;  // the engine's; null in tests alone
};

}  // namespace latentd::server::generation
