#include "core/engine/models/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "tests/support/status_matchers.h"

namespace latentd::engine {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kPlenty = int64_t{1} << 40;

class MemoryBudgetTest : public ::testing::Test {
 protected:
  MemoryBudgetTest() {
    budget_.Open({.bytes = 1000,
                  .configured = {{"base", {64, 64}}},
                  .state_bytes = [](pipeline::Size, int rows) { return 10 * rows; }});
    report_.weight_bytes = 500;
    report_.arena_bytes = 100;
  }
  absl::Status Check(const backends::MemoryNeeds& needs, int64_t available = kPlenty) {
    return budget_.Check(step_, needs, held_, report_, available);
  }

  const compiler::GraphLabel step_ = {
      .model = "base", .component = "unet", .part = "step", .width = 64, .height = 64, .rows = 2};
  const std::vector<weights::WeightInfo> held_ = {{.key = "x", .bytes = 500}};
  MemoryReport report_;
  MemoryBudget budget_;
};

TEST_F(MemoryBudgetTest, CountsOnlyWhatIsNotHeldYet) {
  EXPECT_OK(
      Check({.arena_bytes = 300, .weights = {{"x", 500}, {"y", 150}}}));  // 600 + 200 + 150 + 20
  EXPECT_OK(Check({.arena_bytes = 90, .executable_bytes = 380, .weights = {{"x", 500}}}));
}

// Graphs that decode a chunk, or encode, have fewer frames than their bucket.
TEST_F(MemoryBudgetTest, ForeseesWhatBucketsOfVideosNeed) {
  MemoryBudget budget;
  budget.Open({.bytes = 1000,
               .configured = {{"video", {64, 64, 5}}},
               .state_bytes = [](pipeline::Size size, int rows) { return size.frames * rows; }});
  const auto add = [&](int frames, size_t arena, const char* model = "video") {
    compiler::GraphLabel label = step_;
    label.model = model;
    label.frames = frames;
    EXPECT_OK(budget.Check(label, {.arena_bytes = arena}, held_, report_, kPlenty));
  };
  add(2, 70);
  EXPECT_EQ(budget.predicted().arena, 70);
  EXPECT_EQ(budget.predicted().state, 4);
  add(6, 80);
  EXPECT_EQ(budget.predicted().arena, 70);
  add(1, 90, "base");  // pictures of its sides are no bucket
  EXPECT_EQ(budget.predicted().arena, 70);
  add(1, 75);  // the last chunk, or the image
  EXPECT_EQ(budget.predicted().arena, 75);
}

TEST_F(MemoryBudgetTest, RefusesWhatDoesNotFitAndSaysHowMuchIsMissing) {
  const absl::Status refused = Check({.arena_bytes = 90, .executable_bytes = 381});
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("needs 401 bytes more")));
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("600 of 1000 are held")));
  EXPECT_EQ(GetReason(refused), "OUT_OF_MEMORY");
  EXPECT_THAT(GetFacts(refused),
              ElementsAre(ErrorFact{"needed_bytes", "401"}, ErrorFact{"available_bytes", "400"}));
}

// 600 of 1000 are held, a picture takes 20, and 125 stay free for lanes.
TEST_F(MemoryBudgetTest, SparesWhatIsLeftBesideAGraphAndAnEighth) {
  const auto spare = [&](const backends::MemoryNeeds& needs, int64_t available = kPlenty) {
    return budget_.SpareBeside(step_, needs, {}, report_, available);
  };
  EXPECT_EQ(spare({}), 255);
  EXPECT_EQ(spare({.arena_bytes = 110, .executable_bytes = 20, .weights = {{"x", 30}}}), 195);
  EXPECT_EQ(spare({.weights = {{"x", 30}}, .making = {{"x", 40}}}), 185);
  EXPECT_EQ(spare({.executable_bytes = 300}), -45);
  EXPECT_EQ(spare({}, MemoryBudget::kReserve + 200), 55);
  EXPECT_EQ(spare({}, MemoryBudget::kReserve + 100), -45);
  report_.kept_tensor_bytes = 100;
  EXPECT_EQ(spare({}), 155);
  EXPECT_EQ(MemoryBudget().SpareBeside(step_, {}, {}, report_, kPlenty), 0);
}

