// Steps of more rows than there is memory to evaluate: pictures take turns, and are what they are
// alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/pipeline/step_lane_rig.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::_;

class StepLaneMemoryTest : public StepLaneTest {
 protected:
  struct Member {
    PictureSpec spec;
    std::unique_ptr<Picture> picture;
    std::optional<LanePlace> place = {};
    size_t evaluations = 0;
  };

  static absl::Status NoMemory() { return absl::ResourceExhaustedError("no memory"); }

  // Refuses to enqueue steps of that many rows or more.
  Refuse RefuseFrom(int rows) {
    return [this, rows](int of, Refused what) {
      if (what != Refused::kEnqueue || of < rows) return absl::OkStatus();
      ++refused_;
      return NoMemory();
    };
  }

  // With noise of each step.
  static PictureSpec Ancestral(const std::string& prompt, uint64_t seed) {
    PictureSpec spec = Spec(prompt, /*steps=*/3 + static_cast<int>(seed % 2), seed);
    spec.scheduler.name = "euler_ancestral";
    return spec;
  }
  static Member Make(PictureSpec spec) {
    auto picture = Begin(spec);
    return {std::move(spec), std::move(picture)};
  }
  static std::vector<Member> Unguided(int count) {
    std::vector<Member> members;
    for (int i = 0; i < count; ++i) {
      members.push_back(Make(WithGuidance(Ancestral("a black square", i), 1)));
    }
    return members;
  }
  void JoinAll(StepLane& lane, std::vector<Member>& members) {
    for (Member& member : members) member.place.emplace(Join(lane, *member.picture));
  }

  // Until all have left, each with what it is alone: the rows that each step computed.
  std::vector<int> StepAll(StepLane& lane, std::vector<Member>& members) {
    std::vector<int> computed;
    const auto draws = [](const Member& member) {
      return member.picture->stage().schedule().steps[member.evaluations].draws_noise;
    };
    while (lane.rows_taken() > 0) {
      std::vector<StepLane::Draw> wanted;
      for (Member& member : members) {
        if (member.place && draws(member))
          wanted.push_back({&*member.place, &member.picture->generator});
      }
      EXPECT_OK(lane.DrawNoise(wanted, *stream_));
      const auto step = lane.Step(*stream_, {});
      EXPECT_OK(step);
      EXPECT_OK(step->status);
      computed.push_back(step->computed_rows);
      if (step->too_many_rows > 0) warned_.push_back(step->too_many_rows);
      for (Member& member : members) {
        if (!member.place || lane.Rests(*member.place)) continue;
        if (++member.evaluations < member.picture->stage().schedule().steps.size()) continue;
        EXPECT_EQ(Leave(*std::exchange(member.place, std::nullopt)), rig_->Latents(member.spec));
      }
    }
    return computed;
  }

  int refused_ = 0;
  std::vector<int> warned_;
};

TEST_F(StepLaneMemoryTest, PicturesTakeTurnsInHalfTheRowsAndAreWhatTheyAreAlone) {
  const auto lane = Lane({1, 2, 4}, RefuseFrom(4));
  std::vector<Member> members = Unguided(4);
  JoinAll(*lane, members);
  const std::vector<int> computed = StepAll(*lane, members);
  EXPECT_EQ(*std::max_element(computed.begin(), computed.end()), 2);
  EXPECT_EQ(refused_, 1);
  EXPECT_EQ(warned_, std::vector<int>{4});
}

// The lane is full, and two that could step have the guided one's rows between them.
TEST_F(StepLaneMemoryTest, WhoRestsMakesWayForWhoSteps) {
  const auto lane = Lane({1, 2, 4}, RefuseFrom(4));
  std::vector<Member> members = Unguided(1);
  members.push_back(Make(Ancestral("a red circle", 9)));
  members.push_back(Make(WithGuidance(Ancestral("a black square", 1), 1)));
  JoinAll(*lane, members);
  EXPECT_EQ(lane->rows_taken(), 4);
  const std::vector<int> computed = StepAll(*lane, members);
  EXPECT_EQ(*std::max_element(computed.begin(), computed.end()), 2);
}

TEST_F(StepLaneMemoryTest, OnePictureFailsThatCannotDoWithFewerRowsAndTheOthersGoOn) {
  int least = 1;
  const auto lane = Lane({1, 2, 4}, [&](int rows, Refused what) {
    return what == Refused::kEnqueue && rows >= least ? NoMemory() : absl::OkStatus();
  });
  std::vector<Member> members = Unguided(4);
  JoinAll(*lane, members);
  ASSERT_OK_AND_ASSIGN(const StepLane::Evaluation step, lane->Step(*stream_, {}));
  EXPECT_THAT(step.status, StatusIs(absl::StatusCode::kResourceExhausted, _));
  EXPECT_EQ(step.computed_rows, 0);
  EXPECT_EQ(step.rows, 1);
  std::vector<Member> others;
  for (Member& member : members) {
    if (lane->Rests(*member.place)) others.push_back(std::move(member));
  }
  ASSERT_EQ(others.size(), 3u);
  members.clear();
  least = 4;
  StepAll(*lane, others);
}

