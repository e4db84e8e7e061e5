// Needs that the queue gets on the way of a picture through its units.
#include "core/engine/requests/arrival.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/pipeline/spec/fields.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/support/inputs.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::RecordingSink;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ArrivalTest : public LoopTest {
 protected:
  std::shared_ptr<Job> JobOf(GenerateSpec spec) {
    auto job = model_->MakeJob(loop_, std::make_shared<RecordingSink>(), std::move(spec), clock_);
    job->ids = {7};
    return job;
  }

  PictureLoop loop_{{}, device::Host(), metrics_, clock_};
};

TEST_F(ArrivalTest, SaysWhoAsksHowUrgentlyAndUntilWhen) {
  GenerateSpec spec = SmallSpec();
  spec.caller = "somebody";
  spec.priority = -2;
  spec.deadline = clock_.Monotonic() + absl::Seconds(9);
  const std::shared_ptr<Job> job = JobOf(spec);
  const batching::Arrival arrival = ArrivalOf(*job, 123);
  EXPECT_EQ(arrival.caller, "somebody");
  EXPECT_EQ(arrival.priority, -2);
  EXPECT_EQ(arrival.deadline, spec.deadline);
  EXPECT_EQ(arrival.bytes, 123u);
  EXPECT_EQ(arrival.pictures.size(), 1u);
}

uint64_t ContentOf(const pipeline::PictureSpec& asked, pipeline::SharedInputs inputs = nullptr,
                   const image::EncodeOptions& output = {}) {
  return engine::ContentOf({.picture = asked, .inputs = std::move(inputs), .output = output});
}

TEST_F(ArrivalTest, ARequestThatComesBackIsKnownByWhatItAskedFor) {
  pipeline::PictureSpec asked = SmallSpec(4).picture;
  asked.seed = std::nullopt;
  const uint64_t content = ContentOf(asked);
  EXPECT_EQ(ContentOf(pipeline::PictureSpec(asked)), content);
  EXPECT_NE(ContentOf(asked, testing::ImageInput("an image")), content);
  EXPECT_NE(ContentOf(asked, testing::LatentsInput("an image")),
            ContentOf(asked, testing::ImageInput("an image")));
  const auto embeds = [](pipeline::Embeds prompt, pipeline::Embeds negative) {
    return std::make_shared<const pipeline::Inputs>(
        pipeline::Inputs{.prompt = std::move(prompt), .negative = std::move(negative)});
  };
  const pipeline::HostTensor one = {.shape = {1}, .data = "1234"},
                             other = {.shape = {1}, .data = "1235"};
  const uint64_t of_one = ContentOf(asked, embeds({.states = one}, {}));
  EXPECT_EQ(ContentOf(asked, embeds({.states = one}, {})), of_one);
  EXPECT_NE(of_one, content);
  EXPECT_NE(ContentOf(asked, embeds({.states = other}, {})), of_one);
  EXPECT_NE(ContentOf(asked, embeds({.pooled = one}, {})), of_one);
  EXPECT_NE(ContentOf(asked, embeds({}, {.states = one})), of_one);
  pipeline::PictureSpec encoded = asked;
  encoded.output_embeds = pipeline::HostTensor::Type::kFloat32;
  EXPECT_NE(ContentOf(encoded), content);
  EXPECT_NE(ContentOf(asked, nullptr, {.format = image::Format::kJpeg}), content);
  const std::shared_ptr<Job> job = JobOf(SmallSpec(4));
  job->content = content;
  EXPECT_EQ(ArrivalOf(*job, 0).content, content);
}

// Gives the member another value than it has.
template <typename T>
void Change(T& value) {
  if constexpr (requires { value.push_back({}); }) {
    value.push_back({});
  } else if constexpr (requires { value.emplace(); }) {
    value = value ? T() : T(std::in_place);
  } else {
    value = static_cast<T>(!static_cast<bool>(value));
  }
}

