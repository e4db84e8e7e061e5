// Pictures whose steps have different numbers of rows, in a lane of four.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "absl/container/inlined_vector.h"
#include "core/batching/queue.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::batching {
namespace {

using ::testing::ElementsAre;

constexpr Lane kLane{.width = 64, .height = 64};

Need Text(int rows) {
  return {.kind = UnitKind::kText,
          .lane = kLane,
          .lane_rows = 4,
          .ahead = {.stages = {{{.runs = {{1, rows}}}}}}};
}

// Need of a step, with these evaluations left.
Need Step(absl::InlinedVector<StepRun, 3> runs) {
  Need need = Text(2);
  need.kind = UnitKind::kStep;
  need.ahead.stages[0] = {.lane = kLane, .runs = std::move(runs)};
  return need;
}

class KeptRowsTest : public ::testing::Test {
 protected:
  // A picture that has rows of the lane.
  void Begin(PictureId picture, Need need) {
    ASSERT_OK(queue_.Admit({.pictures = {picture}, .need = Text(2)}));
    EXPECT_THAT(queue_.Next()->pictures, ElementsAre(picture));
    need.joined = true;
    queue_.Update(picture, need);
  }

  testing::FakeClock clock_;
  Queue queue_{{.pictures = 100}, clock_};
};

TEST_F(KeptRowsTest, ArePromisedToWhoTakesThemLater) {
  Begin(1, Step({{2, 1}, {2, 2}}));
  ASSERT_OK(queue_.Admit({.pictures = {2}, .need = Text(3)}));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(queue_.Next()->pictures, ElementsAre(1));
  Need last = Step({{2, 1}});
  last.joined = true;
  queue_.Update(1, last);
  EXPECT_THAT(queue_.Next()->pictures, ElementsAre(2));
}

TEST_F(KeptRowsTest, AStepIsExpectedToTakeWhatItsRowsTake) {
  Begin(1, Step({{2, 1}, {2, 2}}));
  queue_.Measure({.kind = UnitKind::kStep, .lane = kLane}, 1, absl::Milliseconds(10));
  queue_.Measure({.kind = UnitKind::kStep, .lane = kLane}, 2, absl::Milliseconds(17));
  EXPECT_EQ(queue_.Next()->expected, absl::Milliseconds(10));
  queue_.Update(1, Step({{2, 2}}));
  EXPECT_EQ(queue_.Next()->expected, absl::Milliseconds(17));
}

}  // namespace
}  // namespace latentd::batching
