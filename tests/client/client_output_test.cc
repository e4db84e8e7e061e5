// Output that users see: progress and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "absl/strings/str_split.h"
#include "client/options/request_options.h"
#include "client/output/error_text.h"
#include "client/output/json_output.h"
#include "client/output/progress_display.h"
#include "client/rpc/error_details.h"
#include "client/rpc/image_assembler.h"
#include "client/words/option_words.h"
#include "tests/client/failed_calls.h"
#include "tests/support/fake_clock.h"

namespace latentd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

v1::GenerateEvent Step(int step, int total, v1::Stage stage = v1::STAGE_STEPS) {
  v1::GenerateEvent event;
  event.mutable_progress()->set_step(step);
  event.mutable_progress()->set_total_steps(total);
  event.mutable_progress()->set_stage(stage);
  event.mutable_progress()->set_model("base");
  return event;
}

google::rpc::ErrorInfo Reason(const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("latentd");
  return info;
}

TEST(ProgressDisplayTest, ABarFillsUp) {
  EXPECT_EQ(BarText(Step(15, 30).progress(), 1, 80),
            "base      15/30 [===============>              ]  50%");
  EXPECT_THAT(BarText(Step(30, 30).progress(), 1, 80),
              HasSubstr("[==============================]"));
  EXPECT_THAT(BarText(Step(0, 0).progress(), 2, 80), HasSubstr("picture 1/2"));
}

TEST(ProgressDisplayTest, ABarFitsANarrowTerminal) {
  EXPECT_EQ(BarText(Step(15, 30).progress(), 1, 39), "base      15/30 [========>       ]  50%");
  EXPECT_EQ(BarText(Step(15, 30).progress(), 1, 28), "base      15/30 [==>  ]  50%");
  EXPECT_EQ(BarText(Step(15, 30).progress(), 1, 27), "base      15/30  50%");
  EXPECT_EQ(BarText(Step(15, 30).progress(), 1, 19), "base      15/30");
  EXPECT_EQ(BarText(Step(15, 30).progress(), 4, 39), "picture 1/4 base      15/30  50%");
  EXPECT_EQ(BarText(Step(15, 30).progress(), 4, 19), "base      15/30");
  EXPECT_EQ(BarText(Step(15, 30).progress(), 4, 3), "bas");
  for (int columns = 0; columns < 100; ++columns) {
    for (const int pictures : {1, 16}) {
      EXPECT_LE(BarText(Step(100, 150).progress(), pictures, columns).size(),
                static_cast<size_t>(columns));
    }
  }
}

TEST(ProgressDisplayTest, NoLineReachesTheLastColumn) {
  v1::GenerateEvent queued, started;
  queued.mutable_queued()->set_position(3);
  started.mutable_started()->mutable_executed_size()->set_width(1024);
  for (const int columns : {1, 2, 20, 40, 80}) {
    std::ostringstream out;
    ProgressDisplay display(out, DisplayStyle::kBar, 4, [columns] { return columns; });
    for (const v1::GenerateEvent& event : {queued, started, Step(15, 30)}) display.Show(event);
    for (const absl::string_view line : absl::StrSplit(out.str(), "\r\033[K")) {
      EXPECT_LT(line.size(), static_cast<size_t>(columns)) << line;
    }
  }
}

TEST(ProgressDisplayTest, TheTerminalsWidthIsAskedForEachTime) {
  std::ostringstream out;
  int columns = 80;
  ProgressDisplay display(out, DisplayStyle::kBar, 1, [&columns] { return columns; });
  display.Show(Step(1, 2));
  const size_t wide = out.str().size();
  columns = 20;
  display.Show(Step(1, 2));
  EXPECT_LT(out.str().size() - wide, wide);
}

TEST(ProgressDisplayTest, OnATerminalTheBarStaysOnItsLineAndGoes) {
  std::ostringstream out;
  {
    ProgressDisplay display(out, DisplayStyle::kBar, 1);
    display.Show(Step(1, 2));
    display.Show(Step(2, 2));
  }
  EXPECT_THAT(out.str(), Not(HasSubstr("\n")));
  EXPECT_EQ(out.str().substr(out.str().size() - 4), "\r\033[K");
}

TEST(ProgressDisplayTest, ElsewhereThereIsALineEveryTenSeconds) {
  testing::FakeClock clock;
  std::ostringstream out;
  ProgressDisplay display(
      out, DisplayStyle::kLines, 2, [] { return 0; }, clock);
  v1::GenerateEvent started, waiting;
  started.mutable_started()->mutable_executed_size()->set_width(64);
  waiting.mutable_queued()->set_position(2);
  display.Show(waiting);
  display.Show(waiting);
  display.Show(started);  // always
  for (int step = 1; step <= 100; ++step) {
    display.Show(Step(step, 100));
    clock.Advance(absl::Milliseconds(250));
  }
  EXPECT_EQ(out.str(),
            "waiting for 2 pictures before this one\ndrawing 64x0\n"
            "picture 1/2 base 41/100\npicture 1/2 base 81/100\n");
}

