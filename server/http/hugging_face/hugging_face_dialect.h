// The route that Hugging Face's InferenceClient draws by: text-to-image and image-to-image,
// answered with the picture's own bytes.
#pragma once

#include <utility>
#include <vector>

#include "server/http/calls/dialect.h"
#include "server/http/calls/served_models.h"
#include "server/http/exchange/error_body.h"

namespace latentd::server::http {

class HuggingFaceDialect final : public Dialect {
 public:
  explicit HuggingFaceDialect(Offer offer) : offer_(std::move(offer)) {}

  const char* method() const override { return "hf"; }
  // {"inputs": prompt, "parameters": {...}}, or, where the parameters have a prompt, "inputs" is
  // the picture to start from, in base64. Parameters are the fields of GenerateRequest.
  absl::Status Read(const Request& http, latent::v1::GenerateRequest& request) override;
  Answer Show(const Drawn& drawn) const override;
  Answer Refuse(const absl::Status& status) const override;

 private:
  const Offer offer_;
  FieldNames names_;
};

// The answer to an error where no request has been read. Thread-safe.
Answer HuggingFaceRefusal(const absl::Status& status, const FieldNames& names = {});

}  // namespace latentd::server::http
