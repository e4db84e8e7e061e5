// Short requests beside long ones, without deadlines.
#include "core/batching/predict/passing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/core/batching/played_device.h"

namespace latentd::batching {
namespace {

constexpr Lane kLane{.width = 512, .height = 512};

Ahead AheadOf(int steps, int rows) {
  return {.stages = {{{.lane = kLane, .runs = {{steps, rows}}}}}};
}

TEST(WorkTest, IsWhatStepsComputeAndALittleMore) {
  EXPECT_EQ(WorkOf(AheadOf(10, 2)) / WorkOf(AheadOf(0, 2)), 11);
  EXPECT_EQ(WorkOf(AheadOf(10, 1)) / WorkOf(AheadOf(0, 1)), 6);
  Ahead narrow = AheadOf(0, 2);
  narrow.stages[0].runs = {{3, 1}, {6, 2}, {1, 1}};
  EXPECT_EQ(WorkOf(narrow) / WorkOf(AheadOf(0, 2)), 9);
  Ahead refined = AheadOf(10, 2);
  refined.stages[1] = {.lane = {.network = 1, .width = 512, .height = 512}, .runs = {{4, 2}}};
  EXPECT_EQ(WorkOf(refined) / WorkOf(AheadOf(0, 2)), 15);
  EXPECT_EQ(WorkOf(Ahead()), 0);
}

TEST(WorkTest, OfAVideoIsThatOfAllItsFrames) {
  Ahead video = AheadOf(10, 2);
  video.stages[0].lane.frames = 25;
  EXPECT_EQ(WorkOf(video) / WorkOf(AheadOf(10, 2)), 25);
}

TEST(WhoPassesTest, IsWhoAsksForLeast) {
  EXPECT_EQ(WhoPasses({}), std::nullopt);
  EXPECT_EQ(WhoPasses({{{100, true, true}, {4, false, true}, {30, false, true}}}), 1);
  EXPECT_EQ(WhoPasses({{{100, true, true}, {4, false, false}, {30, false, true}}}), 2);
  EXPECT_EQ(WhoPasses({{{100, true, true}, {0, false, true}}}), std::nullopt);
}

TEST(WhoPassesTest, IsNobodyWhereAllAskForAboutTheSame) {
  EXPECT_EQ(WhoPasses({{{100, true, true}, {100, false, true}}}), std::nullopt);
  EXPECT_EQ(WhoPasses({{{100, true, true}, {60, false, true}}}), std::nullopt);
  EXPECT_EQ(WhoPasses({{{100, true, true}, {50, false, true}}}), 1);
}

TEST(WhoPassesTest, OfAboutTheSameIsTheFirst) {
  EXPECT_EQ(WhoPasses({{{100, true, true}, {20, true, true}, {17, false, true}}}), 1);
}

TEST(WhoPassesTest, IsNobodyWhoseTurnIsNextAnyway) {
  EXPECT_EQ(WhoPasses({{{4, true, true}, {100, false, true}}}), std::nullopt);
  EXPECT_EQ(WhoPasses({{{4, true, true}, {100, true, true}}}), 0);
  EXPECT_EQ(WhoPasses({{{100, false, true}, {4, false, true}}}), 1);
}

// Four rows of which each takes as long as one alone; or all as long as one.
TEST(TakenAlongTest, AreThoseWhoDoNotHoldItUp) {
  Costs costs;
  for (int rows : {1, 2, 4}) {
    costs.Measure(UnitKind::kStep, kLane, rows, absl::Milliseconds(10 * rows));
  }
  const std::vector<int> rows = {1, 1, 1, 1};
  EXPECT_EQ(CountTakenAlong(kLane, rows, 4, costs), 1);
  Costs flat;
  flat.Measure(UnitKind::kStep, kLane, 1, absl::Milliseconds(10));
  flat.Measure(UnitKind::kStep, kLane, 2, absl::Milliseconds(10));
  flat.Measure(UnitKind::kStep, kLane, 4, absl::Milliseconds(14));
  EXPECT_EQ(CountTakenAlong(kLane, rows, 4, flat), 4);
  for (int i = 0; i < 40; ++i) {
    flat.Measure(UnitKind::kStep, kLane, 4, absl::Milliseconds(17));
  }
  EXPECT_EQ(CountTakenAlong(kLane, rows, 4, flat), 2);
}

// Two lanes whose steps take a second each: it has its part of the device. Not so where one takes
// ten.
TEST(HoldsUpTest, IsMoreThanAPictureAccountsFor) {
  const absl::Duration own = absl::Seconds(1);
  EXPECT_FALSE(HoldsUp(absl::Seconds(2), 1, own));
  EXPECT_TRUE(HoldsUp(absl::Seconds(3), 1, own));
  EXPECT_FALSE(HoldsUp(absl::Seconds(3), 2, own));
  EXPECT_TRUE(HoldsUp(absl::Seconds(10), 2, own));
}

TEST(GainsByCompanyTest, IsWhereRowsCostLessTogether) {
  Costs costs;
  costs.Measure(UnitKind::kStep, kLane, 2, absl::Milliseconds(10));
  costs.Measure(UnitKind::kStep, kLane, 16, absl::Milliseconds(70));
  EXPECT_FALSE(GainsByCompany(kLane, 2, 16, costs));
  EXPECT_TRUE(GainsByCompany(kLane, 1, 16, costs));
  for (int i = 0; i < 40; ++i) costs.Measure(UnitKind::kStep, kLane, 16, absl::Milliseconds(50));
  EXPECT_TRUE(GainsByCompany(kLane, 2, 16, costs));
}

TEST(PassingTimeTest, IsHalf) {
  PassingTime time;
  const absl::Duration unit = absl::Seconds(1);
  int passed = 0;
  for (int i = 0; i < 100; ++i) {
    const bool passes = time.Allows(unit, unit);
    passed += passes;
    time.Add(passes, unit);
  }
  EXPECT_EQ(passed, 50);
}

TEST(PassingTimeTest, MayBeARoundAhead) {
  PassingTime time;
  const absl::Duration unit = absl::Seconds(1), round = absl::Seconds(7);
  int passed = 0;
  for (; time.Allows(unit, round); ++passed) time.Add(true, unit);
  EXPECT_EQ(passed, 7);
  time.Add(false, round);
  EXPECT_TRUE(time.Allows(unit, round));
  time.Add(false, round);
  time.Forget();  // none passed meanwhile: that gives no right to more
  passed = 0;
  for (; time.Allows(unit, round); ++passed) time.Add(true, unit);
  EXPECT_EQ(passed, 7);
}

// How requests share a lane.
struct Beside {
  std::string name;
  PlayedDevice device;
  int rows = 2;
};
void PrintTo(const Beside& beside, std::ostream* out) { *out << beside.name; }

std::vector<Beside> Devices() {
  return {{"CPU, guided", PlayedCpu(), 2},
          {"CPU, unguided", PlayedCpu(), 1},
          {"GPU, guided", PlayedGpu(), 2},
          {"GPU, unguided", PlayedGpu(), 1}};
}

class ShortBesideLongTest : public ::testing::TestWithParam<Beside> {
 protected:
  struct Long {
    int requests = 1, pictures = 1;
    std::string caller = "a";
  };

