// OpenAI's Images API.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/http/calls/dialect.h"
#include "server/http/calls/served_models.h"
#include "server/http/openai/openai_events.h"
#include "server/http/openai/openai_request.h"

namespace latentd::server::http {

class OpenAiDialect final : public Dialect {
 public:
  OpenAiDialect(ImagesRoute route, Offer offer) : route_(route), offer_(std::move(offer)) {}

  const char* method() const override;
  absl::Status Read(const Request& http, latent::v1::GenerateRequest& request) override;
  Answer Show(const Drawn& drawn) const override;
  Answer Refuse(const absl::Status& status) const override;
  bool streams() const override { return form_.stream; }
  AnswerBody Tell(const generation::OutgoingEvent& event, absl::Time now) override;
  AnswerBody TellEnd(const absl::Status& status) override;

 private:
  const ImagesRoute route_;
  const Offer offer_;
  ImagesForm form_;
  std::unique_ptr<OpenAiEvents> events_;  // once it has been read
};

// The answer to an error where no request has been read. Thread-safe.
Answer OpenAiRefusal(const absl::Status& status, const FieldNames& names = {});

}  // namespace latentd::server::http
