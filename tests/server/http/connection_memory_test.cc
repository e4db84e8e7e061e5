// Connections for whose functions there is no memory: each ends by itself, and nothing else does.
// All of a connection runs on the test's thread, for which memory is refused.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/http/connection.h"
#include "server/http/wire.h"
#include "tests/server/http/service_rig.h"
#include "tests/server/no_memory.h"

namespace latentd::server::http {
namespace {

using testing::RefuseNext;

constexpr int kAll = 1 << 30;
constexpr size_t kBytesOfALargeWrite = 4 << 20;  // more than a socket takes

// One end of a pair of sockets, which asks for no memory once it has its buffer.
class Client {
 public:
  Client() : received_(kBytesOfALargeWrite + 1, '\0') {
    int ends[2];
    const int made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends);
    EXPECT_EQ(made, 0);
    descriptor_ = ends[0];
    other_end_ = ends[1];
  }
  ~Client() { Leave(); }
  Client(const Client&) = delete;

  int other_end() const { return other_end_; }

  void Send(const std::string& bytes) const {
    const ssize_t sent = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    EXPECT_TRUE(sent == static_cast<ssize_t>(bytes.size()) || errno == EPIPE);
  }
  void Receive() {
    for (;;) {
      const ssize_t now = recv(descriptor_, received_.data() + size_, received_.size() - size_, 0);
      if (now == 0) is_left_ = true;
      if (now <= 0) return;
      size_ += static_cast<size_t>(now);
    }
  }
  void Leave() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }

  // The server has closed the connection.
  bool is_left() const { return is_left_; }
  absl::string_view received() const { return absl::string_view(received_).substr(0, size_); }

 private:
  int descriptor_ = -1, other_end_ = -1;
  std::string received_;
  size_t size_ = 0;
  bool is_left_ = false;
};

class ConnectionMemoryTest : public ServiceTest {
 protected:
  void SetUp() override {
    if (!testing::NoMemoryFrom::Works()) {
      GTEST_SKIP() << "the sanitizer brings its own operator new";
    }
  }

  // Runs all that can run now.
  void Poll() {
    io_.restart();
    io_.poll();
  }
  void PollWithoutMemory() {
    RefuseNext(kAll);
    Poll();
    RefuseNext(0);
  }

  std::shared_ptr<Wire> MakeWire(const Client& client) {
    return Wire::Make(io_, client.other_end(), nullptr, service_.metrics);
  }

  static constexpr absl::string_view kBody = R"({"prompt": "a star"})";
  static std::string HeadForAPicture() {
    return absl::StrCat("POST /v1/images/generations HTTP/1.1\r\nHost: localhost\r\n",
                        "Content-Type: application/json\r\nContent-Length: ", kBody.size(),
                        "\r\n\r\n");
  }

  // True once the connection was asked for the `number`th memory, and was refused it.
  bool RefuseOnce(int number);
};

TEST_F(ConnectionMemoryTest, APostedFunctionNeedsNone) {
  struct Counter final : Wire::Posted {
    void Run() override { ++runs; }
    int runs = 0;
  };
  Client client;
  const std::shared_ptr<Wire> wire = MakeWire(client);
  const auto counter = std::make_shared<Counter>();
  for (int i = 1; i < 4; ++i) {
    RefuseNext(kAll);
    wire->Post(counter);
    Poll();
    EXPECT_EQ(RefuseNext(0), kAll) << "it has asked for memory";
    EXPECT_EQ(counter->runs, i);
  }
}

TEST_F(ConnectionMemoryTest, AHeadThatThereIsNoneForIsThatOfAClientThatHasGone) {
  Client client;
  const std::shared_ptr<Wire> wire = MakeWire(client);
  std::optional<Wire::Outcome> outcome;
  wire->ReadHead([&](Wire::Outcome said) { outcome = said; });
  client.Send(HeadForAPicture());
  PollWithoutMemory();
  EXPECT_EQ(outcome, Wire::Outcome::kGone);
  EXPECT_FALSE(wire->IsReading());
  wire->Close();
}

TEST_F(ConnectionMemoryTest, ALargeWriteNeedsNoneOnceItHasBegun) {
  Client client;
  const std::shared_ptr<Wire> wire = MakeWire(client);
  std::optional<bool> written;
  wire->Write(std::string(kBytesOfALargeWrite, 'x'), [&](bool done) { written = done; });
  int rounds = 0;
  for (; !written && rounds < 1 << 20; ++rounds) {
    PollWithoutMemory();
    client.Receive();
  }
  EXPECT_GT(rounds, 1) << "it was no write in several parts";
  EXPECT_EQ(written, true);
  client.Receive();
  EXPECT_EQ(client.received().size(), kBytesOfALargeWrite);
  wire->Close();
}

// There is memory for JSON: the JSON library asks for some while it undoes what an
// exception leaves, and ends the process where there is none.
bool ConnectionMemoryTest::RefuseOnce(int number) {
  Client client;
  const std::string head = HeadForAPicture(), body(kBody);
  const size_t job = engine_.job_count();
  const std::weak_ptr<Connection> connection = StartConnection(MakeWire(client));
  RefuseNext(1, number);
  Poll();
  client.Send(head);
  Poll();
  const bool refused = RefuseNext(0) == 0;
  client.Send(body);
  Poll();
  EXPECT_EQ(engine_.job_count() > job, !refused) << number;
  if (engine_.job_count() > job) {
    engine_.Send(engine::Image{.size = {64, 32}, .bytes = "picture"}, job);
    engine_.Send(engine::Completed{}, job);
    Poll();
  }
  client.Receive();
  EXPECT_EQ(absl::StartsWith(client.received(), "HTTP/1.1 200 "), !refused) << client.received();
  EXPECT_TRUE(client.is_left() || !refused) << number;
  client.Leave();
  Poll();
  EXPECT_TRUE(connection.expired()) << number;
  EXPECT_TRUE(calls_.WaitUntilEmpty(absl::ZeroDuration())) << number;
  return refused;
}

TEST_F(ConnectionMemoryTest, EachThatIsRefusedEndsThatConnectionAlone) {
  RefuseOnce(kAll / 2);  // makes all that is made once
  int number = 0;
  while (RefuseOnce(number)) ++number;
  EXPECT_GT(number, 20);
  Client client;
  StartConnection(MakeWire(client));
  client.Send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  Poll();
  client.Receive();
  EXPECT_TRUE(absl::StartsWith(client.received(), "HTTP/1.1 200 ")) << client.received();
  client.Leave();
  Poll();
}

}  // namespace
}  // namespace latentd::server::http