TEST_F(StepLaneMemoryTest, TriesMoreRowsAgainWhenSomeStepsAreDone) {
  int refusals = 1;
  const auto lane = Lane({1, 2}, [&](int rows, Refused what) {
    return what == Refused::kEnqueue && rows == 2 && refusals-- > 0 ? NoMemory() : absl::OkStatus();
  });
  std::vector<Member> members = Unguided(2);
  JoinAll(*lane, members);
  EXPECT_EQ(lane->capacity(), 2);
  Step(*lane, 1, /*computed_rows=*/1);
  EXPECT_EQ(lane->capacity(), 1);
  int steps = 1;
  for (; lane->capacity() == 1; ++steps) Step(*lane, 1, 1);
  EXPECT_GT(steps, 10);
  Step(*lane, 1, 2);
}

// Its text is encoded, and it waits.
TEST_F(StepLaneMemoryTest, NobodyJoinsBeyondWhatThereIsMemoryToBind) {
  const auto lane = Lane({1, 2, 4}, [&](int rows, Refused what) {
    return what == Refused::kBind && rows == 4 ? NoMemory() : absl::OkStatus();
  });
  std::vector<Member> members = Unguided(3);
  for (size_t i : {0, 1}) members[i].place.emplace(Join(*lane, *members[i].picture));
  ASSERT_OK_AND_ASSIGN(auto place, lane->Join(RowsOf(*members[2].picture), *stream_));
  EXPECT_FALSE(place.has_value());
  EXPECT_EQ(lane->rows_taken(), 2);
  EXPECT_EQ(lane->capacity(), 2);
  members[0].place.reset();
  members[2].place.emplace(Join(*lane, *members[2].picture));
  StepAll(*lane, members);
  EXPECT_EQ(lane->capacity(), 4);  // it is empty
}

// Else a step would fail for them that could have been a full one.
TEST_F(StepLaneMemoryTest, NobodyJoinsBeyondWhatThereIsMemoryToBindForShallowSteps) {
  const auto full = StepsOf({1, 2, 4}, /*refuse=*/nullptr, DeepFeatures::kGiven);
  const Refuse refuse = [this](int rows, Refused what) {
    if (what != Refused::kBind || rows < 4) return absl::OkStatus();
    ++refused_;
    return NoMemory();
  };
  const auto lane = StepLane::Create(*full.begin()->second, /*rows=*/4).value();
  lane->Add(full, StepsOf({1, 2, 4}, refuse, DeepFeatures::kRead));
  std::vector<Member> members = Unguided(3);
  for (size_t i : {0, 1}) members[i].place.emplace(Join(*lane, *members[i].picture));
  EXPECT_EQ(refused_, 0);
  ASSERT_OK_AND_ASSIGN(const auto place, lane->Join(RowsOf(*members[2].picture), *stream_));
  EXPECT_FALSE(place.has_value());
  EXPECT_EQ(refused_, 1);
  EXPECT_EQ(lane->capacity(), 2);
  const StepLane::Members both = {&*members[0].place, &*members[1].place};
  for (const Depth depth : {Depth::kFull, Depth::kShallow, Depth::kFull}) {
    ASSERT_OK_AND_ASSIGN(const StepLane::Evaluation step,
                         lane->Step(*stream_, both, /*split=*/nullptr, depth));
    EXPECT_OK(step.status);
    EXPECT_EQ(step.computed_rows, 2);
  }
  EXPECT_EQ(refused_, 1);
}

// Both have the rows that were kept for them, and there is memory for those of one.
TEST_F(StepLaneMemoryTest, PicturesThatTakeMoreRowsTakeTurnsWhereThereIsNoMemoryToBindAll) {
  const auto lane = Lane({1, 2, 4}, [&](int rows, Refused what) {
    return what == Refused::kBind && rows == 4 ? NoMemory() : absl::OkStatus();
  });
  std::vector<Member> members;
  for (uint64_t seed : {1, 2}) members.push_back(Make(Ancestral("a red circle", seed)));
  for (Member& member : members) {
    LaneRows rows = RowsOf(*member.picture);
    rows.rows = 1;
    rows.most_rows = 2;
    member.place.emplace(lane->Join(rows, *stream_).value().value());
  }
  Step(*lane, 1, /*computed_rows=*/2);
  for (const Member& member : members) {
    EXPECT_OK(lane->SetRows(*member.place, RowsOf(*member.picture), *stream_));
  }
  EXPECT_EQ(lane->rows_taken(), 4);
  Step(*lane, 1, /*computed_rows=*/2);
  EXPECT_NE(lane->Rests(*members[0].place), lane->Rests(*members[1].place));
}

TEST_F(StepLaneMemoryTest, APictureFailsThatThereIsNoMemoryToBindAlone) {
  const auto lane = Lane({1, 2}, [](int, Refused what) {
    return what == Refused::kBind ? NoMemory() : absl::OkStatus();
  });
  const Member member = Make(Ancestral("a red circle", 9));
  EXPECT_THAT(lane->Join(RowsOf(*member.picture), *stream_),
              StatusIs(absl::StatusCode::kResourceExhausted, _));
  EXPECT_EQ(lane->rows_taken(), 0);
}

}  // namespace
}  // namespace latentd::pipeline
