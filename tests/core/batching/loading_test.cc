// Pictures whose graphs are being made ready: they are foreseen to begin then, and change nothing
// for others until then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/base/errors/error_details.h"
#include "core/batching/predict/forecast.h"
#include "tests/core/batching/admission_rig.h"

namespace latentd::batching {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Lane kOtherModel{.network = 1, .width = 64, .height = 64};

// A step takes a second for each row.
class LoadingForecastTest : public ::testing::TestWithParam<Sharing> {
 protected:
  LoadingForecastTest() {
    for (const Lane& lane : {kLane, kOtherModel}) {
      costs_.Measure(UnitKind::kStep, lane, 1, absl::Seconds(1));
    }
  }

  static ForecastPicture Picture(const Lane& lane, int steps, absl::Duration ready_in = {}) {
    return {
        .ahead = {.stages = {{{.lane = lane, .runs = {{steps}}}}}, .after = {UnitKind::kDecode}},
        .lane_rows = 4,
        .ready_in = ready_in};
  }
  std::vector<Outlook> Play(const std::vector<ForecastPicture>& pictures) const {
    return Foresee(pictures, GetParam(), costs_);
  }
  static double SecondsOf(absl::Duration time) { return absl::ToDoubleSeconds(time); }

  Costs costs_;
};

TEST_P(LoadingForecastTest, AloneBeginsWhenItIsReady) {
  const Outlook outlook = Play({Picture(kLane, 5, absl::Seconds(7))})[0];
  EXPECT_TRUE(outlook.known);
  EXPECT_EQ(outlook.begins, absl::Seconds(7));
  EXPECT_EQ(outlook.ends, absl::Seconds(12));
}

TEST_P(LoadingForecastTest, OthersDrawMeanwhileWhicheverIsFirst) {
  for (const Lane& lane : {kLane, kOtherModel}) {
    const ForecastPicture loading = Picture(lane, 5, absl::Seconds(7)), ready = Picture(kLane, 4);
    for (const bool first : {true, false}) {
      const auto outlooks = first ? Play({loading, ready}) : Play({ready, loading});
      EXPECT_NEAR(SecondsOf(outlooks[first ? 1 : 0].ends), 4, 1e-6);
      EXPECT_NEAR(SecondsOf(outlooks[first ? 0 : 1].begins), 7, 1e-6);
      EXPECT_NEAR(SecondsOf(outlooks[first ? 0 : 1].ends), 12, 1e-6);
    }
  }
}

TEST_P(LoadingForecastTest, NoRowsAreKeptForItBefore) {
  ForecastPicture loading = Picture(kLane, 5, absl::Seconds(7));
  loading.ahead.stages[0].runs = {{5, 4}};  // all of its lane
  const auto outlooks = Play({loading, Picture(kLane, 2), Picture(kLane, 2)});
  EXPECT_NEAR(SecondsOf(outlooks[1].ends), 4, 1e-6);
  EXPECT_NEAR(SecondsOf(outlooks[2].ends), 4, 1e-6);
}

TEST_P(LoadingForecastTest, NotKnownWhenItIsLeftOut) {
  const auto outlooks = Play({Picture(kLane, 5, absl::InfiniteDuration()), Picture(kLane, 4)});
  EXPECT_FALSE(outlooks[0].known);
  EXPECT_TRUE(outlooks[1].known);
  EXPECT_NEAR(SecondsOf(outlooks[1].ends), 4, 1e-6);
}

// Mixtures of all kinds: who is through before the first is ready is through as if it were not
// there; none begins before it is ready; and the device does as much work as there is.
TEST_P(LoadingForecastTest, ChangesNothingUntilItIsReady) {
  std::mt19937 random(29);
  const auto below = [&](int limit) { return static_cast<int>(random() % limit); };
  for (int round = 0; round < 200; ++round) {
    std::vector<ForecastPicture> all, ready;
    std::vector<size_t> places;  // in `all`, of those that are ready
    absl::Duration first = absl::InfiniteDuration(), work, last;
    for (int i = 0; i < 6; ++i) {
      const absl::Duration in = below(2) == 0 ? absl::Seconds(1 + below(20)) : absl::ZeroDuration();
      all.push_back(Picture(below(2) == 0 ? kLane : kOtherModel, 1 + below(9), in));
      work += absl::Seconds(1) * all.back().ahead.stages[0].evaluations();
      last = std::max(last, in);
      if (in > absl::ZeroDuration()) {
        first = std::min(first, in);
      } else {
        places.push_back(all.size() - 1);
        ready.push_back(all.back());
      }
    }
    const std::vector<Outlook> with = Play(all), without = Play(ready);
    for (size_t i = 0; i < ready.size(); ++i) {
      if (without[i].ends > first) continue;
      EXPECT_NEAR(SecondsOf(with[places[i]].ends), SecondsOf(without[i].ends), 1e-3) << round;
    }
    absl::Duration end;
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_GE(with[i].begins, all[i].ready_in) << round;
      EXPECT_GE(SecondsOf(with[i].ends - with[i].begins),
                all[i].ahead.stages[0].evaluations() - 1e-3);
      end = std::max(end, with[i].ends);
    }
    EXPECT_GE(SecondsOf(end), SecondsOf(work) - 1e-3) << round;
    EXPECT_LE(SecondsOf(end), SecondsOf(work + last) + 1e-3) << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, LoadingForecastTest,
                         ::testing::Values(Sharing::kInTurns, Sharing::kNonePasses,
                                           Sharing::kByDeadline));

// Requests of another model, whose graphs are loaded.
class LoadingTest : public AdmissionRig {
 protected:
  LoadingTest() {
    Learn();
    const Unit step{.kind = UnitKind::kStep, .lane = kOtherModel, .pictures = {0}};
    for (int i = 0; i < 4; ++i) queue_.Measure(step, 1, absl::Seconds(1));
  }

