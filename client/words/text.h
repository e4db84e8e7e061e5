// Numbers and tables as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "latent/v1/image_generation.pb.h"

namespace latentd::client {

// "0", "512 B", "1.5 KiB", "2.0 GiB".
std::string BytesText(int64_t bytes);

// "-" for none, "0.012 s", "1.5 s", "3 min".
std::string DurationText(const google::protobuf::Duration& duration);

// "never" for an infinite past, else "3 s ago", "5 min ago", "2 h ago", "4 d ago".
std::string AgoText(absl::Time time, absl::Time now);

// "256x320"; "-" where there is none.
std::string SizeText(const ::latent::v1::Size& size);
// The same of a bucket: "1024x576x25" where it has frames.
std::string SizeText(const ::latent::v1::BucketSize& size);

// True if the buckets are of more than one model.
template <typename Buckets>
bool HasSeveralModels(const Buckets& buckets) {
  for (const auto& bucket : buckets) {
    if (bucket.model() != buckets.begin()->model()) return true;
  }
  return false;
}

// "512x512", or with its model "anime 512x512".
template <typename Bucket>
std::string BucketText(const Bucket& bucket, bool with_model) {
  return (with_model ? bucket.model() + " " : "") + SizeText(bucket.size());
}

// Columns as wide as their widest cell, two spaces between them, no trailing spaces. A row may have
// fewer cells than the first.
std::string TableText(const std::vector<std::vector<std::string>>& rows);

// As protobuf sees it, which reads no other text.
bool IsUtf8(const std::string& text);

}  // namespace latentd::client