TEST_F(MemoryBudgetTest, SparesNothingForWeightsThatAreHeld) {
  const backends::MemoryNeeds needs = {.weights = {{"x", 500}, {"y", 30}},
                                       .making = {{"x", 400}, {"y", 20}}};
  EXPECT_EQ(budget_.SpareBeside(step_, needs, {}, report_, kPlenty), 255 - 930);
  EXPECT_EQ(budget_.SpareBeside(step_, needs, held_, report_, kPlenty), 255 - 50);
}

// Weights are made one at a time: the one that takes most beside its result decides.
TEST_F(MemoryBudgetTest, CountsWhatMakingAWeightTakesForAMoment) {
  // 600 + 20 + 200 of weights.
  const auto check = [&](size_t most) {
    return Check({.weights = {{"y", 150}, {"z", 50}}, .making = {{"y", 100}, {"z", most}}});
  };
  EXPECT_OK(check(180));
  EXPECT_THAT(check(181), StatusIs(absl::StatusCode::kResourceExhausted,
                                   HasSubstr("(200 of weights, 181 while they are made")));
  // Nothing is made of what is held.
  EXPECT_OK(Check({.weights = {{"x", 500}}, .making = {{"x", 500}}}));
  constexpr int64_t kLeft = MemoryBudget::kReserve + 300;
  EXPECT_OK(Check({.weights = {{"y", 200}}, .making = {{"y", 80}}}, kLeft));
  EXPECT_THAT(Check({.weights = {{"y", 200}}, .making = {{"y", 81}}}, kLeft),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the machine has")));
}

TEST_F(MemoryBudgetTest, CountsArtifactsInMemory) {
  report_.artifact_bytes = 80;
  EXPECT_OK(Check({.executable_bytes = 300}));
  EXPECT_THAT(Check({.executable_bytes = 301}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("680 of 1000 are held")));
}

TEST_F(MemoryBudgetTest, RefusesWhatTheMachineDoesNotHaveAnyMore) {
  constexpr int64_t kLeft = MemoryBudget::kReserve + 50;
  EXPECT_OK(Check({.executable_bytes = 30}, kLeft));
  const absl::Status refused = Check({.executable_bytes = 31}, kLeft);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr(absl::StrCat("has ", kLeft, " left, of which"))));
  EXPECT_THAT(GetFacts(refused),
              ElementsAre(ErrorFact{"needed_bytes", "51"}, ErrorFact{"available_bytes", "50"}));
}

TEST_F(MemoryBudgetTest, PredictsWhatTheConfiguredBucketsHoldTogether) {
  EXPECT_OK(Check({.arena_bytes = 300, .executable_bytes = 1, .weights = {{"x", 500}}}));
  EXPECT_OK(Check({.arena_bytes = 300, .executable_bytes = 1, .weights = {{"x", 500}}}));
  EXPECT_OK(budget_.Check({.component = "text_encoder"}, {.executable_bytes = 2}, held_, report_,
                          kPlenty));
  EXPECT_OK(budget_.Check({.component = "vae_decoder", .width = 8, .height = 8},
                          {.executable_bytes = 50}, held_, report_, kPlenty));
  EXPECT_EQ(budget_.predicted().weights, 500);
  EXPECT_EQ(budget_.predicted().arena, 300);
  EXPECT_EQ(budget_.predicted().executables, 3);
  EXPECT_EQ(budget_.predicted().state, 20);
}

// The server goes on without the others.
TEST_F(MemoryBudgetTest, PredictsOfStepsThatPicturesShareThoseThatFit) {
  const auto check = [&](int rows, size_t bytes) {
    compiler::GraphLabel label = step_;
    label.rows = rows;
    return budget_.Check(label, {.executable_bytes = bytes}, held_, report_, kPlenty);
  };
  EXPECT_OK(check(4, 100));
  EXPECT_FALSE(check(8, 500).ok());
  EXPECT_EQ(budget_.predicted().executables, 100);
  EXPECT_EQ(budget_.predicted().state, 40);
  EXPECT_FALSE(check(2, 500).ok());
  EXPECT_EQ(budget_.predicted().executables, 600);
}

