#include "core/backends/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/backends/chooser.h"
#include "core/base/errors/out_of_memory.h"
#include "core/device/device_fault.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::StatusIs;

// An archive in memory, and what it was asked and told.
struct Archive {
  FindingArchive functions() {
    FindingArchive archive;
    archive.find = [this](const std::string& shape) -> std::optional<std::string> {
      asked.push_back(shape);
      const auto found = kept.find(shape);
      if (found == kept.end()) return std::nullopt;
      return found->second;
    };
    archive.keep = [this](const std::string& shape, const std::string& choice) {
      kept[shape] = choice;
    };
    archive.count = [this](KernelWork work) { ++counts[work]; };
    archive.warn = [this](absl::string_view what) { warnings.emplace_back(what); };
    return archive;
  }

  std::map<std::string, std::string> kept;
  std::vector<std::string> asked, warnings;
  std::map<KernelWork, int> counts;
};

class ChooserTest : public ::testing::Test {
 protected:
  // A choose function that returns `bytes`, counting its calls.
  auto Choose(std::string bytes, bool lasting = true) {
    return [this, bytes, lasting]() -> absl::StatusOr<Choice> {
      ++chosen_;
      return Choice{bytes, KernelWork::kTrial, lasting};
    };
  }
  static absl::StatusOr<std::string> Load(const std::string& choice) { return "loaded " + choice; }
  // A load function that takes all choices but the given one, which it refuses with `why`.
  static auto Refuse(std::string refused, absl::Status why) {
    return [=](const std::string& choice) -> absl::StatusOr<std::string> {
      if (choice == refused) return why;
      return Load(choice);
    };
  }

  Findings findings_;
  int chosen_ = 0;
};

TEST_F(ChooserTest, MakesEachChoiceOnceAndThenKnowsIt) {
  Choices made;
  const Chooser chooser = Chooser::Choosing(findings_, made);
  EXPECT_EQ(chooser.Get("product", Choose("7"), Load).value(), "loaded 7");
  EXPECT_EQ(chooser.Get("product", Choose("8"), Load).value(), "loaded 7");
  EXPECT_EQ(Chooser::LookingUp(made).Get("product", Choose("9"), Load).value(), "loaded 7");
  EXPECT_EQ(chosen_, 1);
}

TEST_F(ChooserTest, OfThreadsThatAskForAShapeOneChooses) {
  constexpr int kThreads = 6;
  std::atomic<int> choosing = 0;
  absl::Notification other_is_chosen;
  const auto choose = [&]() -> absl::StatusOr<Choice> {
    ++choosing;
    // Another shape is chosen meanwhile, or this does not end.
    other_is_chosen.WaitForNotification();
    return Choice{"7"};
  };
  std::vector<Choices> made(2);
  const Chooser first = Chooser::Choosing(findings_, made[0]),
                second = Chooser::Choosing(findings_, made[1]);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      EXPECT_EQ((i % 2 == 0 ? first : second).Get("product", choose, Load).value(), "loaded 7");
    });
  }
  EXPECT_EQ(first.Get("convolution", Choose("8"), Load).value(), "loaded 8");
  other_is_chosen.Notify();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(choosing, 1);
}

TEST_F(ChooserTest, AnotherGraphGetsWhatWasFoundForTheFirst) {
  Choices first, second;
  ASSERT_OK(Chooser::Choosing(findings_, first).Get("product", Choose("7"), Load));
  EXPECT_EQ(Chooser::Choosing(findings_, second).Get("product", Choose("8"), Load).value(),
            "loaded 7");
  EXPECT_EQ(chosen_, 1);
  EXPECT_EQ(second, first);
}

TEST_F(ChooserTest, SaysWhichChoiceAPlanLacks) {
  Choices none;
  EXPECT_THAT(Chooser::LookingUp(none).Get("product 1x2x3", Choose("made up"), Load),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("product 1x2x3")));
  EXPECT_EQ(chosen_, 0);
}

TEST_F(ChooserTest, KeepsNoFailure) {
  Choices made;
  const auto fail = []() -> absl::StatusOr<Choice> { return absl::UnimplementedError("none"); };
  EXPECT_THAT(Chooser::Choosing(findings_, made).Get("product", fail, Load),
              StatusIs(absl::StatusCode::kUnimplemented, _));
  EXPECT_THAT(made, IsEmpty());
  EXPECT_EQ(findings_.Find("product"), std::nullopt);
}

TEST_F(ChooserTest, WhatDoesNotLastIsGoodForOnePlan) {
  Archive archive;
  findings_.Connect(archive.functions());
  Choices first, second;
  EXPECT_OK(Chooser::Choosing(findings_, first).Get("product", Choose("7", false), Load));
  EXPECT_THAT(first, ElementsAre(Pair("product", "7")));
  EXPECT_THAT(archive.kept, IsEmpty());
  EXPECT_OK(Chooser::Choosing(findings_, second).Get("product", Choose("8"), Load));
  EXPECT_THAT(second, ElementsAre(Pair("product", "8")));
  EXPECT_THAT(archive.kept, ElementsAre(Pair("product", "8")));
}

