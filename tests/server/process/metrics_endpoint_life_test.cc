// The end of a metrics endpoint while it is scraped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "server/process/ports/metrics_endpoint.h"
#include "tests/server/fake_engine.h"
#include "tests/server/scrape.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::process {
namespace {

using testing::HttpGet;
using testing::TcpConnection;

const Health kNoHangs([] { return engine::Hangs(); });

// An engine that calls a function at each scrape.
class EngineWithHook final : public FakeEngine {
 public:
  explicit EngineWithHook(std::function<void()> refresh) : refresh_(std::move(refresh)) {}
  void RefreshMetrics() override { refresh_(); }

 private:
  const std::function<void()> refresh_;
};

TEST(MetricsEndpointLifeTest, AScrapeInFlightOutlivesNothing) {
  absl::Notification scraping, ending;
  EngineWithHook engine([&] {
    if (scraping.HasBeenNotified()) return;
    scraping.Notify();
    ending.WaitForNotification();
  });
  ASSERT_OK_AND_ASSIGN(auto endpoint, MetricsEndpoint::Start("127.0.0.1:0", engine, kNoHangs));
  const std::string address = endpoint->address();
  std::thread scraper([&] { HttpGet(address, "/metrics"); });
  scraping.WaitForNotification();
  std::thread ender([&] {
    ending.Notify();
    endpoint.reset();
  });
  ender.join();
  scraper.join();
  // The address is free again.
  EXPECT_OK(MetricsEndpoint::Start(address, engine, kNoHangs));
}

// Scrapes one time after the other, until told to stop.
class Scraper {
 public:
  explicit Scraper(std::string address)
      : address_(std::move(address)), thread_([this] { Run(); }) {}

  // The library leaves connections open that were not read from when it ends.
  void Stop() {
    {
      absl::MutexLock lock(&mutex_);
      stopped_ = true;
      if (connection_ != nullptr) connection_->Shutdown();
    }
    thread_.join();
  }

 private:
  void Run() {
    while (true) {
      TcpConnection connection(address_);
      if (!Use(&connection)) return;
      HttpGet(connection, "/metrics");
      if (!Use(nullptr)) return;
    }
  }

  bool Use(TcpConnection* connection) {
    absl::MutexLock lock(&mutex_);
    connection_ = connection;
    return !stopped_;
  }

  const std::string address_;
  absl::Mutex mutex_;
  TcpConnection* connection_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

TEST(MetricsEndpointLifeTest, ScrapesMayComeAtAnyMomentOfTheEnd) {
  absl::Mutex mutex;
  int scrapes = 0;
  EngineWithHook engine([&] {
    absl::MutexLock lock(&mutex);
    ++scrapes;
  });
  ASSERT_OK_AND_ASSIGN(auto endpoint, MetricsEndpoint::Start("127.0.0.1:0", engine, kNoHangs));
  Scraper first(endpoint->address()), second(endpoint->address());
  const auto under_way = [&] { return scrapes >= 4; };
  mutex.LockWhen(absl::Condition(&under_way));
  mutex.Unlock();
  endpoint.reset();
  mutex.Lock();
  const int last = scrapes;
  mutex.Unlock();
  first.Stop();
  second.Stop();
  EXPECT_EQ(scrapes, last);
}

}  // namespace
}  // namespace latentd::server::process