  static Need NeedOf(int steps, UnitKind kind, absl::Time ready) {
    return {.kind = kind,
            .lane = kOtherModel,
            .lane_rows = 1,
            .ahead = {.stages = {{{kOtherModel, true, {{steps}}}}}, .after = {UnitKind::kDecode}},
            .ready = ready};
  }
  absl::StatusOr<Prospect> AskCold(Queue& queue, int steps, absl::Duration loads,
                                   absl::Duration deadline = absl::InfiniteDuration(),
                                   const std::string& caller = "cold") {
    last_ = next_id_++;
    return queue.Admit({.pictures = {last_},
                        .need = NeedOf(steps, UnitKind::kWait, clock_.Monotonic() + loads),
                        .caller = caller,
                        .deadline = clock_.Monotonic() + deadline});
  }
  // As it is foreseen now.
  Outlook OutlookOf(PictureId picture) const {
    for (const auto& [waiting, prospect] : queue_.Waiting()) {
      if (waiting == picture) return prospect.outlook;
    }
    ADD_FAILURE() << picture << " does not wait";
    return {};
  }
};

TEST_F(LoadingTest, IsToldLoadingQueueAndDrawing) {
  Admit({.steps = 10});
  const Prospect prospect = AskCold(queue_, 5, absl::Seconds(4)).value();
  EXPECT_TRUE(prospect.outlook.known);
  // 4 of the 10 steps run meanwhile; then both take turns.
  EXPECT_EQ(prospect.outlook.begins, absl::Seconds(4));
  EXPECT_EQ(prospect.outlook.ends, absl::Seconds(4 + 10));
}

TEST_F(LoadingTest, ItsForecastShrinksWhileItIsLoaded) {
  EXPECT_OK(AskCold(queue_, 5, absl::Seconds(10)));
  EXPECT_EQ(OutlookOf(last_).ends, absl::Seconds(15));
  for (int i = 1; i <= 10; ++i) {
    clock_.Advance(absl::Seconds(1));
    EXPECT_EQ(OutlookOf(last_).begins, absl::Seconds(10 - i));
    EXPECT_EQ(OutlookOf(last_).ends, absl::Seconds(15 - i));
  }
  clock_.Advance(absl::Seconds(1));  // later than foreseen: any moment
  EXPECT_EQ(OutlookOf(last_).begins, absl::ZeroDuration());
  EXPECT_EQ(queue_.Next(), std::nullopt);
}

TEST_F(LoadingTest, ANewForecastIsNewsAndIsTold) {
  EXPECT_OK(AskCold(queue_, 5, absl::Seconds(10)));
  const uint64_t changes = queue_.changes();
  queue_.Update(last_, NeedOf(5, UnitKind::kWait, clock_.Monotonic() + absl::Seconds(30)));
  EXPECT_GT(queue_.changes(), changes);
  EXPECT_EQ(OutlookOf(last_).ends, absl::Seconds(35));
  queue_.Update(last_, NeedOf(5, UnitKind::kText, absl::InfinitePast()));
  EXPECT_EQ(OutlookOf(last_).ends, absl::Seconds(5));
  EXPECT_EQ(queue_.Next()->pictures.front(), last_);
}

TEST_F(LoadingTest, IsRefusedByADeadlineThatLoadingLeavesTooLittleOf) {
  const absl::Status late = AskCold(queue_, 5, absl::Seconds(10), absl::Seconds(16)).status();
  EXPECT_EQ(GetReason(late), "PREDICTED_OVERRUN");
  EXPECT_THAT(std::string(late.message()),
              HasSubstr("takes up to 16.5 s (10.0 s until its model is loaded)"));
  EXPECT_EQ(GetRetryDelay(late), std::nullopt);
  EXPECT_OK(AskCold(queue_, 5, absl::Seconds(10), absl::Seconds(17)));
}

TEST_F(LoadingTest, IsToldToComeBackWhereTheQueueIsWhatMakesItLate) {
  Admit({.steps = 20});
  const absl::Status late = AskCold(queue_, 5, absl::Seconds(4), absl::Seconds(8)).status();
  EXPECT_EQ(GetReason(late), "PREDICTED_OVERRUN");
  EXPECT_THAT(std::string(late.message()), HasSubstr("nothing else to do"));
  const absl::Status later = AskCold(queue_, 5, absl::Seconds(4), absl::Seconds(11)).status();
  EXPECT_THAT(std::string(later.message()), HasSubstr("with what is in the queue"));
  EXPECT_NE(GetRetryDelay(later), std::nullopt);
}

// It has an hour to load, and others have seconds.
TEST_F(LoadingTest, MakesNobodyLateWhileItIsLoaded) {
  EXPECT_OK(AskCold(queue_, 500, absl::Hours(1), absl::Hours(3)));
  EXPECT_OK(Ask({.steps = 10, .deadline = absl::Seconds(12)}));
  EXPECT_EQ(OutlookOf(last_).ends, absl::Seconds(10));
  EXPECT_EQ(queue_.Next()->pictures.front(), last_);
  EXPECT_EQ(GetReason(Ask({.steps = 10, .deadline = absl::Seconds(12)}).status()),
            "PREDICTED_OVERRUN");  // for the one that draws
}

// And is not admitted where it would, once it is ready.
TEST_F(LoadingTest, IsRefusedWhereItWouldMakeOthersLate) {
  Admit({.steps = 10, .deadline = absl::Seconds(13)});
  EXPECT_OK(AskCold(queue_, 100, absl::Seconds(11)));
  queue_.Remove(last_);
  EXPECT_EQ(GetReason(AskCold(queue_, 8, absl::Seconds(5), absl::Seconds(15)).status()),
            "PREDICTED_OVERRUN");
}

TEST_F(LoadingTest, OfUnknownLengthIsAdmittedAndNotForeseen) {
  const Prospect prospect = AskCold(queue_, 5, absl::InfiniteDuration(), absl::Seconds(1)).value();
  EXPECT_FALSE(prospect.outlook.known);
  EXPECT_EQ(prospect.position, 0);
  ASSERT_OK_AND_ASSIGN(const Prospect other, Ask({.steps = 10, .deadline = absl::Seconds(12)}));
  EXPECT_EQ(other.position, 0);  // before the one of which it is not known
}

// No client would ever have a model that takes longer to load than requests may wait for others.
TEST_F(LoadingTest, IsNotWaitingForOthers) {
  Queue queue({.pictures = 8, .wait = absl::Seconds(6)}, clock_);
  LearnIn(queue);
  EXPECT_OK(AskCold(queue, 5, absl::Seconds(30)));
  EXPECT_OK(AskOf(queue, {.steps = 10}));
  EXPECT_OK(AskCold(queue, 5, absl::Seconds(30)));
}

// Nor the device's time: a caller that has a half of that may load for longer.
TEST_F(LoadingTest, IsNotTimeOfTheCallersPart) {
  Admit({.steps = 1, .deadline = absl::Seconds(100), .caller = "a"});
  EXPECT_OK(AskCold(queue_, 2, absl::Seconds(20), absl::Seconds(30), "b"));
  EXPECT_OK(AskCold(queue_, 2, absl::Seconds(20), absl::Seconds(30), "b"));
}

// A long one that is loading is nothing that a short one could pass.
TEST_F(LoadingTest, HoldsUpNobodyThatItsWorkWouldLetPass) {
  EXPECT_OK(AskCold(queue_, 500, absl::Seconds(60)));
  Admit({.steps = 2});
  const Unit unit = queue_.Next().value();
  EXPECT_EQ(unit.pictures.front(), last_);
  EXPECT_TRUE(unit.in_turn);
  EXPECT_FALSE(unit.passes);
}

}  // namespace
}  // namespace latentd::batching
