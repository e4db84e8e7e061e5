#include "core/batching/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/base/text/text.h"
#include "tests/support/status_matchers.h"

namespace latentd::batching {

// Prints a bucket for gtest.
void PrintTo(const Bucket& bucket, std::ostream* out) { *out << SizeText(bucket); }

namespace {

using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Buckets kDemo({{256, 256}, {320, 192}, {192, 320}});

std::vector<std::string> BadFields(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : GetFieldViolations(status)) {
    fields.push_back(violation.field);
  }
  return fields;
}

TEST(BucketsTest, CountWhatIsListedTwiceOnce) {
  EXPECT_EQ(Buckets({{64, 64}, {96, 64}, {64, 64}}).listed().size(), 2u);
}

TEST(BucketsTest, ExactTakesWhatIsListed) {
  ASSERT_OK_AND_ASSIGN(const Bucket bucket, kDemo.Choose({320, 192}, BucketPolicy::kExact));
  EXPECT_EQ(bucket, (Bucket{320, 192}));
}

TEST(BucketsTest, ExactNamesTheBucketsForWhatIsNot) {
  const auto refused = kDemo.Choose({320, 200}, BucketPolicy::kExact);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("320x200 is not one of 256x256, 320x192, 192x320")));
}

const Buckets kVideos({{96, 64, 5}, {64, 64, 5}, {64, 64, 8}});

TEST(BucketsTest, HaveFrames) {
  EXPECT_TRUE(kVideos.Choose({64, 64, 8}, BucketPolicy::kExact).ok());
  const auto refused = kVideos.Choose({64, 64, 4}, BucketPolicy::kExact);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("64x64x4 is not one of 96x64x5, 64x64x5, 64x64x8")));
  EXPECT_THAT(BadFields(refused.status()), ElementsAre("num_frames"));
  EXPECT_THAT(BadFields(kVideos.Choose({96, 64, 8}, BucketPolicy::kExact).status()),
              ElementsAre("width", "height"));
}

TEST(BucketsTest, SnapKeepsTheFrames) {
  EXPECT_EQ(*kVideos.Choose({60, 60, 8}, BucketPolicy::kSnap), (Bucket{64, 64, 8}));
  EXPECT_EQ(*kVideos.Choose({80, 60, 5}, BucketPolicy::kSnap), (Bucket{96, 64, 5}));
  EXPECT_THAT(BadFields(kVideos.Choose({60, 60}, BucketPolicy::kSnap).status()),
              ElementsAre("num_frames"));
}

TEST(BucketsTest, ExactBlamesTheSideThatNoBucketHas) {
  EXPECT_THAT(BadFields(kDemo.Choose({320, 200}, BucketPolicy::kExact).status()),
              ElementsAre("height"));
  EXPECT_THAT(BadFields(kDemo.Choose({200, 256}, BucketPolicy::kExact).status()),
              ElementsAre("width"));
  EXPECT_THAT(BadFields(kDemo.Choose({200, 200}, BucketPolicy::kExact).status()),
              ElementsAre("width", "height"));
  EXPECT_THAT(BadFields(kDemo.Choose({320, 256}, BucketPolicy::kExact).status()),
              ElementsAre("width", "height"));
}

TEST(BucketsTest, SnapTakesTheSmallestThatCoversBothSides) {
  const Buckets buckets({{512, 512}, {320, 192}, {256, 256}, {192, 320}});
  EXPECT_EQ(*buckets.Choose({300, 100}, BucketPolicy::kSnap), (Bucket{320, 192}));
  EXPECT_EQ(*buckets.Choose({200, 200}, BucketPolicy::kSnap), (Bucket{256, 256}));
  EXPECT_EQ(*buckets.Choose({320, 193}, BucketPolicy::kSnap), (Bucket{512, 512}));
}

TEST(BucketsTest, SnapTakesTheSmallestReadyOneOfThoseThatCover) {
  const Buckets buckets({{512, 512}, {320, 192}, {256, 256}, {448, 448}});
  const auto choose = [&](Bucket size, std::vector<Bucket> ready) {
    return *buckets.Choose(size, BucketPolicy::kSnap, [&](Bucket bucket) {
      return std::find(ready.begin(), ready.end(), bucket) != ready.end();
    });
  };
  EXPECT_EQ(choose({200, 200}, {{512, 512}, {448, 448}, {320, 192}}), (Bucket{448, 448}));
  EXPECT_EQ(choose({256, 256}, {{512, 512}}), (Bucket{512, 512}));
  EXPECT_EQ(choose({200, 200}, {{320, 192}}), (Bucket{256, 256}));  // no ready one covers it
}

TEST(BucketsTest, SnapLeavesABucketAsItIs) {
  EXPECT_EQ(*kDemo.Choose({256, 256}, BucketPolicy::kSnap), (Bucket{256, 256}));
}

TEST(BucketsTest, SnapRefusesWhatNoneCovers) {
  const auto wide = kDemo.Choose({328, 64}, BucketPolicy::kSnap);
  EXPECT_THAT(wide, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("256x256")));
  EXPECT_THAT(BadFields(wide.status()), ElementsAre("width"));
  EXPECT_THAT(BadFields(kDemo.Choose({320, 320}, BucketPolicy::kSnap).status()),
              ElementsAre("width", "height"));
}

TEST(BucketsTest, ColdOkTakesAnySizeAsItIs) {
  EXPECT_EQ(*kDemo.Choose({72, 64}, BucketPolicy::kColdOk), (Bucket{72, 64}));
}

TEST(BucketsTest, BoundWhatAMessageNames) {
  std::vector<Bucket> many;
  for (int i = 1; i <= 1000; ++i) many.push_back({64 + 8 * i, 64});
  const absl::Status refused = Buckets(many).Choose({64, 8}, BucketPolicy::kExact).status();
  EXPECT_THAT(refused, StatusIs(_, HasSubstr("and 980 more")));
  EXPECT_LT(refused.message().size(), 2000u);
}

}  // namespace
}  // namespace latentd::batching
