// Requests that end with what their prompts are encoded to, and requests that begin with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/base/files/tensor_file.h"
#include "core/metrics/families.h"
#include "tests/core/engine/demo_engine.h"

namespace latentd::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Type = pipeline::HostTensor::Type;

// Bytes of the demo's embeddings of one prompt in float32, without a header.
constexpr int64_t kBytes = (77 * 160 + 96) * 4;

GenerateSpec EncodeSpec(const std::string& negative = "") {
  GenerateSpec spec;
  spec.picture.prompt = "a red circle on a blue background";
  if (!negative.empty()) spec.picture.negative_prompt = negative;
  spec.picture.guidance_scale = 2;
  spec.picture.output_embeds = Type::kFloat32;
  spec.output.format = image::Format::kEmbeds;
  return spec;
}

class EncodeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Config config = EnsembleConfig();
    config.rows = {1, 2};
    ASSERT_OK_AND_ASSIGN(engine_, Engine::Create(config, SystemClock()));
    ASSERT_OK(engine_->Load());
  }
  static void TearDownTestSuite() { engine_.reset(); }

  static std::vector<NamedTensor> Encode(const GenerateSpec& spec) {
    const auto images = Only<Image>(RunOn(*engine_, spec));
    EXPECT_EQ(images.size(), 1u);
    return images.empty() ? std::vector<NamedTensor>()
                          : ParseTensorFile(images[0].bytes, "embeddings").value();
  }

  static inline std::unique_ptr<Engine> engine_;
};

TEST_F(EncodeTest, TellsOfTheRequestAsOfAPicture) {
  const std::vector<Event> events = RunOn(*engine_, EncodeSpec());
  EXPECT_TRUE(std::holds_alternative<Queued>(events.front()));
  EXPECT_EQ(Only<Started>(events).size(), 1u);
  ASSERT_EQ(Only<Progress>(events).size(), 1u);
  EXPECT_EQ(Only<Progress>(events)[0].stage, Stage::kText);
  EXPECT_TRUE(std::holds_alternative<Image>(events[events.size() - 2]));
  const auto& completed = std::get<Completed>(events.back());
  EXPECT_GT(TimeOf(completed.timings, Stage::kText), absl::ZeroDuration());
  EXPECT_EQ(TimeOf(completed.timings, Stage::kSteps), absl::ZeroDuration());
  EXPECT_EQ(completed.prompt_chunks, 1);
  EXPECT_GT(completed.prompt_tokens, 5);
  EXPECT_THAT(completed.warnings, IsEmpty());
}

TEST_F(EncodeTest, GivesWhatDrawsTheSamePicture) {
  const auto tensors = Encode(EncodeSpec("blue"));
  const auto tensor = [&](const char* name) {
    const NamedTensor* found = FindTensor(tensors, name);
    return pipeline::HostTensor{Type::kFloat32, found->shape, found->data};
  };
  GenerateSpec drawn = SmallSpec();
  drawn.picture.guidance_scale = 4;
  drawn.picture.negative_prompt = "blue";
  drawn.output.format = image::Format::kRawRgb8;
  GenerateSpec embedded = drawn;
  embedded.picture.prompt.clear();
  embedded.picture.negative_prompt.reset();
  embedded.inputs = std::make_shared<pipeline::Inputs>(pipeline::Inputs{
      .prompt = {tensor("prompt_embeds"), tensor("pooled_prompt_embeds")},
      .negative = {tensor("negative_prompt_embeds"), tensor("negative_pooled_prompt_embeds")}});
  EXPECT_EQ(Only<Image>(RunOn(*engine_, embedded)).at(0).bytes,
            Only<Image>(RunOn(*engine_, drawn)).at(0).bytes);
}

TEST_F(EncodeTest, GivesNoZeros) {
  EXPECT_EQ(Encode(EncodeSpec()).size(), 2u);
  EXPECT_EQ(Encode(EncodeSpec("blue")).size(), 4u);
}

TEST_F(EncodeTest, RunsBesidePicturesAndCompilesNothing) {
  const int64_t compilations = CompilationsOf(*engine_);
  std::vector<std::shared_ptr<testing::RecordingSink>> sinks;
  for (int i = 0; i < 4; ++i) {
    sinks.push_back(std::make_shared<testing::RecordingSink>());
    ASSERT_OK(engine_->Submit(i % 2 == 0 ? SmallSpec(8) : EncodeSpec(), sinks.back()));
  }
  std::vector<std::string> files;
  for (size_t i = 0; i < sinks.size(); ++i) {
    const std::vector<Event> events = sinks[i]->WaitForEnd();
    EXPECT_TRUE(std::holds_alternative<Completed>(events.back()));
    if (i % 2 == 1) files.push_back(Only<Image>(events).at(0).bytes);
  }
  EXPECT_THAT(files, Each(Only<Image>(RunOn(*engine_, EncodeSpec())).at(0).bytes));
  EXPECT_EQ(CompilationsOf(*engine_), compilations);
}

TEST_F(EncodeTest, EndsWhereItIsCancelledOrTooLate) {
  const auto sink = std::make_shared<testing::RecordingSink>();
  const auto first = std::make_shared<testing::RecordingSink>();
  ASSERT_OK(engine_->Submit(SmallSpec(50), first));
  ASSERT_OK_AND_ASSIGN(const uint64_t handle, engine_->Submit(EncodeSpec(), sink));
  engine_->Cancel(handle);
  const Event end = sink->WaitForEnd().back();
  // It may have been through before.
  if (const auto* failed = std::get_if<Failed>(&end)) {
    EXPECT_TRUE(absl::IsCancelled(failed->status));
  } else {
    EXPECT_TRUE(std::holds_alternative<Completed>(end));
  }
  first->WaitForEnd();
  GenerateSpec late = EncodeSpec();
  late.deadline = SystemClock().Monotonic() - absl::Seconds(1);
  const absl::Status ended = EndOf(*engine_, late);
  EXPECT_TRUE(absl::IsDeadlineExceeded(ended)) << ended;
}

TEST_F(EncodeTest, KnowsBeforeHowManyBytesThereCanBe) {
  GenerateSpec spec = EncodeSpec("blue");
  spec.max_response_bytes = 2 * kBytes;
  EXPECT_EQ(GetReason(SubmitTo(*engine_, spec)), "RESPONSE_TOO_LARGE");
  spec.picture.output_embeds = Type::kFloat16;
  EXPECT_EQ(Encode(spec).size(), 4u);
}

TEST_F(EncodeTest, CountsAsAFormat) {
  const double before = MetricOf(*engine_, metrics::kImages, "embeds");
  Encode(EncodeSpec());
  EXPECT_EQ(MetricOf(*engine_, metrics::kImages, "embeds"), before + 1);
}

TEST_F(EncodeTest, ModelsSayTheirWidths) {
  std::vector<int> widths;
  for (const ModelInfo& model : engine_->capabilities().models) {
    widths.push_back(model.prompt_embeds_width);
    widths.push_back(model.pooled_prompt_embeds_width);
  }
  EXPECT_THAT(widths, ElementsAre(160, 96, 96, 96));
}

}  // namespace
}  // namespace latentd::engine
