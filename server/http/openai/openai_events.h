// The stream of events that OpenAI's Images API answers with where a request has `stream`.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "latent/v1/image_generation.pb.h"
#include "server/generation/conversion/outgoing_event.h"
#include "server/http/exchange/answer_body.h"
#include "server/http/openai/openai_request.h"

namespace latentd::server::http {

// Not thread-safe.
class OpenAiEvents {
 public:
  // `pictures` is how many there will be.
  OpenAiEvents(bool edits, ImagesForm form, int pictures)
      : prefix_(edits ? "image_edit" : "image_generation"),
        form_(std::move(form)),
        pictures_(pictures) {}

  // The event's text, if it has one: a preview is a partial image, a picture its `completed`, of
  // which the last waits for how it went. With own_events all that is no picture is latentd.NAME
  // with the message of the proto as JSON.
  AnswerBody Tell(const generation::OutgoingEvent& event, absl::Time now);

  // An `error`, unless it ended well: then nothing is left to say.
  AnswerBody TellEnd(const absl::Status& status) const;

 private:
  using Picture = std::shared_ptr<const engine::Event>;

  AnswerBody TellPartial(const latent::v1::Preview& preview, absl::Time now);
  AnswerBody TellPicture(const Picture& picture, const nlohmann::ordered_json& details,
                         absl::Time now) const;

  const std::string prefix_;
  const ImagesForm form_;
  const int pictures_;
  Picture last_;                 // until it is told
  std::map<int, int> partials_;  // told of each picture
  int partial_index_ = 0;
};

}  // namespace latentd::server::http
