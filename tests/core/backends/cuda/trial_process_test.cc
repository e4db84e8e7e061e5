// The process that tries algorithms, and its parent when it ends: without a GPU, by a child that is
// this program.
#include "core/backends/cuda/trial/trial_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/device/device_fault.h"
#include "tests/support/status_matchers.h"

namespace latentd::backends::cuda {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

// How the child behaves is in its environment: the algorithms that it tries, in this order. The
// first that runs is the answer.
constexpr char kAlgorithms[] = "LATENTD_TEST_ALGORITHMS";

absl::StatusOr<Choice> Run(const std::string& algorithm) {
  if (algorithm == "crashes") abort();
  if (absl::StartsWith(algorithm, "faults")) return device::FaultError("an illegal address");
  if (algorithm == "hangs") {
    while (true) pause();
  }
  if (algorithm == "fails") return absl::UnimplementedError("none runs");
  if (algorithm == "untimed") return Choice{.bytes = algorithm, .lasting = false};
  return Choice{algorithm, KernelWork::kTrial};
}

absl::StatusOr<Choice> TryInOrder(const ProductShape& shape, const TrialWatch& watch) {
  const std::vector<std::string> algorithms =
      absl::StrSplit(getenv(kAlgorithms), ',', absl::SkipEmpty());
  for (const std::string& algorithm : algorithms) {
    const auto& left_out = watch.left_out;
    if (std::find(left_out.begin(), left_out.end(), algorithm) != left_out.end()) continue;
    watch.announce(algorithm);
    return Run(algorithm);
  }
  return absl::UnimplementedError(absl::StrCat("none for ", shape.Key()));
}

// Not a test: the child's program.
TEST(TrialChild, DISABLED_Serves) { _exit(ServeTrials(STDIN_FILENO, TryInOrder)); }

class TrialProcessTest : public ::testing::Test {
 protected:
  TrialProcessTest() { shape_.rows = shape_.columns = shape_.depth = 3; }
  ~TrialProcessTest() override { unsetenv(kAlgorithms); }

  TrialProcess::Options OptionsFor(const std::string& algorithms) {
    setenv(kAlgorithms, algorithms.c_str(), /*overwrite=*/1);
    return {.command = {"/proc/self/exe", "--gtest_filter=TrialChild.*",
                        "--gtest_also_run_disabled_tests"},
            .on_fault = [this] { ++faults_; },
            .warn = [this](absl::string_view what) { warnings_.emplace_back(what); }};
  }

  ProductShape shape_;
  int faults_ = 0;
  std::vector<std::string> warnings_;
};

TEST_F(TrialProcessTest, GivesWhatTheChildChose) {
  TrialProcess trials(OptionsFor("7"));
  for (int task = 0; task < 3; ++task) {
    ASSERT_OK_AND_ASSIGN(const Choice choice, trials.Choose(shape_));
    EXPECT_EQ(choice.bytes, "7");
    EXPECT_EQ(choice.work, KernelWork::kTrial);
    EXPECT_TRUE(choice.lasting);
  }
  EXPECT_EQ(faults_, 0);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(TrialProcessTest, WhatWasNotTimedDoesNotLast) {
  TrialProcess trials(OptionsFor("untimed"));
  ASSERT_OK_AND_ASSIGN(const Choice choice, trials.Choose(shape_));
  EXPECT_FALSE(choice.lasting);
  EXPECT_EQ(choice.work, std::nullopt);
}

TEST_F(TrialProcessTest, GivesTheChildsErrors) {
  TrialProcess trials(OptionsFor("fails"));
  EXPECT_THAT(trials.Choose(shape_),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("none runs")));
  EXPECT_EQ(faults_, 0);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(TrialProcessTest, LeavesOutAnAlgorithmThatFaults) {
  TrialProcess trials(OptionsFor("faults,7"));
  ASSERT_OK_AND_ASSIGN(const Choice choice, trials.Choose(shape_));
  EXPECT_EQ(choice.bytes, "7");
  EXPECT_TRUE(choice.lasting);
  EXPECT_EQ(faults_, 1);
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr(shape_.Key()), HasSubstr("exit code 1"))));
}

