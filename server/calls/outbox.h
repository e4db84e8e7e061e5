// What one request still has to tell its client: turns the engine's events into messages, in order,
// as the client takes them. A client that reads slowly gets fewer events of its place in the queue
// and of progress; pictures wait, in chunks, and are never dropped.
//
// Holds at most one such event between two others, so its size is that of the pictures.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/engine/engine.h"
#include "core/image/format.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server::calls {

// The API allows 1 MiB; smaller ones make "reads slowly" and "reads nothing" easier to tell apart.
inline constexpr size_t kChunkBytes = 256 << 10;

// Not thread-safe: whoever owns it has a lock.
class Outbox {
 public:
  Outbox(std::string request_id, image::EncodeOptions output);

  // Completed and Failed end it; what is added after that is ignored. `now` is monotonic.
  void Add(engine::Event event, absl::Time now);

  // The next message, or nothing until more is added.
  std::optional<latent::v1::GenerateEvent> Next();

  // Drops what waits and all that comes, except how it ended: nobody reads it any more.
  void Close();

  // Close, and it ends with `status`, unless it has failed already: there is no memory for what
  // waits or comes. Asks for none.
  void Fail(const absl::Status& status);

  // How the request ended, once everything before that has been taken with Next.
  std::optional<absl::Status> end() const;

  // Of pictures that wait.
  int64_t held_bytes() const;

  // When the picture was added that has waited longest for its last part to be taken;
  // InfiniteFuture: none waits.
  absl::Time oldest_picture() const;

 private:
  struct Waiting {
    engine::Event event;
    absl::Time since;
  };

  // Moves the front of the queue into the message; an image only chunk by chunk.
  void Take(engine::Event& event, latent::v1::GenerateEvent& message);
  bool TakeChunk(const engine::Image& image, latent::v1::GenerateEvent& message);

  const std::string request_id_;
  const image::EncodeOptions output_;
  std::deque<Waiting> waiting_;
  size_t image_offset_ = 0;  // of the image in front
  bool closed_ = false;
  std::optional<absl::Status> end_;
};

}  // namespace latentd::server::calls
