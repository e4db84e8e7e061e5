#include "core/engine/loop/enqueue_lead.h"

#include <gtest/gtest.h>

namespace latentd::engine {
namespace {

using batching::UnitKind;

constexpr absl::Duration kMargin = absl::Milliseconds(1);
constexpr absl::Duration kStep = absl::Milliseconds(30);

class EnqueueLeadTest : public ::testing::Test {
 protected:
  absl::Duration LeadOf(UnitKind kind) const {
    return kBegin + kStep - lead_.EnqueueAt(kind, kBegin, kStep);
  }
  // A step that takes so much less than was predicted.
  void Learn(absl::Duration less, absl::Duration enqueuing) {
    lead_.Learn(UnitKind::kStep, kBegin + kStep, kBegin + kStep - less, enqueuing);
  }

  const absl::Time kBegin = absl::UnixEpoch() + absl::Hours(1);
  EnqueueLead lead_;
};

TEST_F(EnqueueLeadTest, IsAMarginAtFirst) { EXPECT_EQ(LeadOf(UnitKind::kStep), kMargin); }

TEST_F(EnqueueLeadTest, AtOnceWhereNothingIsPredictedOrTooLittle) {
  EXPECT_EQ(lead_.EnqueueAt(UnitKind::kStep, kBegin, absl::ZeroDuration()), kBegin);
  EXPECT_EQ(lead_.EnqueueAt(UnitKind::kStep, kBegin, kMargin / 2), kBegin);
  Learn(absl::ZeroDuration(), kStep * 2);
  EXPECT_EQ(lead_.EnqueueAt(UnitKind::kStep, kBegin, kStep), kBegin);
}

TEST_F(EnqueueLeadTest, CoversWhatEnqueuingTookAndWhatWasPredictedTooMuch) {
  Learn(absl::Milliseconds(3), absl::Milliseconds(4));
  EXPECT_EQ(LeadOf(UnitKind::kStep), absl::Milliseconds(7) + kMargin);
  EXPECT_EQ(LeadOf(UnitKind::kDecode), kMargin);
}

TEST_F(EnqueueLeadTest, AUnitThatTakesLongerNeedsLess) {
  Learn(absl::Milliseconds(-3), absl::Milliseconds(4));
  EXPECT_EQ(LeadOf(UnitKind::kStep), absl::Milliseconds(1) + kMargin);
  Learn(absl::Milliseconds(-9), absl::Milliseconds(4));
  EXPECT_GE(LeadOf(UnitKind::kStep), kMargin);
}

// A thread that was held up once must not cost those who arrive a step for ever.
TEST_F(EnqueueLeadTest, ForgetsSlowly) {
  Learn(absl::ZeroDuration(), absl::Milliseconds(20));
  Learn(absl::ZeroDuration(), absl::Milliseconds(1));
  EXPECT_GT(LeadOf(UnitKind::kStep), absl::Milliseconds(19));
  for (int i = 0; i < 300; ++i) Learn(absl::ZeroDuration(), absl::Milliseconds(1));
  EXPECT_LT(LeadOf(UnitKind::kStep), absl::Milliseconds(2) + kMargin);
}

}  // namespace
}  // namespace latentd::engine
