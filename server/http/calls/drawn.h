// The result of a request that went well, for answers that come in one piece.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "core/engine/api/events.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server::http {

struct Drawn {
  const engine::Image& image(size_t i) const { return std::get<engine::Image>(*images[i]); }

  std::string request_id;
  std::vector<std::shared_ptr<const engine::Event>> images;  // engine::Image, in their order
  latent::v1::Completed completed;
  absl::Time created;  // by the clock on the wall
};

}  // namespace latentd::server::http
