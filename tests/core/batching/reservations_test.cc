#include "core/batching/reservations.h"

#include <gtest/gtest.h>

namespace latentd::batching {
namespace {

class ReservationsTest : public ::testing::Test {
 protected:
  static absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

  static Reservations::Who Who(uint64_t content) { return {.caller = 7, .content = content}; }

  Reservations::Room Expected(double now, double until) {
    return reservations_.Expected(At(now), At(until), Who(12345));
  }

  Reservations reservations_;
};

TEST_F(ReservationsTest, AreTakenOnceAndNotBeforeTheirTime) {
  reservations_.Add(Who(1), At(0), absl::Seconds(10), {absl::Seconds(4), 2});
  EXPECT_FALSE(reservations_.Take(Who(1), At(9)));
  EXPECT_FALSE(reservations_.Take(Who(2), At(10)));
  EXPECT_TRUE(reservations_.Take(Who(1), At(10)));
  EXPECT_FALSE(reservations_.Take(Who(1), At(10)));
}

// Their times are 9.95 to 14 and 19.95 to 27.
TEST_F(ReservationsTest, KeepRoomForThoseThatMayCome) {
  reservations_.Add(Who(1), At(0), absl::Seconds(10), {absl::Seconds(4), 2});
  reservations_.Add(Who(2), At(0), absl::Seconds(20), {absl::Seconds(8), 4});
  EXPECT_EQ(Expected(9.95, 30).time, absl::Seconds(6));  // half come
  EXPECT_EQ(Expected(9.95, 10).pictures, 1);
  EXPECT_EQ(reservations_.Expected(At(9.95), At(30), Who(2)).time,
            absl::Seconds(2));  // not its own
}

TEST_F(ReservationsTest, KeepLessTheLongerNobodyComes) {
  reservations_.Add(Who(1), At(0), absl::Seconds(10), {absl::Seconds(4), 2});
  EXPECT_NEAR(Expected(11.975, 30).pictures, 0.5, 1e-6);
  EXPECT_NEAR(absl::ToDoubleSeconds(Expected(11.975, 30).time), 1, 1e-6);
}

TEST_F(ReservationsTest, KeepLittleTimeFreeInAShortOne) {
  reservations_.Add(Who(1), At(0), absl::Seconds(10), {absl::Seconds(4.05), 2});
  EXPECT_NEAR(absl::ToDoubleSeconds(Expected(10, 11).time), 0.5, 1e-6);
  EXPECT_NEAR(absl::ToDoubleSeconds(Expected(0, 11).time), 0.525, 1e-6);
}

TEST_F(ReservationsTest, AreCountedByCallerToo) {
  reservations_.Add(Who(1), At(0), absl::Seconds(10), {absl::Seconds(4), 2});
  reservations_.Add({8, 1}, At(0), absl::Seconds(10), {absl::Seconds(4), 6});
  EXPECT_EQ(Expected(9.95, 10).pictures, 4);
  EXPECT_EQ(reservations_.ExpectedOfCaller(At(9.95), At(10), {8, 2}).pictures, 3);
  EXPECT_EQ(reservations_.ExpectedOfCaller(At(9.95), At(10), {8, 1}).pictures, 0);
}

TEST_F(ReservationsTest, HoldForClientsThatAddAQuarterOfTheDelay) {
  reservations_.Add(Who(1), At(0), absl::Seconds(100), {absl::Seconds(4), 2});
  EXPECT_TRUE(reservations_.Take(Who(1), At(126)));
}

TEST_F(ReservationsTest, AreForgottenWhereNobodyComes) {
  reservations_.Add(Who(1), At(0), absl::Seconds(10), {absl::Seconds(4), 2});
  EXPECT_EQ(Expected(16, 30).time, absl::ZeroDuration());
  EXPECT_FALSE(reservations_.Take(Who(1), At(16)));
}

TEST_F(ReservationsTest, CountAsFarAsClientsComeBack) {
  const Reservations::Room room{absl::Seconds(1), 1};
  for (int i = 0; i < 100; ++i) {
    reservations_.Add(Who(1), At(i), absl::Seconds(1), room);
    reservations_.Take(Who(1), At(i + 1));
  }
  reservations_.Add(Who(1), At(100), absl::Seconds(1), room);
  EXPECT_GT(Expected(100.95, 200).time, absl::Seconds(0.99));
  for (int i = 0; i < 100; ++i) reservations_.Add(Who(1000 + i), At(101), absl::Seconds(1), room);
  reservations_.Add(Who(1), At(200), absl::Seconds(1), room);
  EXPECT_LT(Expected(200, 300).time, absl::Seconds(0.01));
}

TEST_F(ReservationsTest, WhoAsksAgainIsTheSame) {
  for (int i = 0; i < 100; ++i) {
    reservations_.Add(Who(1), At(i), absl::Seconds(1000), {absl::Seconds(4), 2});
  }
  EXPECT_EQ(Expected(100, 2000).pictures, 1);
}

TEST_F(ReservationsTest, AreBounded) {
  for (int i = 0; i < 20000; ++i) {
    reservations_.Add(Who(i), At(0), absl::Seconds(10), {absl::Seconds(1), 1});
  }
  EXPECT_EQ(Expected(9.95, 10).pictures, 4096);
}

}  // namespace
}  // namespace latentd::batching
