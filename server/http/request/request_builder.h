// A GenerateRequest that is put together of what a client of HTTP sent, and of the server's
// defaults.
#pragma once

#include "latent/v1/image_generation.pb.h"
#include "server/http/request/field_builder.h"

namespace latentd::server::http {

// Not thread-safe.
class RequestBuilder : public FieldBuilder {
 public:
  // Both outlive the builder.
  RequestBuilder(const latent::v1::GenerateRequest& defaults, latent::v1::GenerateRequest& request)
      : FieldBuilder(request), defaults_(defaults), request_(request) {}

  // Sets the fields of `defaults` that the request has not, where they go with those that it has:
  // strength with an image alone, refine without one, steps with no schedule of its own, what an
  // effort sets without one. To be called once the client's are set.
  void SetDefaults();

  latent::v1::GenerateRequest& request() { return request_; }

 private:
  const latent::v1::GenerateRequest& defaults_;
  latent::v1::GenerateRequest& request_;
};

}  // namespace latentd::server::http
