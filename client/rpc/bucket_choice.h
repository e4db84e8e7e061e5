// The bucket that a request will run in, as the server will choose it: core/batching/buckets.h has
// the rule for sizes, image_generation.proto the defaults. A balancer that hashes on it lets each
// replica keep few buckets loaded; a wrong guess costs a load and nothing else.
#pragma once

#include <optional>
#include <string>

#include "latent/v1/image_generation.pb.h"

namespace latentd::client {

namespace v1 = ::latent::v1;

// True if the request alone does not decide its bucket.
bool NeedsCapabilities(const v1::GenerateRequest& request);

// "256x192"; nothing where no bucket covers a size that is to be snapped, where the capabilities
// are empty and needed, or where the size is that of the request's picture, which is not decoded
// here.
std::optional<std::string> BucketOf(const v1::GenerateRequest& request,
                                    const v1::GetCapabilitiesResponse& capabilities);

}  // namespace latentd::client
