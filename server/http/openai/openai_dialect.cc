#include "server/http/openai/openai_dialect.h"

#include <algorithm>
#include <utility>

#include "server/http/exchange/error_body.h"
#include "server/http/exchange/http_status.h"
#include "server/http/openai/openai_answer.h"

namespace latentd::server::http {

const char* OpenAiDialect::method() const {
  switch (route_) {
    case ImagesRoute::kEdits:
      return "openai.edits";
    case ImagesRoute::kVariations:
      return "openai.variations";
    case ImagesRoute::kGenerations:
      break;
  }
  return "openai.generations";
}

absl::Status OpenAiDialect::Read(const Request& http, latent::v1::GenerateRequest& request) {
  absl::Status read = ReadImagesRequest(http, route_, offer_, request, form_);
  const int pictures = std::max({request.seeds_size(), request.num_images_per_prompt(), 1});
  events_ = std::make_unique<OpenAiEvents>(route_ != ImagesRoute::kGenerations, form_, pictures);
  return read;
}

Answer OpenAiDialect::Show(const Drawn& drawn) const {
  return {.body = ImagesAnswer(drawn, form_)};
}

Answer OpenAiDialect::Refuse(const absl::Status& status) const {
  return OpenAiRefusal(status, form_.names);
}

AnswerBody OpenAiDialect::Tell(const generation::OutgoingEvent& event, absl::Time now) {
  return events_->Tell(event, now);
}

AnswerBody OpenAiDialect::TellEnd(const absl::Status& status) { return events_->TellEnd(status); }

Answer OpenAiRefusal(const absl::Status& status, const FieldNames& names) {
  return {.code = StatusOf(status).code,
          .headers = ErrorHeaders(status),
          .body = AnswerBody(ToText(OpenAiError(status, names))),
          .close = ClosesConnection(status)};
}

}  // namespace latentd::server::http
