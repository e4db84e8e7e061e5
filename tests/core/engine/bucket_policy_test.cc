// Treatment of a request's size: buckets that are ready, evicted, cold or compiled for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/pipeline/plan/latents_file.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/support/inputs.h"
#include "tests/support/status_matchers.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::RecordingSink;
using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using pipeline::BucketPolicy;

// One engine for all tests; the gate holds back what it compiles.
class BucketPolicyTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Config config = SmallConfig();
    config.buckets = {{64, 64}, {96, 64}};
    const auto watch = [](const graph::Graph&) {
      gate_.Pass();
      return absl::OkStatus();
    };
    engine_ = std::make_unique<LocalEngine>(config, WatchedBackend::Create(watch), SystemClock());
    ASSERT_OK(engine_->Load());
    ASSERT_EQ(engine_->state(), State::kReady);
  }
  static void TearDownTestSuite() { engine_.reset(); }

  static void Evict(CacheTier tier) {
    ASSERT_OK(engine_->graphs().Evict({.buckets = {{96, 64}}}, tier, /*force=*/false));
  }
  static bool IsReady(pipeline::Size size) {
    for (const ServerStatus::Bucket& bucket : engine_->status().buckets) {
      if (bucket.size == size) return bucket.ready;
    }
    return false;
  }

  static inline std::unique_ptr<LocalEngine> engine_;
  static inline Gate gate_;
};

TEST_F(BucketPolicyTest, ExactNamesTheBucketsForAnotherSize) {
  const absl::Status refused = SubmitTo(*engine_, SpecOf({80, 64}, BucketPolicy::kExact));
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("96x64, 64x64")));
  ASSERT_EQ(GetFieldViolations(refused).size(), 1u);
  EXPECT_EQ(GetFieldViolations(refused)[0].field, "width");
  EXPECT_EQ(GetReason(refused), "NO_SUCH_BUCKET");
  EXPECT_THAT(GetFacts(refused), ElementsAre(ErrorFact{"requested_size", "80x64"},
                                             ErrorFact{"buckets", "96x64,64x64"}));
  EXPECT_EQ(engine_->Validate(SpecOf({80, 64}, BucketPolicy::kExact)).size(), 1u);
}

// The demo model's own size, 256x256, is no bucket here.
TEST_F(BucketPolicyTest, ARequestWithoutASizeTakesTheBucketNearestToTheModelsOwn) {
  EXPECT_EQ(engine_->capabilities().default_size, (pipeline::Size{96, 64}));
  GenerateSpec spec = SmallSpec();
  spec.picture.width = spec.picture.height = std::nullopt;
  const std::vector<Event> events = RunOn(*engine_, spec);
  ASSERT_EQ(Only<Image>(events).size(), 1u);
  EXPECT_EQ(Only<Image>(events)[0].size, (pipeline::Size{96, 64}));
  spec.picture.width = 64;
  EXPECT_EQ(Only<Image>(RunOn(*engine_, spec)).at(0).size, (pipeline::Size{64, 64}));
}

TEST_F(BucketPolicyTest, SnapDrawsInTheBucketAndReturnsTheSizeAskedFor) {
  const double adjusted = MetricOf(*engine_, metrics::kSizeAdjustments, "snap");
  const std::vector<Event> events = RunOn(*engine_, SpecOf({72, 64}, BucketPolicy::kSnap));
  ASSERT_EQ(Only<Started>(events).size(), 1u);
  EXPECT_EQ(Only<Started>(events)[0].executed_size, (pipeline::Size{96, 64}));
  ASSERT_EQ(Only<Completed>(events).size(), 1u);
  EXPECT_EQ(Only<Completed>(events)[0].executed_size, (pipeline::Size{96, 64}));
  EXPECT_EQ(Only<Image>(events).at(0).size, (pipeline::Size{72, 64}));
  EXPECT_EQ(MetricOf(*engine_, metrics::kSizeAdjustments, "snap"), adjusted + 1);
}

TEST_F(BucketPolicyTest, SnapReturnsTheMiddleOfLatentsAndTakesNone) {
  GenerateSpec spec = SpecOf({72, 64}, BucketPolicy::kSnap);
  spec.output.format = image::Format::kLatent;
  const auto images = Only<Image>(RunOn(*engine_, spec));
  ASSERT_EQ(images.size(), 1u);
  const pipeline::LatentSize size = {.height = 8, .width = 9};
  EXPECT_TRUE(
      pipeline::ReadLatentsFile(images[0].bytes, pipeline::ImageLatentsShape(1, 4, size)).ok());
  spec.inputs = testing::LatentsInput(images[0].bytes);
  const absl::Status refused = SubmitTo(*engine_, spec);
  ASSERT_EQ(GetFieldViolations(refused).size(), 1u);
  EXPECT_EQ(GetFieldViolations(refused)[0].field, "latents");
  EXPECT_THAT(GetFieldViolations(refused)[0].description, HasSubstr("96x64"));
}

