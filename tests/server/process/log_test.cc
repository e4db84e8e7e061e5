#include "server/process/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/process/async_log.h"
#include "tests/server/full_pipe.h"
#include "tests/support/recording_sink.h"
#include "tests/support/sanitized.h"

namespace latentd::server::process {
namespace {

TEST(LogTest, TextLinesHaveKeysAndValues) {
  EXPECT_EQ(FormatText("request", {{"id", "a1"}, {"steps", 20}, {"code", "OK"}}),
            "request id=a1 steps=20 code=OK");
}

TEST(LogTest, TextLinesStayOneLine) {
  EXPECT_EQ(FormatText("a\nb", {{"peer", "x y\n\"z\""}, {"empty", ""}}),
            R"(a b peer="x y\n'z'" empty="")");
}

TEST(LogTest, TextIsForPeopleAndForgesNoField) {
  EXPECT_EQ(FormatText("request", {{"reason", R"(bucket "64x64" is at C:\x)"}}),
            R"(request reason="bucket '64x64' is at C:\x")");
  EXPECT_EQ(FormatText("request", {{"peer", R"(x" code="OK)"}}), R"(request peer="x' code='OK")");
  EXPECT_EQ(FormatText("request", {{"peer", R"(\" code=OK)"}}), R"(request peer="\' code=OK")");
}

TEST(LogTest, JsonLinesAreTheMembersOfAnObject) {
  const std::string line = FormatJson("say \"hi\"", {{"steps", 20}, {"peer", "a\nb\xFF"}});
  const auto object = nlohmann::json::parse("{" + line + "}");
  EXPECT_EQ(object["message"], "say \"hi\"");
  EXPECT_EQ(object["steps"], 20);
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

class AsyncLogTest : public ::testing::Test {
 protected:
  static AsyncLog::Options Into(int file) {
    return {.file = file, .most_lines = 8, .pattern = "%v", .dropped_text = [](size_t dropped) {
              return absl::StrCat("dropped ", dropped);
            }};
  }

  testing::FullPipe pipe_;
};

TEST_F(AsyncLogTest, ALogThatNobodyReadsHoldsUpNobodyAndSaysWhatItLost) {
  constexpr int kLines = 1000;
  int64_t dropped = 0;
  {
    AsyncLog log(Into(pipe_.writer()));
    for (int i = 0; i < kLines; ++i) log.logger()->info("{}", i);
    EXPECT_FALSE(log.Flush(absl::ZeroDuration()));
    pipe_.StartReading();
    EXPECT_TRUE(log.Flush(testing::kLongestWait));
    dropped = log.dropped();
  }
  int64_t lines = 0, told = 0;
  std::string last;
  for (const absl::string_view line : absl::StrSplit(pipe_.ReadToEnd(), '\n', absl::SkipEmpty())) {
    int64_t untold = 0;
    last = std::string(line);
    absl::string_view number = line;
    if (absl::ConsumePrefix(&number, "dropped ") && absl::SimpleAtoi(number, &untold)) {
      told += untold;
    } else {
      ++lines;
    }
  }
  EXPECT_EQ(last, absl::StrCat(kLines - 1));
  EXPECT_LE(lines, 8 + 1);  // those that waited, and one that was being written
  EXPECT_EQ(told, dropped);
  EXPECT_EQ(lines + dropped, kLines);
}

// Whoever shares standard error may have made it so.
TEST_F(AsyncLogTest, LinesAreWholeWhereThePipeDoesNotWait) {
  ASSERT_EQ(fcntl(pipe_.writer(), F_SETFL, O_NONBLOCK), 0);
  const std::string line(3 * testing::FullPipe::kBytes, 'x');
  AsyncLog log(Into(pipe_.writer()));
  log.logger()->info("{}", line);
  EXPECT_FALSE(log.Flush(absl::ZeroDuration()));
  pipe_.StartReading();
  EXPECT_TRUE(log.Flush(testing::kLongestWait));
  EXPECT_EQ(pipe_.ReadToEnd(), line + "\n");
}

TEST(LogDeathTest, TheLastLineIsThereHoweverTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto say = [] {
    SetUpLogging(latent::v1::TEXT, latent::v1::INFO);
    for (int i = 0; i < 100; ++i) Log(latent::v1::INFO, "word", {{"number", i}});
  };
  const auto last = ::testing::HasSubstr("info word number=99\n");
  EXPECT_EXIT((say(), EndAfterLastLine(3)), ::testing::ExitedWithCode(3), last);
#if !defined(LATENTD_SANITIZED)  // ThreadSanitizer holds signals back
  EXPECT_EXIT((say(), std::abort()), ::testing::KilledBySignal(SIGABRT), last);
#endif
}

}  // namespace
}  // namespace latentd::server::process
