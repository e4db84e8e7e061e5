// A wire of a pair of sockets, which the test's thread runs.
#include "server/http/wire.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>

#include "core/metrics/registry.h"

namespace latentd::server::http {
namespace {

using Outcome = Wire::Outcome;

class WireTest : public ::testing::Test {
 protected:
  WireTest() {
    int ends[2] = {};
    const int made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends);
    EXPECT_EQ(made, 0);
    client_ = ends[0];
    wire_ = Wire::Make(io_, ends[1], nullptr, metrics_);
  }
  ~WireTest() override {
    wire_->Close();
    close(client_);
    RunAll();
  }

  void Send(const std::string& bytes) {
    ASSERT_EQ(send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  void RunAll() {
    io_.restart();
    io_.run();
  }

  Outcome ReadHead() {
    std::optional<Outcome> outcome;
    wire_->ReadHead([&](Outcome said) { outcome = said; });
    RunAll();
    return outcome.value_or(Outcome::kGone);
  }

  Outcome ReadBody(int64_t most) {
    std::optional<Outcome> outcome;
    wire_->ReadBody(most, [&](Outcome said) { outcome = said; });
    EXPECT_FALSE(outcome) << "it is said later";
    RunAll();
    return outcome.value_or(Outcome::kGone);
  }

  boost::asio::io_context io_;
  metrics::Registry registry_;
  const HttpMetrics metrics_{registry_};
  int client_ = -1;
  std::shared_ptr<Wire> wire_;
};

TEST_F(WireTest, ABodyHasAsManyBytesAsItMay) {
  for (const char* framing : {"Content-Length: 5\r\n\r\nhello",
                              "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"}) {
    Send(std::string("POST / HTTP/1.1\r\nHost: a\r\n") + framing);
    ASSERT_EQ(ReadHead(), Outcome::kDone);
    ASSERT_EQ(ReadBody(5), Outcome::kDone) << framing;
    EXPECT_EQ(wire_->TakeBody(), "hello");
  }
}

// No place is made for what is said of a body that may not be so large.
TEST_F(WireTest, ABodyIsTooLargeByItsLengthAlone) {
  for (const char* length : {"6", "4444444415"}) {
    Send(std::string("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ") + length + "\r\n\r\n");
    ASSERT_EQ(ReadHead(), Outcome::kDone);
    EXPECT_EQ(ReadBody(5), Outcome::kBodyTooLarge) << length;
    EXPECT_TRUE(wire_->HasUnreadBody());
  }
}

TEST_F(WireTest, ChunksAreTooLargeTogether) {
  Send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  ASSERT_EQ(ReadHead(), Outcome::kDone);
  Send("3\r\nhel\r\n3\r\nlo!\r\n0\r\n\r\n");
  EXPECT_EQ(ReadBody(5), Outcome::kBodyTooLarge);
}

TEST_F(WireTest, EmptyLinesAreNoPartOfWhatComesNext) {
  Send("\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx\r\n\r\n");
  ASSERT_EQ(ReadHead(), Outcome::kDone);
  ASSERT_EQ(ReadBody(5), Outcome::kDone);
  EXPECT_EQ(wire_->TakeBody(), "x");
  EXPECT_FALSE(wire_->HasReadAhead());
  std::optional<bool> is_there;
  Send("\r\n");
  wire_->ReadAhead([&](bool here) { is_there = here; });
  RunAll();
  EXPECT_EQ(is_there, true);
  EXPECT_FALSE(wire_->HasReadAhead()) << "of an empty line alone";
}

}  // namespace
}  // namespace latentd::server::http