TEST_F(BucketPolicyTest, SnapPrefersABucketThatIsReady) {
  const auto evict = [](CacheTier tier) {
    ASSERT_OK(engine_->graphs().Evict({.buckets = {{64, 64}}}, tier, /*force=*/false));
  };
  evict(CacheTier::kMemory);  // nothing is on a disk
  EXPECT_FALSE(IsReady({64, 64}));
  const auto snapped = RunOn(*engine_, SpecOf({64, 64}, BucketPolicy::kSnap));
  ASSERT_EQ(Only<Completed>(snapped).size(), 1u);
  EXPECT_EQ(Only<Completed>(snapped)[0].executed_size, (pipeline::Size{96, 64}));
  const absl::Status cold = SubmitTo(*engine_, SpecOf({64, 64}, BucketPolicy::kExact));
  EXPECT_EQ(GetReason(cold), "BUCKET_COLD");
  EXPECT_THAT(GetFacts(cold),
              ElementsAre(ErrorFact{"requested_size", "64x64"}, ErrorFact{"buckets", "96x64"}));
  ASSERT_OK(engine_->graphs().Warm({.buckets = {{64, 64}}}, /*dry_run=*/false,
                                   [](const WarmProgress&) { return true; }));
  const auto back = RunOn(*engine_, SpecOf({64, 64}, BucketPolicy::kSnap));
  ASSERT_EQ(Only<Completed>(back).size(), 1u);
  EXPECT_EQ(Only<Completed>(back)[0].executed_size, (pipeline::Size{64, 64}));
}

TEST_F(BucketPolicyTest, SnapLeavesABucketAsItIs) {
  const double adjusted = MetricOf(*engine_, metrics::kSizeAdjustments, "snap");
  const auto exact = Only<Image>(RunOn(*engine_, SpecOf({64, 64}, BucketPolicy::kExact)));
  const auto snap = Only<Image>(RunOn(*engine_, SpecOf({64, 64}, BucketPolicy::kSnap)));
  EXPECT_EQ(exact.at(0).bytes, snap.at(0).bytes);
  EXPECT_EQ(MetricOf(*engine_, metrics::kSizeAdjustments, "snap"), adjusted);
}

TEST_F(BucketPolicyTest, ColdOkCompilesOnceAndOtherRequestsGoOnMeanwhile) {
  const int64_t before = CompilationsOf(*engine_);
  const double cold_before = MetricOf(*engine_, metrics::kGraphCompilations, "cold_request");
  gate_.Close();
  const auto cold = std::make_shared<RecordingSink>();
  ASSERT_OK(engine_->Submit(SpecOf({80, 80}, BucketPolicy::kColdOk), cold));
  gate_.WaitForSomebody();
  EXPECT_EQ(Only<Completed>(RunOn(*engine_, SmallSpec())).size(), 1u);
  EXPECT_EQ(MetricOf(*engine_, metrics::kQueueDepth), 1);
  gate_.Open();
  EXPECT_EQ(Only<Completed>(cold->WaitForEnd()).size(), 1u);
  const int64_t after = CompilationsOf(*engine_);
  EXPECT_EQ(after, before + 2);  // the UNet's steps and the decoder
  EXPECT_EQ(MetricOf(*engine_, metrics::kGraphCompilations, "cold_request"), cold_before + 2);
  RunOn(*engine_, SpecOf({80, 80}, BucketPolicy::kColdOk));
  EXPECT_EQ(CompilationsOf(*engine_), after);
}

TEST_F(BucketPolicyTest, AColdRequestCanBeCancelledWhileItIsPrepared) {
  gate_.Close();
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_OK_AND_ASSIGN(const uint64_t handle,
                       engine_->Submit(SpecOf({88, 88}, BucketPolicy::kColdOk), sink));
  gate_.WaitForSomebody();
  engine_->Cancel(handle);
  const std::vector<Event> events = sink->WaitForEnd();
  ASSERT_EQ(Only<Failed>(events).size(), 1u);
  EXPECT_EQ(Only<Failed>(events)[0].status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Only<Started>(events), IsEmpty());
  EXPECT_EQ(MetricOf(*engine_, metrics::kQueueDepth), 0);
  gate_.Open();
  EXPECT_EQ(Only<Completed>(RunOn(*engine_, SmallSpec())).size(), 1u);
}

TEST_F(BucketPolicyTest, ColdRequestsCountForTheQueue) {
  gate_.Close();
  std::vector<uint64_t> handles;
  const auto sink = std::make_shared<RecordingSink>();
  GenerateSpec spec = SpecOf({104, 104}, BucketPolicy::kColdOk);
  spec.picture.num_images_per_prompt = 4;
  ASSERT_OK_AND_ASSIGN(const uint64_t handle, engine_->Submit(spec, sink));
  EXPECT_EQ(GetReason(SubmitTo(*engine_, SmallSpec())), "QUEUE_FULL");
  engine_->Cancel(handle);
  sink->WaitForEnd();
  gate_.Open();
}

// There is no disk cache here: what leaves memory is gone.
TEST_F(BucketPolicyTest, ABucketThatCannotBeLoadedAgainIsColdUntilItIsWarmed) {
  const auto before = Only<Image>(RunOn(*engine_, SpecOf({96, 64}, BucketPolicy::kExact)));
  Evict(CacheTier::kMemory);
  EXPECT_EQ(MetricOf(*engine_, metrics::kBucketWarm, "96x64"), 0);
  EXPECT_FALSE(IsReady({96, 64}));
  EXPECT_EQ(engine_->state(), State::kDegraded);
  EXPECT_EQ(GetReason(SubmitTo(*engine_, SpecOf({96, 64}, BucketPolicy::kExact))), "BUCKET_COLD");
  ASSERT_OK(engine_->graphs().Warm({.buckets = {{96, 64}}}, /*dry_run=*/false,
                                   [](const WarmProgress&) { return true; }));
  EXPECT_EQ(engine_->state(), State::kReady);
  const auto after = Only<Image>(RunOn(*engine_, SpecOf({96, 64}, BucketPolicy::kExact)));
  EXPECT_EQ(before.at(0).bytes, after.at(0).bytes);
}

}  // namespace
}  // namespace latentd::engine
