#include "client/rpc/bucket_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/base/text/text.h"
#include "core/batching/buckets.h"

namespace latentd::client {
namespace {

using ::testing::Optional;

v1::Size SizeOf(int width, int height) {
  v1::Size size;
  size.set_width(width);
  size.set_height(height);
  return size;
}

v1::GetCapabilitiesResponse Serving(const std::vector<batching::Bucket>& buckets) {
  v1::GetCapabilitiesResponse capabilities;
  *capabilities.mutable_default_size() = SizeOf(256, 192);
  for (const batching::Bucket& bucket : buckets) {
    *capabilities.add_buckets()->mutable_size() = SizeOf(bucket.width, bucket.height);
  }
  return capabilities;
}

v1::GenerateRequest Request(int width, int height, v1::BucketPolicy policy) {
  v1::GenerateRequest request;
  request.set_bucket_policy(policy);
  if (width > 0) request.set_width(width);
  if (height > 0) request.set_height(height);
  return request;
}

TEST(BucketChoiceTest, AnExactSizeIsItsBucket) {
  for (const auto policy : {v1::BUCKET_POLICY_UNSPECIFIED, v1::BUCKET_POLICY_EXACT}) {
    const v1::GenerateRequest request = Request(320, 192, policy);
    EXPECT_FALSE(NeedsCapabilities(request));
    EXPECT_THAT(BucketOf(request, {}), Optional(std::string("320x192")));
  }
}

TEST(BucketChoiceTest, ASizeThatMayBeCompiledIsItsBucket) {
  const v1::GenerateRequest request = Request(72, 64, v1::BUCKET_POLICY_COLD_OK);
  EXPECT_FALSE(NeedsCapabilities(request));
  EXPECT_THAT(BucketOf(request, Serving({{128, 128}})), Optional(std::string("72x64")));
}

TEST(BucketChoiceTest, SidesThatAreNotSaidAreTheModels) {
  const auto capabilities = Serving({});
  for (const auto& [width, height, bucket] :
       {std::tuple(0, 0, "256x192"), {128, 0, "128x192"}, {0, 128, "256x128"}}) {
    const v1::GenerateRequest request = Request(width, height, v1::BUCKET_POLICY_EXACT);
    EXPECT_TRUE(NeedsCapabilities(request));
    EXPECT_THAT(BucketOf(request, capabilities), Optional(std::string(bucket)));
  }
}

TEST(BucketChoiceTest, WithoutCapabilitiesNothingIsGuessed) {
  EXPECT_EQ(BucketOf(Request(0, 0, v1::BUCKET_POLICY_EXACT), {}), std::nullopt);
  EXPECT_EQ(BucketOf(Request(64, 64, v1::BUCKET_POLICY_SNAP), {}), std::nullopt);
}

TEST(BucketChoiceTest, TheSizeOfAPictureIsNotGuessed) {
  v1::GenerateRequest request = Request(0, 0, v1::BUCKET_POLICY_EXACT);
  request.set_image("\x89PNG");
  EXPECT_EQ(BucketOf(request, Serving({})), std::nullopt);
  request.set_width(64);
  request.set_height(96);
  EXPECT_THAT(BucketOf(request, Serving({})), Optional(std::string("64x96")));
}

TEST(BucketChoiceTest, SnapsAsTheServerDoes) {
  std::mt19937 random(7);
  const auto side = [&random] { return 8 * std::uniform_int_distribution<int>(1, 6)(random); };
  int none = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<batching::Bucket> listed(std::uniform_int_distribution<size_t>(1, 6)(random));
    for (batching::Bucket& bucket : listed) bucket = {side(), side()};
    const batching::Bucket size{side(), side()};
    const batching::Buckets buckets(listed);
    const auto right = buckets.Choose(size, batching::BucketPolicy::kSnap);
    const auto found = BucketOf(Request(size.width, size.height, v1::BUCKET_POLICY_SNAP),
                                Serving(buckets.listed()));
    EXPECT_EQ(found.value_or("none"), right.ok() ? latentd::SizeText(*right) : "none")
        << latentd::SizeText(size);
    none += right.ok() ? 0 : 1;
  }
  EXPECT_GT(none, 100);
  EXPECT_LT(none, 1900);
}

}  // namespace
}  // namespace latentd::client
