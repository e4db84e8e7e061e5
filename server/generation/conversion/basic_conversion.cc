#include "server/generation/conversion/basic_conversion.h"

#include <algorithm>
#include <cstdlib>

namespace latentd::server::generation {

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  absl::Duration rest;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return proto;
}

absl::StatusOr<absl::Duration> FromProto(const google::protobuf::Duration& duration) {
  constexpr int64_t kMaxSeconds = 315'576'000'000;  // as duration.proto says
  const bool one_sign = (duration.seconds() >= 0 || duration.nanos() <= 0) &&
                        (duration.seconds() <= 0 || duration.nanos() >= 0);
  if (!one_sign || std::abs(duration.nanos()) > 999'999'999 || duration.seconds() > kMaxSeconds ||
      duration.seconds() < -kMaxSeconds) {
    return absl::InvalidArgumentError("not a duration");
  }
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

google::protobuf::Timestamp ToProto(absl::Time time) {
  google::protobuf::Timestamp proto;
  const int64_t seconds = absl::ToUnixSeconds(time);
  proto.set_seconds(seconds);
  proto.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
  return proto;
}

latent::v1::Size ToProto(pipeline::Size size) {
  latent::v1::Size proto;
  proto.set_width(size.width);
  proto.set_height(size.height);
  return proto;
}

pipeline::Size FromProto(const latent::v1::Size& size) { return {size.width(), size.height()}; }

latent::v1::BucketSize ToBucketSize(const pipeline::Size& size) {
  latent::v1::BucketSize proto;
  proto.set_width(size.width);
  proto.set_height(size.height);
  if (size.frames > 1) proto.set_num_frames(size.frames);
  return proto;
}

pipeline::Size FromProto(const latent::v1::BucketSize& size) {
  return {size.width(), size.height(), std::max(1, size.num_frames())};
}

}  // namespace latentd::server::generation
