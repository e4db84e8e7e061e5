#include "core/batching/admit/reservations.h"

#include <gtest/gtest.h>

namespace latentd::batching {
namespace {

class ReservationsTest : public ::testing::Test {
 protected:
  static absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

  static Reservations::Who Who(uint64_t content) { return {.caller = 7, .content = content}; }

  Reservations::Room Expected(double now, double until) {
    return {reservations_.ExpectedTime(At(now), At(until)),
            reservations_.ExpectedPictures(At(now), At(until), [](uint64_t) { return 1e9; }),
            reservations_.ExpectedBytes(At(now), At(until))};
  }
  double ExpectedOfCaller(double now, double until, uint64_t caller) {
    return reservations_.ExpectedPicturesOfCaller(At(now), At(until), caller);
  }

  // By default in time for its deadline.
  void Tell(const Reservations::Who& who, double now, double delay, const Reservations::Room& room,
            double deadline = 1e9) {
    reservations_.Add(who, At(now), absl::Seconds(delay), At(deadline), room, {});
  }

  Reservations reservations_;
};

TEST_F(ReservationsTest, AreTakenOnceAndNotBeforeTheirTime) {
  Tell(Who(1), 0, 10, {absl::Seconds(4), 2});
  Tell(Who(3), 0, 10, {absl::Seconds(4), 2});
  EXPECT_FALSE(reservations_.Take(Who(3), At(9)));
  EXPECT_FALSE(reservations_.Take(Who(3), At(10)));
  EXPECT_FALSE(reservations_.Take(Who(2), At(10)));
  EXPECT_TRUE(reservations_.Take(Who(1), At(10)));
  EXPECT_FALSE(reservations_.Take(Who(1), At(10)));
}

TEST_F(ReservationsTest, SayHowTheDelayWasReckoned) {
  reservations_.Add(Who(1), At(0), absl::Seconds(10), At(1e9), {}, {.factor = 1.5});
  EXPECT_FALSE(reservations_.Take(Who(2), At(10)).has_value());
  EXPECT_EQ(reservations_.Take(Who(1), At(10))->factor, 1.5);
}

// Their times are 9.95 to 14 and 19.95 to 27.
TEST_F(ReservationsTest, KeepRoomForThoseThatMayCome) {
  Tell(Who(1), 0, 10, {absl::Seconds(4), 2});
  Tell(Who(2), 0, 20, {absl::Seconds(8), 4});
  EXPECT_EQ(Expected(9.95, 30).time, absl::Seconds(6));  // half come
  EXPECT_EQ(Expected(9.95, 10).pictures, 1);
  EXPECT_TRUE(reservations_.Take(Who(1), At(9.95)));
  EXPECT_EQ(Expected(9.95, 30).time, absl::Seconds(4));  // it is here
}

TEST_F(ReservationsTest, KeepLessTheLongerNoneComes) {
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
  EXPECT_EQ(ExpectedOfCaller(9.95, 10, 8), 3);
  EXPECT_EQ(ExpectedOfCaller(9.95, 10, 9), 0);
}

TEST_F(ReservationsTest, ACallersAreCountedUpToSoMany) {
  Tell({7, 1}, 0, 10, {absl::Seconds(4), 2});
  Tell({8, 1}, 0, 10, {absl::Seconds(4), 6});
  const auto most = [](uint64_t caller) { return caller == 8 ? 2.5 : 1e9; };
  EXPECT_EQ(reservations_.ExpectedPictures(At(9.95), At(10), most), 1 + 2.5);
}

TEST_F(ReservationsTest, HoldForClientsThatAddAQuarterOfTheDelay) {
  Tell(Who(1), 0, 100, {absl::Seconds(4), 2});
  EXPECT_TRUE(reservations_.Take(Who(1), At(126)));
}

TEST_F(ReservationsTest, AreForgottenWhereNoneComes) {
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
  EXPECT_GT(ExpectedOfCaller(300, 400, 7), 0.99);
  EXPECT_LT(ExpectedOfCaller(300, 400, 8), 0.01);
  EXPECT_EQ(ExpectedOfCaller(300, 400, 9), 0);
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
  Tell(Who(1), 310, 1, room, /*deadline=*/311);
  EXPECT_LT(Expected(310, 400).pictures, 0.01);
}

// Or the first to come would count for all, since who does not come is known of later.
TEST_F(ReservationsTest, WhoComesIsLearnedOfWhenItsTimeIsOver) {
  const Reservations::Room room{absl::Seconds(1), 1};
  for (int i = 0; i < 100; ++i) Tell(Who(i), 0, 10, room);
  for (int i = 0; i < 100; i += 2) EXPECT_TRUE(reservations_.Take(Who(i), At(10)));
  EXPECT_NEAR(Expected(9.95, 10).pictures, 25, 1e-6);
  Tell(Who(1), 20, 10, room);
  EXPECT_NEAR(Expected(29.95, 30).pictures, 0.5, 0.4);
}

TEST_F(ReservationsTest, OthersWhoAskForTheSameAreCounted) {
  Tell({7, 1}, 0, 10, {absl::Seconds(4), 2});
  EXPECT_FALSE(reservations_.Take({8, 1}, At(5)));
  EXPECT_EQ(Expected(9.95, 10).pictures, 1);
}

TEST_F(ReservationsTest, WhoAsksAgainTooEarlyIsTheSame) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(reservations_.Take(Who(1), At(i)));
    EXPECT_EQ(Expected(i, 2000).pictures, 0);
    Tell(Who(1), i, 1000, {absl::Seconds(4), 2});
  }
  EXPECT_EQ(Expected(100, 2000).pictures, 1);
}

