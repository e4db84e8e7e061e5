#include "core/batching/reservations.h"

#include <gtest/gtest.h>

namespace latentd::batching {
namespace {

class ReservationsTest : public ::testing::Test {
 protected:
  static absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

  static Reservations::Who Who(uint64_t content) { return {.caller = 7, .content = content}; }

  Reservations::Room Expected(double now, double until, const Reservations::Who& who = Who(12345)) {
    return {reservations_.ExpectedTime(At(now), At(until), who),
            reservations_.ExpectedPictures(At(now), At(until), who, [](uint64_t) { return 1e9; })};
  }
  double ExpectedOfCaller(double now, double until, const Reservations::Who& who) {
    return reservations_.ExpectedPicturesOfCaller(At(now), At(until), who);
  }

  // By default in time for its deadline.
  void Tell(const Reservations::Who& who, double now, double delay, const Reservations::Room& room,
            double deadline = 1e9) {
    reservations_.Add(who, At(now), absl::Seconds(delay), At(deadline), room, /*margin=*/1);
  }

  Reservations reservations_;
};

TEST_F(ReservationsTest, AreTakenOnceAndNotBeforeTheirTime) {
  Tell(Who(1), 0, 10, {absl::Seconds(4), 2});
  EXPECT_FALSE(reservations_.Take(Who(1), At(9)));
  EXPECT_FALSE(reservations_.Take(Who(2), At(10)));
  EXPECT_TRUE(reservations_.Take(Who(1), At(10)));
  EXPECT_FALSE(reservations_.Take(Who(1), At(10)));
}

TEST_F(ReservationsTest, WhoComesSaysWithWhichMarginItWasTold) {
  reservations_.Add(Who(1), At(0), absl::Seconds(10), At(1e9), {}, 1.5);
  EXPECT_EQ(reservations_.Take(Who(2), At(10)), std::nullopt);
  EXPECT_EQ(reservations_.Take(Who(1), At(10)), 1.5);
}

// Their times are 9.95 to 14 and 19.95 to 27.
TEST_F(ReservationsTest, KeepRoomForThoseThatMayCome) {
  Tell(Who(1), 0, 10, {absl::Seconds(4), 2});
  Tell(Who(2), 0, 20, {absl::Seconds(8), 4});
  EXPECT_EQ(Expected(9.95, 30).time, absl::Seconds(6));  // half come
  EXPECT_EQ(Expected(9.95, 10).pictures, 1);
  EXPECT_EQ(Expected(9.95, 30, Who(2)).time,
            absl::Seconds(2));  // not its own
}

TEST_F(ReservationsTest, KeepLessTheLongerNobodyComes) {
  Tell(Who(1), 0, 10, {absl::Seconds(4), 2});
  EXPECT_NEAR(Expected(11.975, 30).pictures, 0.5, 1e-6);
  EXPECT_NEAR(absl::ToDoubleSeconds(Expected(11.975, 30).time), 1, 1e-6);
}

TEST_F(ReservationsTest, KeepLittleTimeFreeInAShortOne) {
  Tell(Who(1), 0, 10, {absl::Seconds(4.05), 2});
  EXPECT_NEAR(absl::ToDoubleSeconds(Expected(10, 11).time), 0.5, 1e-6);
  EXPECT_NEAR(absl::ToDoubleSeconds(Expected(0, 11).time), 0.525, 1e-6);
}

TEST_F(ReservationsTest, AreCountedByCallerToo) {
  Tell(Who(1), 0, 10, {absl::Seconds(4), 2});
  Tell({8, 1}, 0, 10, {absl::Seconds(4), 6});
  EXPECT_EQ(Expected(9.95, 10).pictures, 4);
  EXPECT_EQ(ExpectedOfCaller(9.95, 10, {8, 2}), 3);
  EXPECT_EQ(ExpectedOfCaller(9.95, 10, {8, 1}), 0);
}

TEST_F(ReservationsTest, ACallersAreCountedUpToSoMany) {
  Tell({7, 1}, 0, 10, {absl::Seconds(4), 2});
  Tell({8, 1}, 0, 10, {absl::Seconds(4), 6});
  const auto most = [](uint64_t caller) { return caller == 8 ? 2.5 : 1e9; };
  EXPECT_EQ(reservations_.ExpectedPictures(At(9.95), At(10), {9, 1}, most), 1 + 2.5);
}

TEST_F(ReservationsTest, HoldForClientsThatAddAQuarterOfTheDelay) {
  Tell(Who(1), 0, 100, {absl::Seconds(4), 2});
  EXPECT_TRUE(reservations_.Take(Who(1), At(126)));
}

TEST_F(ReservationsTest, AreForgottenWhereNobodyComes) {
  Tell(Who(1), 0, 10, {absl::Seconds(4), 2});
  EXPECT_EQ(Expected(16, 30).time, absl::ZeroDuration());
  EXPECT_FALSE(reservations_.Take(Who(1), At(16)));
}

TEST_F(ReservationsTest, CountAsFarAsClientsComeBack) {
  const Reservations::Room room{absl::Seconds(1), 1};
  for (int i = 0; i < 100; ++i) {
    Tell(Who(1), i, 1, room);
    reservations_.Take(Who(1), At(i + 1));
  }
  Tell(Who(1), 100, 1, room);
  EXPECT_GT(Expected(100.95, 200).time, absl::Seconds(0.99));
  for (int i = 0; i < 100; ++i) Tell(Who(1000 + i), 101, 1, room);
  Tell(Who(1), 200, 1, room);
  EXPECT_LT(Expected(200, 300).time, absl::Seconds(0.01));
}

TEST_F(ReservationsTest, CallersAreKnownByThemselves) {
  const Reservations::Room room{absl::Seconds(1), 1};
  for (int i = 0; i < 100; ++i) {
    Tell({7, 1}, 3 * i, 1, room);
    Tell({8, 1}, 3 * i, 1, room);
    EXPECT_TRUE(reservations_.Take({7, 1}, At(3 * i + 1)));
  }
  Tell({7, 1}, 300, 1, room);
  Tell({8, 1}, 300, 1, room);
  EXPECT_GT(ExpectedOfCaller(300, 400, {7, 2}), 0.99);
  EXPECT_LT(ExpectedOfCaller(300, 400, {8, 2}), 0.01);
  EXPECT_EQ(ExpectedOfCaller(300, 400, {9, 2}), 0);
}

TEST_F(ReservationsTest, WhoWouldBeTooLateMayComeOrNotLikeOthersOfThese) {
  const Reservations::Room room{absl::Seconds(1), 1};
  for (int i = 0; i < 100; ++i) {
    Tell(Who(1), 3 * i, 1, room);
    EXPECT_TRUE(reservations_.Take(Who(1), At(3 * i + 1)));
    Tell(Who(2), 3 * i, 1, room, /*deadline=*/3 * i + 1);
  }
  Tell(Who(1), 300, 1, room);
  EXPECT_GT(Expected(300, 400).pictures, 0.99);
  Tell(Who(1), 300, 1, room, /*deadline=*/301);
  EXPECT_LT(Expected(300, 400).pictures, 0.01);
}

// Or the first to come would count for all, since who does not come is known of later.
TEST_F(ReservationsTest, WhoComesIsLearnedOfWhenItsTimeIsOver) {
  const Reservations::Room room{absl::Seconds(1), 1};
  for (int i = 0; i < 100; ++i) Tell(Who(i), 0, 10, room);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(reservations_.Take(Who(i), At(10)));
  EXPECT_NEAR(Expected(9.95, 10).pictures, 25, 1e-6);
  Tell(Who(1), 20, 10, room);
  EXPECT_NEAR(Expected(29.95, 30).pictures, 0.5, 0.4);
}

// Where the same was asked for by another caller, that is another request.
TEST_F(ReservationsTest, OthersWhoAskForTheSameAreCounted) {
  Tell({7, 1}, 0, 10, {absl::Seconds(4), 2});
  EXPECT_EQ(Expected(9.95, 10, {7, 1}).pictures, 0);
  EXPECT_EQ(Expected(9.95, 10, {8, 1}).pictures, 1);
}

TEST_F(ReservationsTest, WhoAsksAgainIsTheSame) {
  for (int i = 0; i < 100; ++i) {
    Tell(Who(1), i, 1000, {absl::Seconds(4), 2});
  }
  EXPECT_EQ(Expected(100, 2000).pictures, 1);
}

TEST_F(ReservationsTest, AreBounded) {
  for (int i = 0; i < 20000; ++i) {
    Tell(Who(i), 0, 10, {absl::Seconds(1), 1});
  }
  EXPECT_EQ(Expected(9.95, 10).pictures, 4096);
}

// What was learned of them is all that is left.
TEST_F(ReservationsTest, CallersAreBounded) {
  const Reservations::Room room{absl::Seconds(1), 1};
  for (uint64_t caller = 0; caller < 2000; ++caller) Tell({caller, 1}, 0, 1, room);
  Expected(100, 101);
  Tell({5, 1}, 100, 1, room);
  EXPECT_NEAR(ExpectedOfCaller(100.95, 102, {5, 2}), 0.5, 1e-6);
}

}  // namespace
}  // namespace latentd::batching
