// The parts of a server that its connections share, over an engine and a clock of the test's.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <utility>

#include "server/generation/kept_streams.h"
#include "server/http/connection.h"
#include "server/http/routes/routes.h"
#include "server/http/wire.h"
#include "tests/server/fake_engine.h"
#include "tests/support/fake_clock.h"

namespace latentd::server::http {

class ServiceTest : public ::testing::Test {
 protected:
  // Runs on the test's thread, where that runs `io_` or the wire.
  std::shared_ptr<Connection> StartConnection(std::shared_ptr<Wire> wire) {
    return Connection::Start(service_, {io_, pool_, pool_}, std::move(wire));
  }

  FakeEngine engine_;
  testing::FakeClock clock_;
  process::Health health_{[] { return engine::Hangs(); }};
  generation::ActiveCalls calls_;
  generation::KeptStreams kept_{engine_, clock_};
  RunningCalls running_;
  VideoJobs videos_{clock_};
  Service service_{.environment = {engine_, clock_, calls_, kept_},
                   .metrics = HttpMetrics(engine_.metrics()),
                   .router = Router(MakeRoutes(
                       engine_, health_, running_,
                       VideoPaths({engine_, clock_, calls_, kept_}, videos_), {.version = "test"})),
                   .running = running_,
                   .max_request_bytes = 1 << 20,
                   .bodies = BodyBudget(8 << 20)};
  boost::asio::thread_pool pool_{1};
  boost::asio::io_context io_;
};

}  // namespace latentd::server::http
