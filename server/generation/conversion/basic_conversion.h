// Times and sizes, between what the engine says and the protos.
//
// Thread-safe: free functions without state.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/engine/api/generate_spec.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::server::generation {

// REQUIRES: `duration` is finite.
google::protobuf::Duration ToProto(absl::Duration duration);
// INVALID_ARGUMENT: seconds and nanoseconds are no duration.
absl::StatusOr<absl::Duration> FromProto(const google::protobuf::Duration& duration);

// REQUIRES: `time` is finite.
google::protobuf::Timestamp ToProto(absl::Time time);

latent::v1::Size ToProto(pipeline::Size size);
pipeline::Size FromProto(const latent::v1::Size& size);
latent::v1::BucketSize ToBucketSize(const pipeline::Size& size);
pipeline::Size FromProto(const latent::v1::BucketSize& size);

}  // namespace latentd::server::generation
