// The timer that looks after videos which no client asks about.
#include <gtest/gtest.h>

#include "server/generation/kept_streams.h"
#include "server/http/http_server.h"
#include "tests/server/fake_engine.h"
#include "tests/server/http/http_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::http {
namespace {

// A video ends what the server has cancelled only where the timer, or a request, asks it to.
TEST(VideoSweepTest, ComesAgainAndAgain) {
  FakeEngine engine;
  testing::FakeClock clock;
  const process::Health health{[] { return engine::Hangs(); }};
  generation::ActiveCalls calls;
  generation::KeptStreams kept{engine, clock};
  VideoJobs videos(clock);
  ASSERT_OK_AND_ASSIGN(
      const auto server,
      HttpServer::Listen({.listen = "127.0.0.1:0", .sweep_pause = absl::Milliseconds(1)},
                         {engine, clock, calls, kept}, health, videos));
  for (size_t video = 0; video < 3; ++video) {
    HttpClient client(server->address());
    ASSERT_EQ(client.Ask("POST", "/v1/videos", R"({"image": "QUJD"})").code, 200);
    calls.CancelAll();
    engine.WaitUntilCancelled(video);
  }
}

}  // namespace
}  // namespace latentd::server::http
