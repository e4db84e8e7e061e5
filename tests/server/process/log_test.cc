#include "server/process/logs/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/process/logs/async_log.h"
#include "tests/server/full_pipe.h"
#include "tests/server/no_memory.h"
#include "tests/support/recording_sink.h"
#include "tests/support/sanitized.h"

namespace latentd::server::process {
namespace {

using ::testing::ElementsAre;

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

TEST(LogTest, LinesAreUtf8WhateverTheyAreMadeOf) {
  const LogFields fields = {{"file", "caf\xE9"}, {"model", "caf\xC3\xA9"}};
  EXPECT_EQ(FormatText("no \xFF", fields), "no \\xff file=\"caf\\xe9\" model=\"caf\xC3\xA9\"");
  const auto object = nlohmann::json::parse("{" + FormatJson("no \xFF", fields) + "}");
  EXPECT_EQ(object["message"], "no \\xff");
  EXPECT_EQ(object["file"], "caf\\xe9");
  EXPECT_EQ(object["model"], "caf\xC3\xA9");
}

constexpr size_t kManyBytes = size_t{1} << 20;

class AsyncLogTest : public ::testing::Test {
 protected:
  struct Read {
    std::vector<std::string> lines;  // lines of the log
    int64_t told = 0;                // number of dropped lines that were reported
    std::string last;                // the last line
  };

  static AsyncLog::Options Into(int file, size_t most_lines = 8, size_t most_bytes = kManyBytes) {
    return {.file = file,
            .most_lines = most_lines,
            .most_bytes = most_bytes,
            .pattern = "%v",
            .dropped_text = [](size_t dropped) { return absl::StrCat("dropped ", dropped); }};
  }
  // REQUIRES: as FullPipe::ReadToEnd.
  Read ReadToEnd() {
    Read read;
    for (const absl::string_view line :
         absl::StrSplit(pipe_.ReadToEnd(), '\n', absl::SkipEmpty())) {
      int64_t untold = 0;
      absl::string_view number = line;
      if (absl::ConsumePrefix(&number, "dropped ") && absl::SimpleAtoi(number, &untold)) {
        read.told += untold;
      } else {
        read.lines.emplace_back(line);
      }
      read.last = std::string(line);
    }
    return read;
  }
  // "<number>xxx".
  static std::string LineOf(int number, size_t bytes) {
    std::string line = absl::StrCat(number);
    line.resize(bytes, 'x');
    return line;
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
  const Read read = ReadToEnd();
  EXPECT_EQ(read.last, absl::StrCat(kLines - 1));
  EXPECT_GE(read.lines.size(), 8u);
  EXPECT_LE(read.lines.size(), 8u + 1);  // the waiting ones, and one that was being written
  EXPECT_EQ(read.told, dropped);
  EXPECT_EQ(static_cast<int64_t>(read.lines.size()) + dropped, kLines);
}

TEST_F(AsyncLogTest, LongLinesThatNobodyReadsAreBoundedByTheirBytes) {
  constexpr int kLines = 100;
  constexpr size_t kBytes = 5000, kWaiting = 3;
  AsyncLog log(Into(pipe_.writer(), /*most_lines=*/kLines, kWaiting * kBytes));
  for (int i = 0; i < kLines; ++i) log.logger()->info(LineOf(i, kBytes));
  pipe_.StartReading();
  EXPECT_TRUE(log.Flush(testing::kLongestWait));
  const Read read = ReadToEnd();
  EXPECT_GE(read.lines.size(), kWaiting);
  EXPECT_LE(read.lines.size(), kWaiting + 1);  // as above
  std::vector<std::string> newest;
  for (size_t i = kLines - kWaiting; i < kLines; ++i) {
    newest.push_back(LineOf(static_cast<int>(i), kBytes));
  }
  EXPECT_TRUE(std::equal(newest.rbegin(), newest.rend(), read.lines.rbegin()));
  EXPECT_EQ(read.told, log.dropped());
  EXPECT_EQ(static_cast<int64_t>(read.lines.size()) + log.dropped(), kLines);
}

TEST_F(AsyncLogTest, BytesOfLinesThatWaitAreCountedUntilTheyAreRead) {
  constexpr size_t kBytes = 5000;
  AsyncLog log(Into(pipe_.writer(), /*most_lines=*/3));
  EXPECT_EQ(log.waiting_bytes(), 0);
  for (int i = 0; i < 10; ++i) log.logger()->info(LineOf(i, kBytes));
  EXPECT_GE(log.waiting_bytes(), static_cast<int64_t>(2 * kBytes));  // one may be being written
  EXPECT_LE(log.waiting_bytes(), static_cast<int64_t>(3 * kBytes));
  pipe_.StartReading();
  EXPECT_TRUE(log.Flush(testing::kLongestWait));
  EXPECT_EQ(log.waiting_bytes(), 0);
}

TEST_F(AsyncLogTest, LinesThatAreReadMakeRoomForOthersInOrder) {
  constexpr int kLines = 100;
  constexpr size_t kBytes = 5000;
  AsyncLog log(Into(pipe_.writer(), /*most_lines=*/2, 2 * kBytes));
  pipe_.StartReading();
  std::vector<std::string> logged;
  for (int i = 0; i < kLines; ++i) {
    logged.push_back(LineOf(i, kBytes));
    log.logger()->info(logged.back());
    ASSERT_TRUE(log.Flush(testing::kLongestWait));
  }
  EXPECT_EQ(log.dropped(), 0);
  EXPECT_EQ(ReadToEnd().lines, logged);
}

TEST_F(AsyncLogTest, ALineThatIsTooLongByItselfIsToldOfAndDrivesOutNoOther) {
  AsyncLog log(Into(pipe_.writer(), /*most_lines=*/8, /*most_bytes=*/100));
  log.logger()->info("written");
  log.logger()->info("waits");
  log.logger()->info(std::string(101, 'x'));
  log.logger()->info(std::string(80, 'y'));
  EXPECT_EQ(log.dropped(), 1);
  pipe_.StartReading();
  EXPECT_TRUE(log.Flush(testing::kLongestWait));
  const Read read = ReadToEnd();
  EXPECT_THAT(read.lines, ElementsAre("written", "waits", std::string(80, 'y')));
  EXPECT_EQ(read.told, 1);
}

TEST_F(AsyncLogTest, ALineThatThereIsNoMemoryForIsToldOf) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  const std::string line(100, 'x');
  AsyncLog log(Into(pipe_.writer()));
  testing::RefuseNext(1);
  log.logger()->info(line);
  EXPECT_EQ(log.dropped(), 1);
  pipe_.StartReading();
  log.logger()->info("after");
  EXPECT_TRUE(log.Flush(testing::kLongestWait));
  const Read read = ReadToEnd();
  EXPECT_THAT(read.lines, ElementsAre("after"));
  EXPECT_EQ(read.told, 1);
}

// Another process that shares standard error may have made it so.
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
