// A server whose memory is full of idle graphs: what leaves for a request, and what does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/errors/error_details.h"
#include "tests/core/engine/demo_engine.h"

namespace latentd::engine {
namespace {

using pipeline::BucketPolicy;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr pipeline::Size kLarge = {256, 256}, kSmall = {64, 64};
// Bytes of a picture of the large bucket and of the weight whose making takes most; the small
// bucket's graphs hold more than that of their own.
constexpr int64_t kSlack = int64_t{5} << 20;

std::unique_ptr<Engine> Load(const Config& config) {
  std::unique_ptr<Engine> engine = *Engine::Create(config, SystemClock());
  EXPECT_OK(engine->Load());
  return engine;
}

// A budget that the large bucket fits into, and nothing else beside it.
Config TightConfig() {
  Config config = SmallConfig();
  config.buckets = {kLarge};
  const MemoryReport report = Load(config)->memory();
  config.memory_bytes = report.weight_bytes + report.arena_bytes + report.executable_bytes +
                        report.artifact_bytes + kSlack;
  return config;
}

double EvictionsOf(Engine& engine) {
  return MetricOf(engine, metrics::kGraphCacheEvictions, "memory_budget");
}

TEST(EvictionTest, ARequestThatDoesNotFitBesideIdleGraphsEvictsThem) {
  Config config = TightConfig();
  std::vector<std::string> warnings;
  config.warn = [&](absl::string_view what) { warnings.emplace_back(what); };
  const auto engine = Load(config);
  EXPECT_EQ(engine->state(), State::kReady);
  EXPECT_EQ(EvictionsOf(*engine), 0);
  EXPECT_EQ(Only<Completed>(RunOn(*engine, SpecOf(kSmall, BucketPolicy::kColdOk))).size(), 1u);
  EXPECT_GE(EvictionsOf(*engine), 1);
  EXPECT_THAT(warnings, Each(HasSubstr("make room")));
  EXPECT_EQ(warnings.size(), static_cast<size_t>(EvictionsOf(*engine)));
  const MemoryReport report = engine->memory();
  EXPECT_LE(
      report.weight_bytes + report.arena_bytes + report.executable_bytes + report.artifact_bytes,
      config.memory_bytes);

  // The large bucket is loaded again, and nothing is compiled for it.
  const int64_t compilations = CompilationsOf(*engine);
  EXPECT_EQ(Only<Completed>(RunOn(*engine, SpecOf(kLarge, BucketPolicy::kExact))).size(), 1u);
  EXPECT_EQ(CompilationsOf(*engine), compilations);
  EXPECT_EQ(engine->state(), State::kReady);
}

TEST(EvictionTest, WhatIsPinnedStaysAndTheRequestIsRefused) {
  const auto engine = Load(TightConfig());
  ASSERT_OK(engine->graphs().SetPinned({.all = true}, true));
  const auto failed = Only<Failed>(RunOn(*engine, SpecOf(kSmall, BucketPolicy::kColdOk)));
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(GetReason(failed[0].status), "OUT_OF_MEMORY");
  EXPECT_EQ(EvictionsOf(*engine), 0);
  EXPECT_EQ(Only<Completed>(RunOn(*engine, SpecOf(kLarge, BucketPolicy::kExact))).size(), 1u);
}

TEST(EvictionTest, WarmingEvictsToo) {
  const auto engine = Load(TightConfig());
  ASSERT_OK_AND_ASSIGN(
      const WarmOutcome outcome,
      engine->graphs().Warm({.buckets = {kSmall}}, /*dry_run=*/false, [](auto) { return true; }));
  EXPECT_EQ(outcome.failed, 0);
  EXPECT_GE(EvictionsOf(*engine), 1);
}

// A start does not trade one bucket for another; who asks for the one that did not fit gets it.
TEST(EvictionTest, ABucketThatDidNotFitAtTheStartIsServedWhenTheOtherIsIdle) {
  Config config = TightConfig();
  config.buckets = {kLarge, kSmall};
  const auto engine = Load(config);
  EXPECT_EQ(engine->state(), State::kDegraded);
  EXPECT_THAT(engine->status().reason, HasSubstr("64x64"));
  EXPECT_EQ(EvictionsOf(*engine), 0);
  EXPECT_EQ(Only<Completed>(RunOn(*engine, SpecOf(kSmall, BucketPolicy::kExact))).size(), 1u);
  EXPECT_GE(EvictionsOf(*engine), 1);
  EXPECT_EQ(engine->state(), State::kReady);
  EXPECT_EQ(Only<Completed>(RunOn(*engine, SpecOf(kLarge, BucketPolicy::kExact))).size(), 1u);
}

}  // namespace
}  // namespace latentd::engine
