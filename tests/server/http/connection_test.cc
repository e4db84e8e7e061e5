// A connection over a wire whose handlers the test calls, in the order that it says.
#include "server/http/connection.h"

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <deque>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/generation/caller.h"
#include "tests/server/completed_video.h"
#include "tests/server/http/service_rig.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::http {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Not thread-safe: all of it is called by the test's thread.
class ScriptedWire final : public Wire {
 public:
  void Post(std::shared_ptr<Posted> posted) override {
    Later([posted = std::move(posted)] { posted->Run(); });
  }
  std::optional<std::string> Peer() override { return "ipv4:127.0.0.1:1"; }
  void Handshake(DoneHandler done) override { done(true); }
  PeerCertificate Certificate() override { return {}; }
  void ReadHead(ReadHandler done) override { head_is_read_ = std::move(done); }
  RequestHead Head() const override { return {.request = request_, .keep_alive = true}; }
  void ReadBody(int64_t, ReadHandler done) override { done(Outcome::kDone); }
  bool HasUnreadBody() const override { return false; }
  std::string TakeBody() override { return std::exchange(request_.body, ""); }
  void ReadAhead(DoneHandler done) override { ahead_is_read_ = std::move(done); }
  bool HasReadAhead() const override { return false; }
  bool IsReading() const override { return ahead_is_read_ != nullptr; }
  void Write(std::string bytes, DoneHandler done) override {
    written_ += bytes;
    is_written_ = std::move(done);
  }
  void Arm(absl::Duration time, Handler due) override {
    if (closed_) return;
    armed_ = time;
    due_ = std::move(due);
  }
  void Disarm() override {
    armed_.reset();
    due_ = nullptr;
  }
  void SayGoodbye() override {}
  // Ends reads that are under way.
  void Close() override {
    closed_ = true;
    Disarm();
    if (auto read = std::exchange(head_is_read_, nullptr)) Later([read] { read(Outcome::kGone); });
    if (auto read = std::exchange(ahead_is_read_, nullptr)) Later([read] { read(false); });
  }
  bool is_closed() const override { return closed_; }

  // All that was posted, and what that posts.
  void RunPosted() {
    while (!posted_.empty()) {
      const Handler function = std::move(posted_.front());
      posted_.pop_front();
      function();
    }
  }
  void Receive(Request request) {
    request_ = std::move(request);
    std::exchange(head_is_read_, nullptr)(Outcome::kDone);
    RunPosted();
  }
  void ClientLeaves() {
    std::exchange(ahead_is_read_, nullptr)(false);
    RunPosted();
  }
  void EndWrite(bool sent) {
    std::exchange(is_written_, nullptr)(sent);
    RunPosted();
  }
  // The timer's, as it was set last; nothing: it is not set.
  std::optional<absl::Duration> armed() const { return armed_; }
  void TimeIsUp() {
    std::exchange(due_, nullptr)();
    RunPosted();
  }
  bool IsWriting() const { return is_written_ != nullptr; }
  const std::string& written() const { return written_; }

 private:
  void Later(Handler function) { posted_.push_back(std::move(function)); }

  std::deque<Handler> posted_;
  Request request_;
  ReadHandler head_is_read_;
  DoneHandler ahead_is_read_, is_written_;
  std::optional<absl::Duration> armed_;
  Handler due_;
  std::string written_;
  bool closed_ = false;
};

class ConnectionTest : public ServiceTest {
 protected:
  ConnectionTest() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
    connection_ = StartConnection(wire_);
    wire_->RunPosted();
  }
  ~ConnectionTest() override {
    connection_->Close();
    wire_->RunPosted();
    if (wire_->IsWriting()) wire_->EndWrite(/*sent=*/false);
    spdlog::set_default_logger(log_before_);
  }

  void Ask(const std::string& body) {
    wire_->Receive({.method = "POST",
                    .path = "/v1/images/generations",
                    .headers = {{"Host", "localhost"}, {"Content-Type", "application/json"}},
                    .body = body});
  }
  // A picture that is ready to be sent.
  void Draw() {
    Ask(R"({"prompt": "a star"})");
    engine_.Send(engine::Image{.size = {64, 32}, .bytes = "picture"});
    engine_.Send(engine::Completed{});
    wire_->RunPosted();
  }

  // The file of a video, of so many bytes.
  void AskForFile(size_t bytes) {
    const std::string caller = generation::HostOf(*wire_->Peer());
    const auto job =
        std::make_shared<VideoJob>(service_.environment, generation::Client{.caller = caller},
                                   std::vector<ServedModel>(), videos_.limits().bytes);
    ASSERT_OK(job->Enter());
    ASSERT_OK(job->Start({.method = "POST", .body = R"({"image": "QUJD"})"}));
    videos_.Add(caller, job);
    engine_.Send(engine::Image{.bytes = std::string(bytes, 'x'),
                               .part = engine::VideoPart{.is_last = true}});
    engine_.Send(CompletedVideo());
    wire_->Receive({.method = "GET",
                    .path = absl::StrCat("/v1/videos/", job->id(), "/content"),
                    .headers = {{"Host", "localhost"}}});
  }

  const std::shared_ptr<spdlog::logger> log_before_ = spdlog::default_logger();
  std::ostringstream log_;
  const std::shared_ptr<ScriptedWire> wire_ = std::make_shared<ScriptedWire>();
  std::shared_ptr<Connection> connection_;
};