  // Factor for the time alone: some of its steps would have cost less together with others.
  static constexpr double kShared = 1.3;

  // How many times as long as alone a request takes that comes after 7.03 s, and how much later the
  // last of the long ones ends for it.
  struct Slowdown {
    double times = 0;
    absl::Duration later;
  };
  Slowdown Run(int steps, const Long& long_ones) {
    const PlayedRequest brief{.at = absl::Milliseconds(7030), .steps = steps, .rows = rows()};
    std::vector<PlayedRequest> requests(
        long_ones.requests,
        {.steps = 100, .rows = rows(), .pictures = long_ones.pictures, .caller = long_ones.caller});
    const absl::Duration without = LastEnd(PlayedQueue(device()).Run(requests));
    requests.push_back(brief);
    PlayedQueue queue(device());
    std::vector<PlayedEnd> ends = queue.Run(requests);
    const absl::Duration took = ends.back().took;
    ends.pop_back();
    return {absl::FDivDuration(took, queue.Alone(brief)), LastEnd(ends) - without};
  }

  static absl::Duration LastEnd(const std::vector<PlayedEnd>& ends) {
    absl::Duration last;
    for (const PlayedEnd& end : ends) last = std::max(last, end.took);
    return last;
  }

  const PlayedDevice& device() const { return GetParam().device; }
  int rows() const { return GetParam().rows; }
};

TEST_P(ShortBesideLongTest, IsNotHeldUpByThem) {
  for (const int steps : {2, 8, 30}) {
    const double most = steps == 2 ? 4 : 3;
    for (const int count : {1, 2, 4, 16}) {
      for (const std::string caller : {"a", "b"}) {
        const Slowdown several = Run(steps, {.requests = count, .caller = caller});
        const Slowdown one = Run(steps, {.pictures = count, .caller = caller});
        std::cout << GetParam().name << ", " << steps << " steps beside " << count << " of 100, "
                  << (caller == "a" ? "same" : "other") << " caller: " << std::setprecision(2)
                  << several.times << " times alone, beside one request of them " << one.times
                  << "\n";
        EXPECT_LE(several.times, most);
        EXPECT_LE(one.times, most);
        const absl::Duration own = PlayedQueue(device()).Alone({.steps = steps, .rows = rows()});
        EXPECT_LE(several.later, own * kShared);
        EXPECT_LE(one.later, own * kShared);
      }
    }
  }
}

// As many come as the device could do without it: it has half of that all the same.
TEST(ShortOnesTest, LeaveHalfOfTheDeviceToALongOne) {
  std::vector<PlayedRequest> requests = {{.steps = 100}};
  PlayedQueue alone(PlayedCpu());
  const absl::Duration needs = alone.Alone(requests[0]);
  const absl::Duration own = alone.Alone({.steps = 2});
  for (absl::Duration at = own; at < needs * 3; at += own)
    requests.push_back({.at = at, .steps = 2});
  EXPECT_LE(PlayedQueue(PlayedCpu()).Run(requests)[0].took, needs * 2.1);
}

// It has not begun when the first of them comes.
TEST(ShortOnesTest, LetALongOneBegin) {
  std::vector<PlayedRequest> requests = {{.steps = 20}, {.steps = 100}};
  PlayedQueue alone(PlayedCpu());
  const absl::Duration needs = alone.Alone(requests[0]) + alone.Alone(requests[1]);
  const absl::Duration own = alone.Alone({.steps = 2});
  for (absl::Duration at = own; at < needs * 3; at += own) {
    requests.push_back({.at = at, .steps = 2});
  }
  EXPECT_LE(PlayedQueue(PlayedCpu()).Run(requests)[1].took, needs * 2.1);
}

TEST(ShortOnesTest, AreNotHeldUpAsLongAsTheyAskForLessThanHalf) {
  std::vector<PlayedRequest> requests = {{.steps = 1000}};
  PlayedQueue alone(PlayedCpu());
  const absl::Duration own = alone.Alone({.steps = 2});
  for (int i = 1; i < 30; ++i) requests.push_back({.at = 2.8 * i * own, .steps = 2});
  const std::vector<PlayedEnd> ends = PlayedQueue(PlayedCpu()).Run(requests);
  for (size_t i = 1; i < ends.size(); ++i) EXPECT_LE(ends[i].took, 3 * own) << i;
}

TEST_P(ShortBesideLongTest, PassesOneThatPasses) {
  const std::vector<PlayedRequest> requests = {
      {.steps = 200, .rows = rows()},
      {.at = absl::Seconds(3), .steps = 30, .rows = rows()},
      {.at = absl::Seconds(4), .steps = 2, .rows = rows()}};
  PlayedQueue queue(device());
  const std::vector<PlayedEnd> ends = queue.Run(requests);
  EXPECT_LE(ends[1].took, 3.5 * queue.Alone(requests[1]));
  EXPECT_LE(ends[2].took, 4 * queue.Alone(requests[2]));
}

// They step together where there are rows for all, else one is finished before the next begins.
TEST_P(ShortBesideLongTest, EqualOnesDoNotPass) {
  std::vector<PlayedRequest> requests(8, {.steps = 30, .rows = rows()});
  PlayedQueue queue(device());
  queue.Run(requests);
  const size_t together = std::min(8, device().lane_rows() / rows());
  size_t seen = 0;
  for (const auto& members : queue.stepped()) seen += members.size() == together;
  EXPECT_GE(seen, 30 * 8 / together - 14);
  EXPECT_LE(queue.stepped().size(), 30 * 8 / together + 14);
}

// In lanes of their own they share the device by the same rule.
TEST_P(ShortBesideLongTest, OfAnotherSizeIsNotHeldUpEither) {
  std::vector<PlayedRequest> requests(4, {.steps = 100, .rows = rows(), .size = 768});
  requests.resize(8, {.steps = 200, .rows = rows(), .size = 512});
  const PlayedRequest brief{
      .at = absl::Milliseconds(7030), .steps = 8, .rows = rows(), .size = 384};
  requests.push_back(brief);
  PlayedQueue queue(device());
  EXPECT_LE(queue.Run(requests).back().took, 4 * queue.Alone(brief) + absl::Seconds(1));
}

INSTANTIATE_TEST_SUITE_P(Devices, ShortBesideLongTest, ::testing::ValuesIn(Devices()),
                         [](const auto& info) { return std::to_string(info.index); });

// Requests of 2 to 100 steps that come at random, from three callers.
std::vector<PlayedRequest> Mixture(const PlayedDevice& device, double load, int count,
                                   uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<PlayedRequest> requests;
  absl::Duration at;
  PlayedQueue queue(device);
  for (int i = 0; i < count; ++i) {
    PlayedRequest request{.at = at};
    request.steps = std::vector<int>{2, 8, 30, 100}[random() % 4];
    request.rows = 1 + static_cast<int>(random() % 2);
    request.caller = std::string(1, static_cast<char>('a' + random() % 3));
    requests.push_back(request);
    const double mean = absl::ToDoubleSeconds(queue.Alone({.steps = 35, .rows = 2})) * 0.79 / load;
    at += absl::Seconds(std::exponential_distribution<double>(1 / mean)(random));
  }
  return requests;
}

struct Slowdowns {
  double mean = 0, p99 = 0;
};
Slowdowns SlowdownsOf(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {std::accumulate(times.begin(), times.end(), 0.0) / times.size(),
          times[times.size() * 99 / 100]};
}

std::vector<double> OneAtATime(const std::vector<PlayedRequest>& requests,
                               const PlayedQueue& queue) {
  std::vector<double> times;
  absl::Duration until;
  for (const PlayedRequest& request : requests) {
    const absl::Duration alone = queue.Alone(request);
    until = std::max(until, request.at) + alone;
    times.push_back(absl::FDivDuration(until - request.at, alone));
  }
  return times;
}

std::vector<double> Played(const std::vector<PlayedRequest>& requests, const PlayedDevice& device) {
  PlayedQueue queue(device);
  const std::vector<PlayedEnd> ends = queue.Run(requests);
  std::vector<double> times;
  for (size_t i = 0; i < ends.size(); ++i) {
    times.push_back(absl::FDivDuration(ends[i].took, queue.Alone(requests[i])));
  }
  return times;
}

class MixtureTest : public ::testing::TestWithParam<bool> {
 protected:
  PlayedDevice device() const { return GetParam() ? PlayedGpu() : PlayedCpu(); }
};

TEST_P(MixtureTest, TakesLessThanInTheOrderOfArrival) {
  const auto requests = Mixture(device(), 0.8, 1500, 1);
  PlayedDevice without_room = device();
  without_room.lane_places = without_room.lane_rows();
  const Slowdowns passing = SlowdownsOf(Played(requests, device())),
                  lane = SlowdownsOf(Played(requests, without_room)),
                  one = SlowdownsOf(OneAtATime(requests, PlayedQueue(device())));
  std::cout << (GetParam() ? "GPU" : "CPU") << std::setprecision(3)
            << ", times alone (mean, p99): one at a time " << one.mean << ", " << one.p99
            << "; without room to pass " << lane.mean << ", " << lane.p99 << "; passing "
            << passing.mean << ", " << passing.p99 << "\n";
  EXPECT_LT(passing.mean, one.mean / 2);
  EXPECT_LT(passing.p99, one.p99 / 2);
  EXPECT_LE(passing.mean, lane.mean * 1.02);
}

// Foreseen when the last one of all has come; but for the units that are chosen already.
TEST_P(MixtureTest, IsForeseen) {
  constexpr int kRuns = 200;
  int wrong = 0;
  std::vector<double> ratios;
  for (uint32_t seed = 0; seed < kRuns; ++seed) {
    const std::vector<PlayedRequest> requests = Mixture(device(), 8, 2 + seed % 7, seed);
    const PlayedEnd end = PlayedQueue(device()).Run(requests).back();
    const absl::Duration chosen = 2 * device().steps.rbegin()->second;
    const bool is_right =
        end.took < end.foreseen * 1.15 + chosen && end.took > end.foreseen * 0.85 - chosen;
    wrong += !is_right;
    ratios.push_back(absl::FDivDuration(end.took, end.foreseen));
  }
  std::sort(ratios.begin(), ratios.end());
  std::cout << (GetParam() ? "GPU" : "CPU") << std::setprecision(3)
            << ", took by foreseen: 5th hundredth " << ratios[kRuns / 20] << ", median "
            << ratios[kRuns / 2] << ", 95th " << ratios[kRuns * 19 / 20] << "\n";
  EXPECT_LE(wrong, kRuns / 20);
}

INSTANTIATE_TEST_SUITE_P(Devices, MixtureTest, ::testing::Bool());

}  // namespace
}  // namespace latentd::batching
