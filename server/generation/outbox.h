// The events that a request still has to send: turns the engine's events into messages, in order,
// as the client takes them. A client that reads slowly gets fewer events of its place in the queue
// and of progress, and fewer previews; pictures wait, in chunks, and are never dropped.
//
// Holds at most one such event between two others, and at most one preview of each picture that has
// not come itself, so its size is that of the pictures.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/engine/api/events.h"
#include "core/image/format.h"
#include "latent/v1/image_generation.pb.h"
#include "server/generation/conversion/outgoing_event.h"

namespace latentd::server::generation {

// The API allows 1 MiB; smaller ones make "reads slowly" and "reads nothing" easier to tell apart.
inline constexpr size_t kChunkBytes = 256 << 10;

// Not thread-safe: its owner has a lock.
class Outbox {
 public:
  // The client's part of a request's pictures so far, in the order in which they come: whole ones,
  // and the first bytes of the next.
  struct Position {
    int64_t pictures = 0;
    size_t bytes = 0;
  };

  // Pictures are told from `position` on.
  Outbox(std::string request_id, image::EncodeOptions output)
      : Outbox(std::move(request_id), output, Position()) {}
  Outbox(std::string request_id, image::EncodeOptions output, Position position);

  // Completed and Failed end it; what is added after that is ignored. `came` is monotonic, when the
  // engine said it. `event` may have other readers.
  void Add(std::shared_ptr<const engine::Event> event, absl::Time came);
  void Add(engine::Event event, absl::Time came);

  // The next message, or nothing until more is added.
  std::optional<OutgoingEvent> Next();

  // Drops what waits and all that comes, except how it ended: it has no reader any more.
  void Close();

  // Close, and it ends with `status`, unless it has failed already: there is no memory for what
  // waits or comes. Asks for none.
  void Fail(const absl::Status& status);

  // How the request ended, once everything before that has been taken with Next.
  std::optional<absl::Status> end() const;

  // Pictures of which the last part has been taken, with those that the client had.
  int64_t sent_pictures() const { return sent_pictures_; }

  // Bytes of pictures that wait, and previews.
  int64_t held_bytes() const;

  // When the picture came that has waited longest for its last part to be taken; InfiniteFuture:
  // none waits.
  absl::Time oldest_picture() const;

 private:
  struct Waiting {
    std::shared_ptr<const engine::Event> event;
    absl::Time since;
  };

  // Drops events that have become outdated with `event`.
  void DropReplaced(const engine::Event& event);

  // The message of the front of the queue; an image goes chunk by chunk.
  void Take(const engine::Event& event, latent::v1::GenerateEvent& message);
  bool TakeChunk(const engine::Image& image, OutgoingEvent& chunk);

  const std::string request_id_;
  const image::EncodeOptions output_;
  std::deque<Waiting> waiting_;
  int64_t sent_pictures_;
  int64_t images_to_skip_;
  size_t image_offset_;  // bytes sent of the image in front
  bool closed_ = false;
  std::optional<absl::Status> end_;
};

}  // namespace latentd::server::generation