TEST_F(ConnectionTest, AClientThatLeavesBehindItsRefusalWasRefused) {
  Ask(R"({"prompt": "a star", "nonsense": 1})");
  EXPECT_THAT(wire_->written(), StartsWith("HTTP/1.1 400 "));
  wire_->ClientLeaves();
  EXPECT_TRUE(wire_->is_closed());
  EXPECT_EQ(log_.str(), "");
  wire_->EndWrite(/*sent=*/true);
  EXPECT_THAT(log_.str(), AllOf(HasSubstr("code=INVALID_ARGUMENT"), HasSubstr("http=400")));
}

TEST_F(ConnectionTest, AClientThatLeavesBehindItsPictureHasIt) {
  Draw();
  EXPECT_THAT(wire_->written(), StartsWith("HTTP/1.1 200 "));
  wire_->ClientLeaves();
  wire_->EndWrite(/*sent=*/true);
  EXPECT_THAT(log_.str(), AllOf(HasSubstr("code=OK"), HasSubstr("http=200")));
}

TEST_F(ConnectionTest, AClientThatLeavesBeforeTheEndOfItsAnswerHasLeft) {
  Draw();
  wire_->ClientLeaves();
  wire_->EndWrite(/*sent=*/false);
  EXPECT_THAT(log_.str(), HasSubstr("http=499"));
}

TEST_F(ConnectionTest, AnAnswerThatCannotBeSentHasNoClient) {
  Draw();
  wire_->EndWrite(/*sent=*/false);
  EXPECT_TRUE(wire_->is_closed());
  EXPECT_THAT(log_.str(), HasSubstr("http=499"));
}

// A MiB has sixteen seconds beside the minute that any write has.
TEST_F(ConnectionTest, AnAnswerInPiecesHasATimeForAllOfThem) {
  AskForFile(1 << 20);
  EXPECT_THAT(wire_->written(), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(wire_->armed(), absl::Seconds(60));
  clock_.Advance(absl::Seconds(10));
  wire_->EndWrite(/*sent=*/true);
  EXPECT_EQ(wire_->armed(), absl::Seconds(60));
  clock_.Advance(absl::Seconds(59));
  wire_->EndWrite(/*sent=*/true);
  ASSERT_TRUE(wire_->IsWriting()) << "it was no answer in several pieces";
  EXPECT_EQ(wire_->armed(), absl::Seconds(7));
  wire_->TimeIsUp();
  EXPECT_TRUE(wire_->is_closed());
}

TEST_F(ConnectionTest, TheTimeOfAnAnswerEndsWithIt) {
  AskForFile(1 << 20);
  EXPECT_THAT(wire_->written(), StartsWith("HTTP/1.1 200 "));
  while (wire_->IsWriting()) wire_->EndWrite(/*sent=*/true);
  EXPECT_FALSE(wire_->is_closed());
  EXPECT_EQ(wire_->armed(), absl::Seconds(75)) << "for the next request";
}

TEST_F(ConnectionTest, AClientThatLeavesWhileItWaitsStopsItsWork) {
  Ask(R"({"prompt": "a star"})");
  wire_->ClientLeaves();
  engine_.WaitUntilCancelled();
  EXPECT_THAT(log_.str(), AllOf(HasSubstr("code=CANCELLED"), HasSubstr("http=499")));
  EXPECT_EQ(wire_->written(), "");
}

}  // namespace
}  // namespace latentd::server::http