TEST_F(MemoryBudgetTest, PredictsOfPreviewsThoseThatFit) {
  const compiler::GraphLabel tiny_vae{.component = "vae_tiny", .width = 64, .height = 64};
  EXPECT_FALSE(budget_.Check(tiny_vae, {.executable_bytes = 900}, held_, report_, kPlenty).ok());
  EXPECT_EQ(budget_.predicted().total(), 0);
  EXPECT_OK(budget_.Check(tiny_vae, {.executable_bytes = 100}, held_, report_, kPlenty));
  EXPECT_EQ(budget_.predicted().executables, 100);
}

// Beside the lanes that are there; and it is no graph of the buckets'.
TEST_F(MemoryBudgetTest, AsksOfALaneAllThatItTakes) {
  report_.state_bytes = 300;
  EXPECT_OK(budget_.CheckLane(step_, 100, report_, kPlenty));
  EXPECT_THAT(budget_.CheckLane(step_, 101, report_, kPlenty),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("900 of 1000 are held")));
  EXPECT_THAT(budget_.CheckLane(step_, 100, report_, MemoryBudget::kReserve + 99),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the machine has")));
  EXPECT_EQ(budget_.predicted().total(), 0);
}

TEST_F(MemoryBudgetTest, CountsDefinitionsOfGraphsAndImagesThatWait) {
  EXPECT_OK(Check({.arena_bytes = 90, .executable_bytes = 380}));
  report_.definition_bytes = 1;
  EXPECT_FALSE(Check({.arena_bytes = 90, .executable_bytes = 380}).ok());
  report_.definition_bytes = 0;
  report_.waiting_image_bytes = 1;
  EXPECT_FALSE(Check({.arena_bytes = 90, .executable_bytes = 380}).ok());
}

TEST(MemoryBudgetBytesTest, LeavesRoomForWhatNothingCounts) {
  constexpr int64_t kLeft = MemoryBudget::kReserve + 1000;
  EXPECT_EQ(MemoryBudget::BytesOf(/*configured=*/0, kLeft), 1000);
  EXPECT_EQ(MemoryBudget::BytesOf(999, kLeft), 999);
  EXPECT_EQ(MemoryBudget::BytesOf(1001, kLeft), 1000);
  EXPECT_EQ(MemoryBudget::BytesOf(0, 1000), 0);
}

TEST(ClosedMemoryBudgetTest, TakesEverything) {
  MemoryBudget budget;
  EXPECT_OK(budget.Check({}, {.executable_bytes = 1 << 30}, {}, {}, 0));
  EXPECT_OK(budget.CheckLane({}, 1 << 30, {}, 0));
}

TEST(MemoryTallyTest, CountsSharedWeightsAndTheArenaOnce) {
  MemoryTally tally;
  tally.Add("a", {.arena_bytes = 100, .executable_bytes = 7, .weights = {{"x", 10}, {"y", 20}}});
  tally.Add("b", {.arena_bytes = 300, .executable_bytes = 5, .weights = {{"y", 20}, {"z", 30}}});
  tally.AddState(4);
  tally.AddState(2);
  EXPECT_EQ(tally.prediction().weights, 60);
  EXPECT_EQ(tally.prediction().arena, 300);
  EXPECT_EQ(tally.prediction().executables, 12);
  EXPECT_EQ(tally.prediction().state, 4);
  EXPECT_EQ(tally.prediction().total(), 376);
}

TEST(MemoryTallyTest, UsersOfOneGraphShareItsExecutableIfTheirWeightsAreEqual) {
  MemoryTally tally;
  tally.Add("a", {.executable_bytes = 7, .weights = {{"x", 10}}});
  tally.Add("a", {.executable_bytes = 7, .weights = {{"x", 10}}});
  EXPECT_EQ(tally.prediction().executables, 7);
  tally.Add("a", {.executable_bytes = 7, .weights = {{"y", 10}}});
  EXPECT_EQ(tally.prediction().executables, 14);
}

}  // namespace
}  // namespace latentd::engine
