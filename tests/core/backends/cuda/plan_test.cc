#include "core/backends/cuda/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace latentd::backends::cuda {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using testing::StatusIs;

CudaPlan SomePlan() {
  return {{{"convolution bf16 1x8", std::string("\0\1plan", 6)}, {"product 1x2x3", ""}},
          {{0, 256, 1024}, 2048}};
}

TEST(CudaPlanTest, IsReadAsItWasWritten) {
  ASSERT_OK_AND_ASSIGN(const CudaPlan read, Decode(Encode(SomePlan())));
  EXPECT_EQ(read.choices, SomePlan().choices);
  EXPECT_EQ(read.memory.offsets, SomePlan().memory.offsets);
  EXPECT_EQ(read.memory.arena_bytes, 2048u);
}

TEST(CudaPlanTest, IsRefusedWhereverItIsCutOff) {
  const std::string bytes = Encode(SomePlan());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(Decode(bytes.substr(0, size)), StatusIs(absl::StatusCode::kInvalidArgument, _))
        << size;
  }
  EXPECT_THAT(Decode(bytes + "x"), StatusIs(absl::StatusCode::kInvalidArgument, _));
}

TEST(CudaPlanTest, OfAnotherVersionIsRefused) {
  std::string bytes = Encode(SomePlan());
  ++bytes[7];
  EXPECT_THAT(Decode(bytes),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("this version")));
}

TEST(CudaPlanTest, OfMoreChoicesThanBytesAllocatesNothing) {
  std::string bytes = Encode({});
  bytes.replace(8, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(Decode(bytes), StatusIs(absl::StatusCode::kInvalidArgument, _));
}

class ChooserTest : public ::testing::Test {
 protected:
  // What it chooses, counting how often it was asked.
  auto Choose(std::string choice) {
    return [this, choice]() -> absl::StatusOr<std::string> {
      ++asked_;
      return choice;
    };
  }

  Findings findings_;
  int asked_ = 0;
};

TEST_F(ChooserTest, MakesEachChoiceOnceAndThenKnowsIt) {
  Choices made;
  const Chooser chooser = Chooser::Choosing(findings_, made);
  EXPECT_EQ(chooser.Get("product", Choose("algorithm 7")).value(), "algorithm 7");
  EXPECT_EQ(chooser.Get("product", Choose("algorithm 8")).value(), "algorithm 7");
  EXPECT_EQ(Chooser::LookingUp(made).Get("product", Choose("algorithm 9")).value(), "algorithm 7");
  EXPECT_EQ(asked_, 1);
}

TEST_F(ChooserTest, AnotherGraphGetsWhatWasFoundForTheFirst) {
  Choices first, second;
  ASSERT_OK(Chooser::Choosing(findings_, first).Get("product", Choose("algorithm 7")));
  EXPECT_EQ(Chooser::Choosing(findings_, second).Get("product", Choose("algorithm 8")).value(),
            "algorithm 7");
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(second, first);
}

TEST_F(ChooserTest, SaysWhichChoiceAPlanLacks) {
  Choices none;
  EXPECT_THAT(Chooser::LookingUp(none).Get("product 1x2x3", Choose("made up")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("product 1x2x3")));
  EXPECT_EQ(asked_, 0);
}

TEST_F(ChooserTest, KeepsNoFailure) {
  Choices made;
  const auto fail = []() -> absl::StatusOr<std::string> {
    return absl::UnimplementedError("none");
  };
  EXPECT_THAT(Chooser::Choosing(findings_, made).Get("product", fail),
              StatusIs(absl::StatusCode::kUnimplemented, _));
  EXPECT_TRUE(made.empty());
  EXPECT_EQ(findings_.Find("product"), std::nullopt);
}

}  // namespace
}  // namespace latentd::backends::cuda