// Clients ask for the same at once, without a seed or with one that all have.
TEST_F(ReservationsTest, EqualRequestsOfOneMomentAreSeveral) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(reservations_.Take(Who(1), At(0.001 * i)));
    Tell(Who(1), 0.001 * i, 10 + 10 * i, {absl::Seconds(4), 2});
  }
  EXPECT_NEAR(Expected(0, 100).pictures, 3, 1e-6);
  // Another one, long after; they are still several.
  EXPECT_FALSE(reservations_.Take(Who(1), At(5)));
  Tell(Who(1), 5, 40, {absl::Seconds(4), 2});
  for (double told : {10, 20, 30, 45}) {
    EXPECT_TRUE(reservations_.Take(Who(1), At(told)));
    EXPECT_FALSE(reservations_.Take(Who(1), At(told)));
  }
}

TEST_F(ReservationsTest, EqualOnesAreBounded) {
  for (int i = 0; i < 1000; ++i) Tell(Who(1), 0, 10, {absl::Seconds(1), 1});
  EXPECT_EQ(Expected(9.95, 10).pictures, 32);
}

// Else the first clients of a new caller would be told too early by half.
TEST_F(ReservationsTest, AllClientsOfUnknownCallersCountForTheNext) {
  Tell(Who(1), 0, 10, {absl::Seconds(4), 2, 6});
  Tell({8, 1}, 0, 10, {absl::Seconds(2), 1});
  EXPECT_EQ(reservations_.Told(At(0)).time, absl::Seconds(6));
  EXPECT_EQ(reservations_.Told(At(0)).pictures, 3);
  EXPECT_EQ(reservations_.Told(At(0)).bytes, 6);
  EXPECT_EQ(reservations_.ToldOfCaller(At(0), 7).pictures, 2);
  EXPECT_EQ(reservations_.ToldOfCaller(At(0), 9).pictures, 0);
}

TEST_F(ReservationsTest, AsManyAsDoComeCountForTheNext) {
  const Reservations::Room room{absl::Seconds(1), 1};
  for (int i = 0; i < 100; ++i) {
    Tell(Who(1), 3 * i, 1, room);
    if (i % 2 == 0) reservations_.Take(Who(1), At(3 * i + 1));
  }
  Tell(Who(1), 300, 1, room);
  EXPECT_NEAR(reservations_.Told(At(300)).pictures, 0.5, 0.1);
}

TEST_F(ReservationsTest, AreBounded) {
  for (int i = 0; i < 20000; ++i) {
    Tell(Who(i), 0, 10, {absl::Seconds(1), 1});
  }
  EXPECT_EQ(Expected(9.95, 10).pictures, 4096);
}

// All that is left of them is what was learned.
TEST_F(ReservationsTest, CallersAreBounded) {
  const Reservations::Room room{absl::Seconds(1), 1};
  for (uint64_t caller = 0; caller < 2000; ++caller) Tell({caller, 1}, 0, 1, room);
  Expected(100, 101);
  Tell({5, 1}, 100, 1, room);
  EXPECT_NEAR(ExpectedOfCaller(100.95, 102, 5), 0.5, 1e-6);
}

}  // namespace
}  // namespace latentd::batching