TEST_F(TrialProcessTest, LeavesOutAnAlgorithmThatCrashes) {
  TrialProcess trials(OptionsFor("crashes,faults,7"));
  EXPECT_EQ(trials.Choose(shape_).value().bytes, "7");
  EXPECT_THAT(warnings_,
              ElementsAre(HasSubstr(absl::StrCat("signal ", SIGABRT)), HasSubstr("exit code 1")));
}

TEST_F(TrialProcessTest, LeavesOutAnAlgorithmThatHangs) {
  TrialProcess::Options options = OptionsFor("hangs");
  options.patience = absl::Milliseconds(50);
  TrialProcess trials(std::move(options));
  EXPECT_THAT(trials.Choose(shape_),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("none for")));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr(absl::StrCat("signal ", SIGKILL))));
}

TEST_F(TrialProcessTest, GivesUpAShapeThatEndsOneChildAfterTheOther) {
  TrialProcess trials(OptionsFor("faults 1,faults 2,faults 3,faults 4,7"));
  EXPECT_THAT(trials.Choose(shape_),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("ended one by one")));
  EXPECT_EQ(faults_, 4);
}

TEST_F(TrialProcessTest, IsOfNoUseWhereNoChildStays) {
  for (const char* program : {"/bin/true", "/nowhere/latentd"}) {
    TrialProcess::Options options = OptionsFor("7");
    options.command = {program};
    TrialProcess trials(std::move(options));
    warnings_.clear();
    for (int task = 0; task < 2; ++task) {
      EXPECT_THAT(trials.Choose(shape_), StatusIs(absl::StatusCode::kUnavailable, _)) << program;
    }
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr("tried in this process")));
  }
}

TEST(TrialPacketsTest, ATaskIsReadAsItWasWritten) {
  TrialTask task{.number = 9, .left_out = {std::string("\0a", 2), ""}};
  task.shape.rows = 1;
  task.shape.columns = 2;
  task.shape.depth = 3;
  task.shape.batch = 4;
  task.shape.a = {device::DType::kBF16, 5, 6, 16};
  task.shape.b = {device::DType::kF16, 7, 8, 32};
  task.shape.result = {device::DType::kF32, 9, 10, 64};
  task.shape.b_transposed = task.shape.has_residual = true;
  task.shape.scale = 0.125f;
  const std::string packet = Write(task);
  ASSERT_OK_AND_ASSIGN(const TrialTask read, ReadTask(packet));
  EXPECT_EQ(read.number, 9u);
  EXPECT_EQ(read.shape.Key(), task.shape.Key());
  EXPECT_EQ(read.shape.scale, 0.125f);
  EXPECT_FALSE(read.shape.has_bias);
  EXPECT_EQ(read.left_out, task.left_out);
  EXPECT_EQ(Write(read), packet);
  for (size_t size = 0; size < packet.size(); ++size) {
    EXPECT_THAT(ReadTask(packet.substr(0, size)), StatusIs(absl::StatusCode::kInvalidArgument, _));
    EXPECT_THAT(ReadReport(packet.substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument, _));
  }
}

TEST(TrialPacketsTest, AReportIsReadAsItWasWritten) {
  const auto read = [](const TrialReport& report) { return ReadReport(Write(report)).value(); };
  const TrialReport next = read({.number = 3, .algorithm = "seven"});
  EXPECT_EQ(next.number, 3u);
  EXPECT_EQ(next.algorithm, "seven");
  EXPECT_FALSE(next.answer.has_value());
  const TrialReport chosen = read({.number = 4, .answer = Choice{"7", KernelWork::kTrial}});
  EXPECT_EQ(chosen.answer.value()->bytes, "7");
  const TrialReport failed = read({.number = 5, .answer = absl::InternalError("wrong")});
  EXPECT_THAT(*failed.answer, StatusIs(absl::StatusCode::kInternal, HasSubstr("wrong")));
}

}  // namespace
}  // namespace latentd::backends::cuda