TEST_F(ChooserTest, AnotherProcessChoosesNothingThatTheFirstOneFound) {
  Archive archive;
  findings_.Connect(archive.functions());
  Choices first, second;
  ASSERT_OK(Chooser::Choosing(findings_, first).Get("product", Choose("7"), Load));
  EXPECT_EQ(archive.counts[KernelWork::kTrial], 1);

  Findings of_another_process;
  of_another_process.Connect(archive.functions());
  const Chooser chooser = Chooser::Choosing(of_another_process, second);
  EXPECT_EQ(chooser.Get("product", Choose("8"), Load).value(), "loaded 7");
  EXPECT_EQ(second, first);
  EXPECT_EQ(archive.counts[KernelWork::kTrial], 1);
  EXPECT_EQ(archive.counts[KernelWork::kFound], 1);
  EXPECT_OK(chooser.Get("attention", Choose("9"), Load));
  EXPECT_EQ(archive.counts[KernelWork::kTrial], 2);
  EXPECT_THAT(archive.kept, ElementsAre(Pair("attention", "9"), Pair("product", "7")));
}

TEST_F(ChooserTest, AsksTheArchiveOnceForEachShape) {
  Archive archive;
  archive.kept["convolution"] = "1";
  findings_.Connect(archive.functions());
  for (int graph = 0; graph < 2; ++graph) {
    Choices made;
    const Chooser chooser = Chooser::Choosing(findings_, made);
    EXPECT_OK(chooser.Get("convolution", Choose("7"), Load));
    EXPECT_OK(chooser.Get("product", Choose("8", false), Load));
  }
  EXPECT_THAT(archive.asked, ElementsAre("convolution", "product"));
}

TEST_F(ChooserTest, ChoosesAnewWhatTheLibraryRefuses) {
  Archive archive;
  archive.kept["product"] = "of no use";
  findings_.Connect(archive.functions());
  Choices made;
  const auto load = Refuse("of no use", absl::InvalidArgumentError("no such algorithm"));
  EXPECT_EQ(Chooser::Choosing(findings_, made).Get("product", Choose("7"), load).value(),
            "loaded 7");
  EXPECT_THAT(made, ElementsAre(Pair("product", "7")));
  EXPECT_THAT(archive.kept, ElementsAre(Pair("product", "7")));
  EXPECT_THAT(archive.warnings,
              ElementsAre(AllOf(HasSubstr("for product is"), HasSubstr("no such algorithm"))));
  EXPECT_EQ(archive.counts[KernelWork::kRefused], 1);
}

TEST_F(ChooserTest, BlamesNoFindingForTheMachine) {
  for (const absl::Status& failure :
       {OutOfMemoryError("no memory"), device::FaultError("an illegal address")}) {
    Archive archive;
    archive.kept["product"] = "7";
    Findings findings;
    findings.Connect(archive.functions());
    Choices made;
    const auto result =
        Chooser::Choosing(findings, made).Get("product", Choose("8"), Refuse("7", failure));
    EXPECT_THAT(result, StatusIs(failure.code(), _));
    EXPECT_THAT(made, IsEmpty());
    EXPECT_THAT(archive.warnings, IsEmpty());
    EXPECT_THAT(archive.kept, ElementsAre(Pair("product", "7")));
    EXPECT_EQ(chosen_, 0);
  }
}

// Such as one that was made by a library that cannot read what it wrote.
TEST_F(ChooserTest, AChoiceThatDoesNotLoadIsAnErrorAndChosenAgainTheNextTime) {
  Archive archive;
  findings_.Connect(archive.functions());
  const auto load = Refuse("7", absl::InternalError("cannot be read"));
  Choices made;
  const Chooser chooser = Chooser::Choosing(findings_, made);
  EXPECT_THAT(chooser.Get("product", Choose("7"), load), StatusIs(absl::StatusCode::kInternal, _));
  EXPECT_THAT(made, IsEmpty());
  EXPECT_EQ(chooser.Get("product", Choose("8"), load).value(), "loaded 8");
  EXPECT_THAT(archive.kept, ElementsAre(Pair("product", "8")));
}

TEST(FindingsTest, ForgetsRatherThanHoldingEverythingThatItEverFound) {
  Archive archive;
  Findings findings;
  findings.Connect(archive.functions());
  for (int i = 0; i < 5000; ++i) findings.Keep("shape " + std::to_string(i), "choice");
  EXPECT_EQ(findings.Find("shape 4999"), "choice");
  EXPECT_THAT(archive.asked, IsEmpty());
  EXPECT_EQ(findings.Find("shape 0"), "choice");
  EXPECT_THAT(archive.asked, ElementsAre("shape 0"));
}

TEST(FindingsTest, CountsForNobodyOnceItIsDisconnected) {
  Archive archive;
  Findings findings;
  findings.Connect(archive.functions());
  findings.Connect({});
  findings.Count(KernelWork::kTrial);
  findings.Keep("product", "7");
  EXPECT_THAT(archive.counts, IsEmpty());
  EXPECT_THAT(archive.kept, IsEmpty());
  EXPECT_EQ(findings.Find("product"), "7");
}

}  // namespace
}  // namespace latentd::backends
