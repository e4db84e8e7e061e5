// A decoder in fp16 that overflows: what clients and metrics see of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/base/errors/error_details.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/core/pipeline/doctored_checkpoint.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::StatusIs;

class DecoderInFp16Test : public ::testing::Test {
 protected:
  // An engine whose VAE has `value` for the first number of a tensor.
  std::unique_ptr<Engine> Load(const std::string& tensor, float value) {
    Config config = SmallConfig();
    config.base = directory_.File("doctored");
    config.backend = "reference";
    config.precision = {{"vae_decoder", DType::kF16}};
    testing::MakeDoctoredCheckpoint(config.base, "vae", tensor, value);
    std::unique_ptr<Engine> engine = *Engine::Create(config, SystemClock());
    EXPECT_OK(engine->Load());
    return engine;
  }

  const testing::TemporaryDirectory directory_;
};

TEST_F(DecoderInFp16Test, IsRedoneInFp32AndCounted) {
  const std::unique_ptr<Engine> engine = Load("post_quant_conv.weight", 49152);
  EXPECT_EQ(MetricOf(*engine, metrics::kInvalidImages), 0);
  const std::vector<Event> events = RunOn(*engine, SmallSpec());
  EXPECT_EQ(Only<Image>(events).size(), 1u);
  EXPECT_EQ(MetricOf(*engine, metrics::kInvalidImages, "redone"), 1);
  EXPECT_EQ(MetricOf(*engine, metrics::kInvalidImages, "failed"), 0);
  // It was there before: compiled, loaded and counted with its bucket.
  EXPECT_EQ(CompilationsOf(*engine), engine->status().graphs_total);
}

TEST_F(DecoderInFp16Test, FailsWithoutAPictureWhereFp32IsNotFiniteEither) {
  const std::unique_ptr<Engine> engine =
      Load("decoder.conv_out.bias", std::numeric_limits<float>::infinity());
  const std::vector<Event> events = RunOn(*engine, SmallSpec());
  EXPECT_TRUE(Only<Image>(events).empty());
  const std::vector<Failed> failed = Only<Failed>(events);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_THAT(failed[0].status, StatusIs(absl::StatusCode::kInternal, ::testing::_));
  EXPECT_EQ(GetReason(failed[0].status), "NOT_FINITE");
  EXPECT_EQ(MetricOf(*engine, metrics::kInvalidImages, "failed"), 1);
  EXPECT_EQ(MetricOf(*engine, metrics::kInvalidImages, "redone"), 0);
}

TEST_F(DecoderInFp16Test, HasItsFallbackAmongTheGraphs) {
  const std::unique_ptr<Engine> engine = Load("post_quant_conv.weight", 1);
  int fallbacks = 0;
  const auto graphs = engine->graphs().List({.all = true});
  ASSERT_OK(graphs);
  for (const GraphEntry& graph : *graphs) fallbacks += graph.fallback;
  EXPECT_EQ(fallbacks, 1);
}

}  // namespace
}  // namespace latentd::engine
