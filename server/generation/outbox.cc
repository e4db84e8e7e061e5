#include "server/generation/outbox.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "server/generation/conversion/response_conversion.h"

namespace latentd::server::generation {
namespace {

// True if the event is outdated as soon as another of its kind has come.
bool IsReplaced(const engine::Event& event, const engine::Event& by) {
  return event.index() == by.index() && (std::holds_alternative<engine::Progress>(event) ||
                                         std::holds_alternative<engine::Queued>(event));
}

// The picture that a preview is of.
std::optional<int> PreviewedBy(const engine::Event& event) {
  const auto* preview = std::get_if<engine::Preview>(&event);
  return preview == nullptr ? std::nullopt : std::optional(preview->image_index);
}

// The picture of which it leaves older previews without use.
std::optional<int> ShownBy(const engine::Event& event) {
  const auto* image = std::get_if<engine::Image>(&event);
  return image == nullptr ? PreviewedBy(event) : std::optional(image->index);
}

template <typename... Callables>
struct Overloaded : Callables... {
  using Callables::operator()...;
};
template <typename... Callables>
Overloaded(Callables...) -> Overloaded<Callables...>;

}  // namespace

Outbox::Outbox(std::string request_id, image::EncodeOptions output, Position position)
    : request_id_(std::move(request_id)),
      output_(output),
      sent_pictures_(position.pictures),
      images_to_skip_(position.pictures),
      image_offset_(position.bytes) {}

void Outbox::Add(engine::Event event, absl::Time came) {
  Add(std::make_shared<const engine::Event>(std::move(event)), came);
}

void Outbox::Add(std::shared_ptr<const engine::Event> event, absl::Time came) {
  if (end_) return;
  if (const auto* failed = std::get_if<engine::Failed>(event.get())) {
    end_ = failed->status;
    return;
  }
  if (std::holds_alternative<engine::Completed>(*event)) end_ = absl::OkStatus();
  if (closed_) return;
  if (images_to_skip_ > 0 && std::holds_alternative<engine::Image>(*event)) {
    --images_to_skip_;
    return;
  }
  DropReplaced(*event);
  waiting_.push_back({std::move(event), came});
}

void Outbox::DropReplaced(const engine::Event& event) {
  if (const std::optional<int> shown = ShownBy(event)) {
    std::erase_if(waiting_, [&](const Waiting& old) { return PreviewedBy(*old.event) == shown; });
  }
  // Finds the last event that is no preview: previews come between steps as it happens.
  const auto last = std::find_if(waiting_.rbegin(), waiting_.rend(), [](const Waiting& waiting) {
    return !PreviewedBy(*waiting.event).has_value();
  });
  if (last == waiting_.rend() || !IsReplaced(*last->event, event)) return;
  waiting_.erase(std::next(last).base());
}

std::optional<OutgoingEvent> Outbox::Next() {
  if (waiting_.empty()) return std::nullopt;
  OutgoingEvent next;
  next.message.set_request_id(request_id_);
  const std::shared_ptr<const engine::Event>& front = waiting_.front().event;
  next.of = front;
  if (const auto* image = std::get_if<engine::Image>(front.get())) {
    if (!TakeChunk(*image, next)) return next;
  } else {
    Take(*front, next.message);
  }
  waiting_.pop_front();
  return next;
}

void Outbox::Take(const engine::Event& event, latent::v1::GenerateEvent& message) {
  std::visit(
      Overloaded{
          [&](const engine::Queued& queued) { *message.mutable_queued() = ToProto(queued); },
          [&](const engine::Started& started) { *message.mutable_started() = ToProto(started); },
          [&](const engine::Progress& progress) {
            *message.mutable_progress() = ToProto(progress);
          },
          [&](const engine::Completed& completed) {
            *message.mutable_completed() = ToProto(completed, output_);
          },
          [&](const engine::Preview& preview) { *message.mutable_preview() = ToProto(preview); },
          [](const auto&) {},  // images go by chunks, a failure is no message
      },
      event);
}

// True if it was the last one.
bool Outbox::TakeChunk(const engine::Image& image, OutgoingEvent& chunk) {
  image_offset_ = std::min(image_offset_, image.bytes.size());  // any number may come with a resume
  *chunk.message.mutable_image_chunk() = ToChunk(image, image_offset_);
  chunk.data = absl::string_view(image.bytes).substr(image_offset_, kChunkBytes);
  image_offset_ += chunk.data.size();
  if (image_offset_ < image.bytes.size()) return false;
  image_offset_ = 0;
  ++sent_pictures_;
  return true;
}

void Outbox::Close() {
  closed_ = true;
  waiting_.clear();
  image_offset_ = 0;
}

void Outbox::Fail(const absl::Status& status) {
  Close();
  if (!end_ || end_->ok()) end_ = status;
}

std::optional<absl::Status> Outbox::end() const { return waiting_.empty() ? end_ : std::nullopt; }

int64_t Outbox::held_bytes() const {
  int64_t bytes = 0;
  for (const Waiting& waiting : waiting_) {
    if (const auto* image = std::get_if<engine::Image>(waiting.event.get())) {
      bytes += static_cast<int64_t>(image->bytes.size());
    } else if (const auto* preview = std::get_if<engine::Preview>(waiting.event.get())) {
      bytes += static_cast<int64_t>(preview->bytes.size());
    }
  }
  return bytes;
}

absl::Time Outbox::oldest_picture() const {
  for (const Waiting& waiting : waiting_) {
    if (std::holds_alternative<engine::Image>(*waiting.event)) return waiting.since;
  }
  return absl::InfiniteFuture();
}

}  // namespace latentd::server::generation
