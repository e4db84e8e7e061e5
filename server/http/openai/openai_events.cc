#include "server/http/openai/openai_events.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/text/text.h"
#include "server/http/exchange/error_body.h"
#include "server/http/exchange/proto_json.h"
#include "server/http/openai/openai_answer.h"

namespace latentd::server::http {
namespace {

using Json = nlohmann::ordered_json;

// An event of the stream up to its picture, which is the last member of its data.
AnswerBody OpenEvent(const std::string& type, Json data) {
  AnswerBody body;
  body.Add(absl::StrCat("event: ", type, "\ndata: "));
  Json typed = {{"type", type}};
  typed.update(data);
  AddOpen(typed, body);
  body.Add(",\"b64_json\":\"");
  return body;
}

constexpr char kEventEnd[] = "\"}\n\n";

AnswerBody OwnEvent(absl::string_view name, const google::protobuf::Message& message) {
  return AnswerBody(
      absl::StrCat("event: latentd.", name, "\ndata: ", ToText(ToJson(message)), "\n\n"));
}

// Empty: it is of a picture.
AnswerBody TellOwn(const latent::v1::GenerateEvent& message) {
  if (message.has_queued()) return OwnEvent("queued", message.queued());
  if (message.has_started()) return OwnEvent("started", message.started());
  if (message.has_progress()) return OwnEvent("progress", message.progress());
  return message.has_preview() ? OwnEvent("preview", message.preview()) : AnswerBody();
}

}  // namespace

AnswerBody OpenAiEvents::Tell(const generation::OutgoingEvent& event, absl::Time now) {
  const latent::v1::GenerateEvent& message = event.message;
  if (form_.own_events) {
    AnswerBody own = TellOwn(message);
    if (!own.empty()) return own;
  }
  if (message.has_preview()) return TellPartial(message.preview(), now);
  if (message.has_completed() && last_ != nullptr) {
    const Picture last = std::exchange(last_, nullptr);
    return TellPicture(last, Details(message.request_id(), message.completed()), now);
  }
  const latent::v1::ImageChunk& chunk = message.image_chunk();
  const bool ends = message.has_image_chunk() &&
                    chunk.offset() + static_cast<int64_t>(event.data.size()) == chunk.total_bytes();
  if (!ends) return {};
  if (chunk.index() + 1 < pictures_) return TellPicture(event.of, Json(), now);
  last_ = event.of;
  return {};
}

AnswerBody OpenAiEvents::TellPartial(const latent::v1::Preview& preview, absl::Time now) {
  const bool of_last_step = preview.step() == preview.total_steps();
  int& told = partials_[preview.image_index()];
  if (of_last_step || told == form_.partial_images) return {};
  ++told;
  AnswerBody body = OpenEvent(absl::StrCat(prefix_, ".partial_image"),
                              {{"partial_image_index", partial_index_++},
                               {"created_at", absl::ToUnixSeconds(now)},
                               {"size", SizeText(preview.size().width(), preview.size().height())},
                               {"quality", form_.quality},
                               {"background", "opaque"},
                               {"output_format", "jpeg"}});
  const auto bytes = std::make_shared<const std::string>(preview.data());
  body.AddBase64(*bytes, bytes);
  body.Add(kEventEnd);
  return body;
}

AnswerBody OpenAiEvents::TellPicture(const Picture& picture, const Json& details,
                                     absl::Time now) const {
  const auto& image = std::get<engine::Image>(*picture);
  Json data = {{"created_at", absl::ToUnixSeconds(now)},
               {"size", SizeText(image.size.width, image.size.height)},
               {"quality", form_.quality},
               {"background", "opaque"},
               {"output_format", form_.format},
               {"usage", Usage()},
               {"image_index", image.index},
               {"seed", image.seed}};
  if (!details.is_null()) data["latentd"] = details;
  AnswerBody body = OpenEvent(absl::StrCat(prefix_, ".completed"), std::move(data));
  body.AddBase64(image.bytes, picture);
  body.Add(kEventEnd);
  return body;
}

AnswerBody OpenAiEvents::TellEnd(const absl::Status& status) const {
  if (status.ok()) return {};
  Json data = {{"type", "error"}};
  data.update(OpenAiError(status, form_.names));
  return AnswerBody(absl::StrCat("event: error\ndata: ", ToText(data), "\n\n"));
}

}  // namespace latentd::server::http
