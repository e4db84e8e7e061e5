// The log lines of requests that are refused: who asked, and under which id.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "tests/server/no_memory.h"
#include "tests/server/running_server.h"
#include "tests/support/recording_sink.h"

namespace latentd::server::calls {
namespace {

namespace v1 = ::latent::v1;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class RequestLogTest : public RunningServer {
 protected:
  void SetUp() override {
    before_ = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
    RunningServer::SetUp();
  }
  void TearDown() override { spdlog::set_default_logger(before_); }

  // The line of one refused request.
  std::string Refuse(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    v1::GenerateResponse response;
    EXPECT_FALSE(stub_->Generate(&context, request, &response).ok());
    server_->Drain(absl::ZeroDuration());  // every line is written
    for (const absl::string_view line : absl::StrSplit(text_.str(), '\n')) {
      if (absl::StrContains(line, "] request ")) return std::string(line);
    }
    return "none in " + text_.str();
  }

  // The line of a call of operators.
  std::string AdminLine(const std::string& method) {
    server_->Drain(absl::ZeroDuration());
    for (const absl::string_view line : absl::StrSplit(text_.str(), '\n')) {
      if (absl::StrContains(line, "] admin method=" + method)) return std::string(line);
    }
    return "none in " + text_.str();
  }

  std::shared_ptr<spdlog::logger> before_;
  std::ostringstream text_;
};

v1::GenerateRequest Named(const std::string& id) {
  v1::GenerateRequest request;
  request.set_prompt("a star");
  request.set_request_id(id);
  return request;
}

TEST_F(RequestLogTest, ABadFieldKeepsTheClientsId) {
  v1::GenerateRequest request = Named("of-the-client");
  request.mutable_output()->set_quality(1000);
  EXPECT_THAT(Refuse(request),
              AllOf(HasSubstr("id=of-the-client "), HasSubstr("code=INVALID_ARGUMENT"),
                    HasSubstr("bad_fields=output.quality")));
}

TEST_F(RequestLogTest, AServerThatLoadsKeepsTheClientsId) {
  engine_.set_state(engine::State::kLoading);
  EXPECT_THAT(Refuse(Named("early")), AllOf(HasSubstr("id=early "), HasSubstr("reason=LOADING")));
}

// When a call has been told the time it is about to enter the server's list.
class RefusingClock : public testing::FakeClock {
 public:
  absl::Time Monotonic() const override {
    if (refuse.exchange(false)) testing::RefuseNext(1);
    return FakeClock::Monotonic();
  }
  mutable std::atomic<bool> refuse = false;
};

TEST_F(RequestLogTest, ACallThatThereIsNoMemoryToListLeavesALine) {
  if (!testing::NoMemoryFrom::Works()) GTEST_SKIP() << "the sanitizer brings its own operator new";
  server_.reset();
  RefusingClock refusing;
  Start({}, refusing);
  refusing.refuse = true;
  EXPECT_THAT(Refuse(Named("id")),
              AllOf(HasSubstr("method=Generate "), HasSubstr("code=RESOURCE_EXHAUSTED")));
  text_.str("");
  Start({}, refusing);
  refusing.refuse = true;
  grpc::ClientContext context;
  v1::GenerateEvent event;
  const auto reader = stub_->GenerateStream(&context, Named("id"));
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(text_.str(),
              AllOf(HasSubstr("method=GenerateStream "), HasSubstr("code=RESOURCE_EXHAUSTED")));
  server_.reset();
}

TEST_F(RequestLogTest, AnExportIsLoggedWithItsEnd) {
  engine_.graphs().entries = {{.id = "aaaaaaaa"}};
  engine_.graphs().entries[0].state = engine::GraphState::kCold;
  grpc::ClientContext context;
  v1::ExportGraphsRequest request;
  request.mutable_selector()->set_all(true);
  const auto reader = graph_cache_->ExportGraphs(&context, request);
  v1::GraphBytes message;
  EXPECT_FALSE(reader->Read(&message));
  EXPECT_THAT(AdminLine("ExportGraphs"),
              AllOf(HasSubstr("code=FAILED_PRECONDITION"), HasSubstr("reason=NOT_COMPILED")));
}

TEST_F(RequestLogTest, AnImportIsLoggedWithItsClient) {
  server_.reset();
  Start({.imports = {true, {.graph_bytes = 4 << 20, .stream_bytes = 6 << 20}}});
  grpc::ClientContext context;
  v1::GraphResults results;
  const auto writer = graph_cache_->ImportGraphs(&context, &results);
  writer->WritesDone();
  EXPECT_FALSE(writer->Finish().ok());
  EXPECT_THAT(AdminLine("ImportGraphs"),
              AllOf(HasSubstr("peer=unix:"), HasSubstr("code=INVALID_ARGUMENT")));
}

// A pipe that is full.
class StuckLog : public spdlog::sinks::base_sink<std::mutex> {
 public:
  absl::Notification reached, go_on;

 private:
  void sink_it_(const spdlog::details::log_msg& line) override {
    if (!absl::StartsWith({line.payload.data(), line.payload.size()}, "request ")) return;
    reached.Notify();
    go_on.WaitForNotification();
  }
  void flush_() override {}
};

TEST_F(RequestLogTest, ALogThatNobodyReadsHoldsUpNoEvent) {
  const auto stuck = std::make_shared<StuckLog>();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", stuck));
  grpc::ClientContext context;
  const auto reader = stub_->GenerateStream(&context, Named("id"));
  engine_.WaitForSpec();
  std::shared_ptr<engine::EventSink> call = engine_.SinkOf(0).lock();
  context.TryCancel();
  stuck->reached.WaitForNotification();
  absl::Notification told;
  std::thread loop([&] {
    call->OnEvent(engine::Progress{.step = 1, .total_steps = 2});
    told.Notify();
  });
  EXPECT_TRUE(told.WaitForNotificationWithTimeout(testing::kLongestWait));
  stuck->go_on.Notify();
  loop.join();
  call.reset();
  server_->Drain(absl::ZeroDuration());
}

TEST_F(RequestLogTest, ARequestWithoutAnIdGetsOne) {
  v1::GenerateRequest request = Named("");
  request.clear_prompt();
  EXPECT_THAT(Refuse(request), ContainsRegex("id=[0-9a-f]+ "));
}

TEST_F(RequestLogTest, WhatCannotBeAnIdIsReplacedAndNotLogged) {
  const std::string line = Refuse(Named("x code=OK"));
  EXPECT_THAT(line, ContainsRegex("id=[0-9a-f]+ "));
  EXPECT_THAT(line, AllOf(Not(HasSubstr("code=OK")), HasSubstr("bad_fields=request_id")));
}

}  // namespace
}  // namespace latentd::server::calls