TEST(ProgressDisplayTest, ABarShowsEveryStep) {
  testing::FakeClock clock;
  std::ostringstream out;
  ProgressDisplay display(
      out, DisplayStyle::kBar, 1, [] { return 80; }, clock);
  for (int step = 1; step <= 3; ++step) display.Show(Step(step, 3));
  for (const char* step : {"1/3", "2/3", "3/3"}) EXPECT_THAT(out.str(), HasSubstr(step));
}

TEST(ProgressDisplayTest, QuietIsQuiet) {
  std::ostringstream out;
  ProgressDisplay display(out, DisplayStyle::kNone, 1);
  display.Show(Step(1, 2));
  EXPECT_EQ(out.str(), "");
}

TEST(ErrorTextTest, BadFieldsAreNamedAsTheyWereTyped) {
  google::rpc::BadRequest bad_request;
  auto& width = *bad_request.add_field_violations();
  width.set_field("width");
  width.set_description("must be a multiple of 8");
  auto& steps = *bad_request.add_field_violations();
  steps.set_field("num_inference_steps");
  steps.set_description("must be 1 to 150");
  const grpc::Status status = StatusWith(grpc::StatusCode::INVALID_ARGUMENT, "x", bad_request);
  EXPECT_EQ(ErrorText(status, "host:1", &OptionSpelling),
            "the server refused the request:\n  --width: must be a multiple of 8\n"
            "  --num-inference-steps: must be 1 to 150");
  EXPECT_EQ(ExitCodeFor(status, true), ExitCode::kRefused);
}

TEST(ErrorTextTest, FieldsInMessagesAreSpelledAsTheyAreTyped) {
  google::rpc::BadRequest bad_request;
  auto& sigmas = *bad_request.add_field_violations();
  sigmas.set_field("sigmas");
  sigmas.set_description("only one of num_inference_steps, timesteps and sigmas may be set");
  auto& quality = *bad_request.add_field_violations();
  quality.set_field("output.quality");
  quality.set_description("applies to FORMAT_JPEG and FORMAT_WEBP only");
  EXPECT_EQ(ErrorText(StatusWith(grpc::StatusCode::INVALID_ARGUMENT, "x", bad_request), "host:1",
                      &OptionSpelling),
            "the server refused the request:\n"
            "  --sigmas: only one of --num-inference-steps, timesteps and sigmas may be set\n"
            "  --quality: applies to jpeg and webp only");
  EXPECT_EQ(ErrorText(grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                                   "say bucket_policy BUCKET_POLICY_COLD_OK"),
                      "host:1", &OptionSpelling),
            "say --bucket-policy cold_ok");
}

TEST(OptionWordsTest, WhatIsNoFieldStays) {
  for (const char* text : {"", "text_encoder_2 at /a_b/prompt", "unet_base step 64x64", "seed",
                           "v_prediction, (x_y) image\n", "--num-inference-steps"}) {
    EXPECT_EQ(WithOptionNames(text), text);
  }
  EXPECT_EQ(WithOptionNames("(clip_skip)"), "(--clip-skip)");
  EXPECT_EQ(WithOptionNames("/models/clip_skip/x"), "/models/clip_skip/x");
  EXPECT_EQ(WithOptionNames("my_clip_skip clip_skips"), "my_clip_skip clip_skips");
}

TEST(ErrorTextTest, SaysWhichSizesAreReady) {
  google::rpc::ErrorInfo cold = Reason("BUCKET_COLD");
  (*cold.mutable_metadata())["buckets"] = "64x64,96x64";
  const auto text = [&](const google::rpc::ErrorInfo& info) {
    return ErrorText(
        StatusWith(grpc::StatusCode::FAILED_PRECONDITION, "320x192 is not ready", info), "host:1",
        &OptionSpelling);
  };
  EXPECT_EQ(text(cold), "320x192 is not ready\nready are 64x64,96x64");
  cold.set_domain("somebody else's");
  EXPECT_EQ(text(cold), "320x192 is not ready");
}

TEST(ErrorTextTest, SaysWhenToTryAgain) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(2);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  const grpc::Status status = StatusWith(grpc::StatusCode::RESOURCE_EXHAUSTED, "64 pictures wait",
                                         Reason("QUEUE_FULL"), retry);
  EXPECT_EQ(ErrorText(status, "host:1", &OptionSpelling), "64 pictures wait\ntry again in 2.5 s");
  EXPECT_EQ(ErrorReason(status), "QUEUE_FULL");
}

TEST(ErrorTextTest, ARequestThatGrpcDoesNotReadIsTooLarge) {
  const grpc::Status large(grpc::StatusCode::RESOURCE_EXHAUSTED,
                           "Received message larger than max (60000031 vs. 33554432)");
  EXPECT_EQ(ErrorText(large, "host:1", &OptionSpelling),
            "the request has more bytes than the server takes: send smaller images, or start "
            "latentd with a larger --max-request-bytes\n(Received message larger than max "
            "(60000031 vs. 33554432))");
  EXPECT_EQ(ExitCodeFor(large, true), ExitCode::kRefused);
}

