// Reported memory of pictures in flight: while they are drawn, and after every kind of end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "core/base/errors/error_details.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/core/pipeline/doctored_checkpoint.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::RecordingSink;

// Notes what the engine counts at each unit of work.
class StateSink : public RecordingSink {
 public:
  explicit StateSink(Engine& engine) : engine_(engine) {}

  void OnEvent(Event event) override {
    const int64_t now = engine_.memory().state_bytes;
    if (std::holds_alternative<Progress>(event)) while_drawing_.insert(now);
    const bool ends = std::holds_alternative<Completed>(event) || IsFailed(event);
    if (ends) at_end_ = now;
    RecordingSink::OnEvent(std::move(event));
  }

  // REQUIRES: the picture has ended.
  const std::set<int64_t>& while_drawing() const { return while_drawing_; }
  int64_t at_end() const { return at_end_; }

 private:
  static bool IsFailed(const Event& event) { return std::holds_alternative<Failed>(event); }

  Engine& engine_;
  std::set<int64_t> while_drawing_;
  int64_t at_end_ = -1;
};

class StateBytesTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Engine> Load(const Config& config) {
    std::unique_ptr<Engine> engine = *Engine::Create(config, SystemClock());
    EXPECT_OK(engine->Load());
    return engine;
  }

  // Draws to the end.
  std::shared_ptr<StateSink> Draw(Engine& engine, const GenerateSpec& spec) {
    const auto sink = std::make_shared<StateSink>(engine);
    EXPECT_OK(engine.Submit(spec, sink));
    sink->WaitForEnd();
    return sink;
  }

  void ExpectHeldUntilTheEnd(const StateSink& sink) {
    ASSERT_FALSE(sink.while_drawing().empty());
    EXPECT_GT(*sink.while_drawing().begin(), 0);
    EXPECT_EQ(sink.at_end(), 0);
  }
};

TEST_F(StateBytesTest, CountOnePictureHoweverManyTheRequestHas) {
  const auto engine = Load(SmallConfig());
  const auto one = Draw(*engine, SmallSpec());
  ExpectHeldUntilTheEnd(*one);
  GenerateSpec spec = SmallSpec();
  spec.picture.num_images_per_prompt = 4;
  const auto four = Draw(*engine, spec);
  ExpectHeldUntilTheEnd(*four);
  EXPECT_EQ(four->while_drawing(), one->while_drawing());
}

TEST_F(StateBytesTest, AreZeroAfterACancellation) {
  const auto engine = Load(SmallConfig());
  const auto sink = std::make_shared<StateSink>(*engine);
  ASSERT_OK_AND_ASSIGN(const uint64_t handle, engine->Submit(SmallSpec(150), sink));
  sink->WaitFor<Progress>();
  engine->Cancel(handle);
  EXPECT_EQ(Only<Failed>(sink->WaitForEnd()).size(), 1u);
  ExpectHeldUntilTheEnd(*sink);
}

TEST_F(StateBytesTest, AreZeroAfterADrainThatRanOutOfTime) {
  const auto engine = Load(SmallConfig());
  const auto sink = std::make_shared<StateSink>(*engine);
  ASSERT_OK(engine->Submit(SmallSpec(150), sink));
  sink->WaitFor<Progress>();
  engine->Drain(SystemClock().Monotonic());
  EXPECT_EQ(Only<Failed>(sink->WaitForEnd()).size(), 1u);
  ExpectHeldUntilTheEnd(*sink);
}

TEST_F(StateBytesTest, AreZeroAfterAFailure) {
  const testing::TemporaryDirectory directory;
  Config config = SmallConfig();
  config.base = directory.File("doctored");
  testing::MakeDoctoredCheckpoint(config.base, "vae", "decoder.conv_out.bias",
                                  std::numeric_limits<float>::infinity());
  const auto engine = Load(config);
  GenerateSpec spec = SmallSpec();
  spec.picture.num_images_per_prompt = 2;
  const auto sink = Draw(*engine, spec);
  EXPECT_EQ(Only<Failed>(sink->WaitForEnd()).size(), 1u);
  ExpectHeldUntilTheEnd(*sink);
}

}  // namespace
}  // namespace latentd::engine
