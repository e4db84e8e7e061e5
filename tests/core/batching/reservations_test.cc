#include "core/batching/reservations.h"

#include <gtest/gtest.h>

namespace latentd::batching {
namespace {

class ReservationsTest : public ::testing::Test {
 protected:
  static absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

  Reservations::Room Expected(double now, double until) {
    return reservations_.Expected(At(now), At(until), /*who=*/12345);
  }

  Reservations reservations_;
};

TEST_F(ReservationsTest, AreTakenOnceAndNotBeforeTheirTime) {
  reservations_.Add(1, At(0), absl::Seconds(10), {absl::Seconds(4), 2});
  EXPECT_FALSE(reservations_.Take(1, At(9)));
  EXPECT_FALSE(reservations_.Take(2, At(10)));
  EXPECT_TRUE(reservations_.Take(1, At(10)));
  EXPECT_FALSE(reservations_.Take(1, At(10)));
}

TEST_F(ReservationsTest, KeepRoomForThoseThatMayCome) {
  reservations_.Add(1, At(0), absl::Seconds(10), {absl::Seconds(4), 2});
  reservations_.Add(2, At(0), absl::Seconds(20), {absl::Seconds(8), 4});
  EXPECT_EQ(Expected(10, 30).time, absl::Seconds(6));  // half come
  EXPECT_EQ(Expected(10, 10).pictures, 1);
  EXPECT_EQ(reservations_.Expected(At(10), At(30), 2).time, absl::Seconds(2));  // not its own
}

TEST_F(ReservationsTest, KeepLittleTimeFreeInAShortOne) {
  reservations_.Add(1, At(0), absl::Seconds(10), {absl::Seconds(4), 2});  // until 15
  EXPECT_EQ(Expected(11, 12).time, absl::Seconds(0.5));  // half come; of four seconds' one
  EXPECT_EQ(Expected(11, 12).pictures, 1);
  EXPECT_EQ(Expected(11, 15).time, absl::Seconds(2));
}

TEST_F(ReservationsTest, HoldForClientsThatAddAQuarterOfTheDelay) {
  reservations_.Add(1, At(0), absl::Seconds(100), {absl::Seconds(4), 2});
  EXPECT_TRUE(reservations_.Take(1, At(126)));
}

TEST_F(ReservationsTest, AreForgottenWhereNobodyComes) {
  reservations_.Add(1, At(0), absl::Seconds(10), {absl::Seconds(4), 2});
  EXPECT_EQ(Expected(16, 30).time, absl::ZeroDuration());
  EXPECT_FALSE(reservations_.Take(1, At(16)));
}

TEST_F(ReservationsTest, CountAsFarAsClientsComeBack) {
  const Reservations::Room room{absl::Seconds(1), 1};
  for (int i = 0; i < 100; ++i) {
    reservations_.Add(1, At(i), absl::Seconds(1), room);
    reservations_.Take(1, At(i + 1));
  }
  reservations_.Add(1, At(100), absl::Seconds(1), room);
  EXPECT_GT(Expected(101, 200).time, absl::Seconds(0.99));
  for (int i = 0; i < 100; ++i) reservations_.Add(1000 + i, At(101), absl::Seconds(1), room);
  reservations_.Add(1, At(200), absl::Seconds(1), room);
  EXPECT_LT(Expected(200, 300).time, absl::Seconds(0.01));
}

TEST_F(ReservationsTest, WhoAsksAgainIsTheSame) {
  for (int i = 0; i < 100; ++i) {
    reservations_.Add(1, At(i), absl::Seconds(1000), {absl::Seconds(4), 2});
  }
  EXPECT_EQ(Expected(100, 2000).pictures, 1);
}

TEST_F(ReservationsTest, AreBounded) {
  for (int i = 0; i < 5000; ++i) {
    reservations_.Add(i, At(0), absl::Seconds(10), {absl::Seconds(1), 1});
  }
  EXPECT_EQ(Expected(10, 10).pictures, 512);
}

}  // namespace
}  // namespace latentd::batching