TEST(ErrorTextTest, NobodyThereIsNotTheSameAsRefused) {
  const grpc::Status nobody(grpc::StatusCode::UNAVAILABLE, "Connection refused");
  EXPECT_THAT(ErrorText(nobody, "host:1", &OptionSpelling), HasSubstr("host:1"));
  EXPECT_EQ(ExitCodeFor(nobody, false), ExitCode::kUnreachable);
  EXPECT_EQ(ExitCodeFor(nobody, true), ExitCode::kFailed);
  const grpc::Status loading =
      StatusWith(grpc::StatusCode::UNAVAILABLE, "loading", Reason("LOADING"));
  EXPECT_EQ(ExitCodeFor(loading, false), ExitCode::kRefused);
}

TEST(ErrorTextTest, WhereNothingListensItSaysWhatToStart) {
  for (const std::string& status : {kRefused, kNoSocket}) {
    EXPECT_THAT(
        ErrorText(grpc::Status(grpc::StatusCode::UNAVAILABLE, status), "host:1", &OptionSpelling),
        AllOf(StartsWith("nothing listens at host:1: start a server with `latentd`"),
              HasSubstr("health --wait"), Not(HasSubstr("ipv4"))));
  }
  EXPECT_EQ(
      ErrorText(grpc::Status(grpc::StatusCode::UNAVAILABLE, kNoHost), "nohost:1", &OptionSpelling),
      "no host has the name in --server nohost:1");
}

TEST(JsonOutputTest, BytesThatAreNoTextStayVisible) {
  EXPECT_EQ(JsonString("caf\xE9.png"), R"("caf\\xe9.png")");
  EXPECT_EQ(JsonString("caf\xC3\xA9.png"), "\"caf\xC3\xA9.png\"");
}

TEST(JsonOutputTest, TextIsQuoted) { EXPECT_EQ(JsonString("a \"b\"\n"), R"("a \"b\"\n")"); }

TEST(ErrorTextTest, APortWithoutTheServiceSaysWhereItIs) {
  const grpc::Status unserved(grpc::StatusCode::UNIMPLEMENTED, "");
  EXPECT_THAT(ErrorText(unserved, "host:1", &OptionSpelling),
              AllOf(StartsWith("host:1 does not serve this call"), HasSubstr("--admin-listen")));
  EXPECT_EQ(ExitCodeFor(unserved, /*connected=*/true), ExitCode::kRefused);
}

TEST(ErrorTextTest, FaultsAreFailures) {
  EXPECT_EQ(ExitCodeFor(grpc::Status(grpc::StatusCode::INTERNAL, ""), true), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeFor(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, ""), true),
            ExitCode::kFailed);
  EXPECT_EQ(ExitCodeFor(grpc::Status::OK, true), ExitCode::kOk);
}

v1::ImageChunk Chunk(int index, int64_t offset, int64_t total, const std::string& data) {
  v1::ImageChunk chunk;
  chunk.set_index(index);
  chunk.set_seed(9);
  chunk.set_offset(offset);
  chunk.set_total_bytes(total);
  chunk.set_data(data);
  return chunk;
}

TEST(ImageAssemblerTest, PutsChunksTogether) {
  ImageAssembler assembler;
  ASSERT_TRUE(assembler.Add(Chunk(0, 0, 5, "abc")).ok());
  EXPECT_FALSE(assembler.complete());
  ASSERT_TRUE(assembler.Add(Chunk(0, 3, 5, "de")).ok());
  ASSERT_TRUE(assembler.complete());
  EXPECT_EQ(assembler.Take().data(), "abcde");
  ASSERT_TRUE(assembler.Add(Chunk(1, 0, 1, "x")).ok());
  EXPECT_EQ(assembler.Take().index(), 1);
}

TEST(ImageAssemblerTest, RefusesWhatDoesNotFitTogether) {
  for (const v1::ImageChunk& next :
       {Chunk(0, 2, 5, "x"), Chunk(0, 4, 5, "x"), Chunk(1, 3, 5, "x"), Chunk(0, 3, 9, "x"),
        Chunk(0, 3, 5, "xyz"), Chunk(0, 0, 5, "x")}) {
    ImageAssembler assembler;
    ASSERT_TRUE(assembler.Add(Chunk(0, 0, 5, "abc")).ok());
    EXPECT_EQ(assembler.Add(next).error_code(), grpc::StatusCode::DATA_LOSS);
  }
}

TEST(ImageAssemblerTest, DoesNotBelieveHugeSizes) {
  ImageAssembler assembler;
  EXPECT_EQ(assembler.Add(Chunk(0, 0, int64_t{1} << 50, "x")).error_code(),
            grpc::StatusCode::DATA_LOSS);
}

}  // namespace
}  // namespace latentd::client
