// AUTOMATIC1111's web UI, of its API what clients draw with.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "server/http/calls/dialect.h"
#include "server/http/calls/served_models.h"
#include "server/http/sdapi/sdapi_request.h"

namespace latentd::server::http {

class SdapiDialect final : public Dialect {
 public:
  SdapiDialect(bool image_to_image, Offer offer, std::string version)
      : image_to_image_(image_to_image), offer_(std::move(offer)), version_(std::move(version)) {}

  const char* method() const override {
    return image_to_image_ ? "sdapi.img2img" : "sdapi.txt2img";
  }
  absl::Status Read(const Request& http, latent::v1::GenerateRequest& request) override;
  Answer Show(const Drawn& drawn) const override;
  Answer Refuse(const absl::Status& status) const override;

 private:
  // Text in JSON on what was drawn.
  std::string InfoOf(const Drawn& drawn) const;

  const bool image_to_image_;
  const Offer offer_;
  const std::string version_;
  SdapiForm form_;
};

// The answer to an error where no request has been read. Bad fields are 422 there. Thread-safe.
Answer SdapiRefusal(const absl::Status& status, const FieldNames& names = {});

}  // namespace latentd::server::http