TEST_F(ArrivalTest, RequestsThatDifferInAnyFieldAreOthers) {
  const pipeline::PictureSpec asked = SmallSpec(4).picture;
  for (const pipeline::Field& field : pipeline::Fields()) {
    pipeline::PictureSpec other = asked;
    VisitField(field, other, [](auto& value) { Change(value); });
    EXPECT_NE(ContentOf(other), ContentOf(asked)) << field.name;
  }
}

TEST_F(ArrivalTest, OfAPictureAllUnitsAreAheadThatItHasNotHad) {
  const std::shared_ptr<Job> job = JobOf(SmallSpec(4));
  pipeline::Picture& picture = *job->pictures[0];
  batching::Ahead ahead = NeedOf(picture).ahead;
  EXPECT_EQ(ahead.stages[0].lane, picture.lane());
  EXPECT_EQ(ahead.stages[0].evaluations(), 4);
  EXPECT_EQ(ahead.stages[1].evaluations(), 0);  // there is no refiner
  EXPECT_TRUE(ahead.stages[0].text);
  EXPECT_THAT(ahead.after, ElementsAre(batching::UnitKind::kDecode));
  EXPECT_THAT(ahead.before, IsEmpty());
  picture.Advance();
  EXPECT_EQ(picture.next, batching::UnitKind::kStep);
  picture.evaluation = 3;
  EXPECT_EQ(NeedOf(picture).ahead.stages[0].evaluations(), 1);
  picture.Advance();
  EXPECT_EQ(picture.next, batching::UnitKind::kDecode);
  picture.evaluation = 0;  // no further stage has any
  ahead = NeedOf(picture).ahead;
  EXPECT_EQ(ahead.stages[0].evaluations(), 0);
  EXPECT_THAT(ahead.after, ElementsAre(batching::UnitKind::kDecode));
  EXPECT_EQ(ahead.stages[0].lane, picture.lane());
}

// For who rests while others pass: those of a lane that it would have, then those of its own.
TEST_F(ArrivalTest, ALaneHasMoreRowsThanAnEvaluation) {
  const std::shared_ptr<Job> job = JobOf(SmallSpec(4));
  pipeline::Picture& picture = *job->pictures[0];
  EXPECT_LT(NeedOf(picture).lane_rows, 8);
  EXPECT_EQ(NeedOf(picture).lane_places, 8);
  const auto stream = device::Host().NewStream(clock_).value();
  pipeline::Lanes lanes([](const pipeline::LaneMemory& lane) {
    return lane.label.rows <= 4 ? absl::OkStatus() : absl::ResourceExhaustedError("no room");
  });
  for (int unit = 0; unit < 2; ++unit) {  // text, a step
    ASSERT_OK(pipeline::EnqueueUnit({&picture}, lanes, *stream));
  }
  EXPECT_EQ(NeedOf(picture).lane_places, 4);
}

TEST_F(ArrivalTest, OfStepsWithoutGuidanceOneRowIsAhead) {
  GenerateSpec spec = SmallSpec(4);
  spec.picture.guidance_scale = 5;
  spec.picture.guidance_interval = pipeline::GuidanceInterval{0.25, 0.75};
  const std::shared_ptr<Job> job = JobOf(spec);
  pipeline::Picture& picture = *job->pictures[0];
  picture.next = batching::UnitKind::kStep;
  std::vector<std::pair<int, int>> rows;  // rows of the next step, and at most from there on
  for (picture.evaluation = 0; picture.evaluation < 4; ++picture.evaluation) {
    const batching::Need need = NeedOf(picture);
    EXPECT_EQ(need.next_rows(), picture.next_rows());
    EXPECT_EQ(need.most_rows(), picture.rows_ahead());
    rows.emplace_back(need.next_rows(), need.most_rows());
  }
  EXPECT_EQ(rows, (std::vector<std::pair<int, int>>{{1, 2}, {2, 2}, {2, 2}, {1, 1}}));
}

}  // namespace
}  // namespace latentd::engine
