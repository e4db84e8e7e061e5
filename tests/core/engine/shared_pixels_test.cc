// Sizes at which an evaluation of many rows would have too many pixels: a server has no such graph
// there, from its start to what operators warm, takes no memory for one, and draws all the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tests/core/engine/demo_engine.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::TemporaryDirectory;
using ::testing::ElementsAre;

constexpr pipeline::Size kSmall = {64, 64}, kLarge = {128, 64}, kOther = {128, 72};

class SharedPixelsTest : public ::testing::Test {
 protected:
  SharedPixelsTest() {
    config_.buckets = {kSmall, kLarge};
    config_.rows = {1, 4, 8};
    config_.max_shared_pixels = 4 * 128 * 64;
    config_.load_waits_for_shared_steps = true;
  }

  std::unique_ptr<LocalEngine> Load(const Config& config) {
    auto engine =
        std::make_unique<LocalEngine>(config, *backends::cpu::CpuBackend::Create(), clock_);
    EXPECT_OK(engine->Load());
    EXPECT_EQ(engine->state(), State::kReady);
    return engine;
  }

  // In that state, or any.
  static std::set<int> RowsOf(Engine& engine, pipeline::Size bucket,
                              std::optional<GraphState> state = std::nullopt) {
    std::set<int> rows;
    const auto graphs = engine.graphs().List({.components = {"unet"}});
    EXPECT_OK(graphs);
    for (const GraphEntry& graph : *graphs) {
      const bool wanted = graph.part == "step" && graph.bucket == bucket;
      if (wanted && graph.state == state.value_or(graph.state)) rows.insert(graph.rows);
    }
    return rows;
  }
  static MemoryPrediction Warm(Engine& engine, pipeline::Size bucket, bool dry_run) {
    const auto outcome =
        engine.graphs().Warm({.buckets = {bucket}}, dry_run, [](auto) { return true; });
    EXPECT_OK(outcome);
    return outcome.ok() ? outcome->predicted : MemoryPrediction();
  }
  // Draws a request for so many pictures without guidance.
  static void Draw(Engine& engine, pipeline::Size size, int pictures) {
    GenerateSpec spec = SpecOf(size, pipeline::BucketPolicy::kExact);
    spec.picture.num_images_per_prompt = pictures;
    const std::vector<Event> events = RunOn(engine, spec);
    EXPECT_EQ(Only<Image>(events).size(), static_cast<size_t>(pictures));
    EXPECT_EQ(Only<Failed>(events).size(), 0u);
  }

  FakeClock clock_;
  Config config_ = SmallConfig();
};

TEST_F(SharedPixelsTest, TheStartMakesOnlyTheRowCountsThatASizeHas) {
  const auto engine = Load(config_);
  EXPECT_THAT(RowsOf(*engine, kSmall), ElementsAre(1, 4, 8));
  EXPECT_THAT(RowsOf(*engine, kLarge), ElementsAre(1, 4));
  EXPECT_EQ(engine->status().shared_steps, (ServerStatus::GraphCount{3, 3}));
}

TEST_F(SharedPixelsTest, SoDoOperators) {
  config_.buckets = {kSmall};
  const auto engine = Load(config_);
  Warm(*engine, kLarge, /*dry_run=*/false);
  EXPECT_THAT(RowsOf(*engine, kLarge), ElementsAre(1, 4));
  Warm(*engine, kOther, /*dry_run=*/false);
  EXPECT_THAT(RowsOf(*engine, kOther), ElementsAre(1));
  Draw(*engine, kOther, 4);
}

TEST_F(SharedPixelsTest, WhatWouldBeHeldIsPredictedWithoutThem) {
  config_.buckets = {kOther};
  const auto engine = Load(config_);
  config_.rows = {1, 4};
  const auto few = Load(config_);
  const auto predict = [](Engine& of, pipeline::Size size) {
    return Warm(of, size, /*dry_run=*/true);
  };
  EXPECT_EQ(predict(*engine, kLarge).total(), predict(*few, kLarge).total());
  EXPECT_EQ(predict(*engine, kLarge).state, predict(*few, kLarge).state);
  EXPECT_GT(predict(*engine, kSmall).executables, predict(*few, kSmall).executables);
  EXPECT_GT(predict(*engine, kSmall).state, predict(*few, kSmall).state);
}

TEST_F(SharedPixelsTest, WhatTheStartHoldsIsPredictedWithoutThem) {
  config_.buckets = {kLarge};
  const MemoryReport all = Load(config_)->memory();
  config_.rows = {1, 4};
  const MemoryReport few = Load(config_)->memory();
  EXPECT_EQ(all.predicted.total(), few.predicted.total());
  EXPECT_EQ(all.arena_bytes, few.arena_bytes);
  config_.rows = {1, 4, 8};
  config_.max_shared_pixels = 8 * 128 * 64;
  EXPECT_GT(Load(config_)->memory().predicted.total(), few.predicted.total());
}

TEST_F(SharedPixelsTest, PicturesShareAsManyRowsAsTheirSizeHas) {
  config_.queue_capacity = 8;
  const auto engine = Load(config_);
  Draw(*engine, kLarge, 4);
  EXPECT_EQ(HistogramOf(engine->metrics(), metrics::kStepRows), std::make_pair(2.0, 8.0));
  Draw(*engine, kSmall, 8);
  EXPECT_EQ(HistogramOf(engine->metrics(), metrics::kStepRows), std::make_pair(4.0, 24.0));
}

// Not the more rows that the configuration has, either.
TEST_F(SharedPixelsTest, WhatIsLoadedAgainIsWhatTheSizeHas) {
  const TemporaryDirectory directory;
  config_.cache_dir = directory.File("cache");
  config_.max_shared_pixels = 8 * 128 * 64;
  Load(config_);  // the cache has them
  config_.max_shared_pixels = 4 * 128 * 64;
  const auto engine = Load(config_);
  const auto graphs = engine->graphs().List({.components = {"unet"}});
  ASSERT_OK(graphs);
  for (const GraphEntry& graph : *graphs) {
    if (graph.part != "step" || graph.bucket != kLarge || graph.rows != 4) continue;
    ASSERT_OK(engine->graphs().Evict({.ids = {graph.id}}, CacheTier::kMemory, /*force=*/true));
  }
  EXPECT_THAT(RowsOf(*engine, kLarge, GraphState::kReady), ElementsAre(1));
  Draw(*engine, kLarge, 2);
  engine->FinishPreparing();
  EXPECT_THAT(RowsOf(*engine, kLarge, GraphState::kReady), ElementsAre(1, 4));
}

}  // namespace
}  // namespace latentd::engine
