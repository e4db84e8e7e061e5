// Requests are in one place at every scrape.
#include "core/engine/requests/request_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/base/errors/error_details.h"
#include "tests/core/engine/loop_rig.h"

namespace latentd::engine {
namespace {

using ::testing::Each;
using ::testing::Ge;

// Values of one scrape, by family; and each series of requests in flight.
struct Scrape {
  explicit Scrape(const metrics::Registry& registry) {
    for (const prometheus::MetricFamily& family : registry.Collect()) {
      for (const prometheus::ClientMetric& series : family.metric) {
        const double value = series.counter.value + series.gauge.value;  // one of them is 0
        sums[family.name] += value;
        if (family.name == metrics::kRequestsInFlight.name) in_flight.push_back(value);
      }
    }
  }
  double Of(const metrics::Family& family) const { return sums.at(family.name); }
  double Ended() const {
    return Of(metrics::kRequestsRejected) + Of(metrics::kRequestsFinished) +
           Of(metrics::kRequestsCancelled) + Of(metrics::kDeadlineMisses);
  }
  void ExpectAddsUp() const {
    EXPECT_EQ(Of(metrics::kRequestsReceived), Ended() + Of(metrics::kRequestsInFlight));
    EXPECT_THAT(in_flight, Each(Ge(0)));
  }

  std::map<std::string, double> sums;
  std::vector<double> in_flight;
};

TEST(RequestCountsTest, EachEndHasAPlaceOfItsOwn) {
  metrics::Registry registry;
  RequestCounts counts(registry);
  const auto count = [&](const metrics::Family& family, const std::string& label) {
    return MetricOf(registry, family, label);
  };
  counts.Refused(RejectionOf(WithReason(absl::ResourceExhaustedError(""), "QUEUE_FULL")));
  counts.Refused(RejectionOf(absl::ResourceExhaustedError("")));
  EXPECT_EQ(count(metrics::kRequestsRejected, "queue_full"), 1);
  EXPECT_EQ(count(metrics::kRequestsRejected, "oom"), 1);
  EXPECT_EQ(count(metrics::kOutOfMemory, "admission"), 1);
  counts.Accepted(-3);
  counts.Accepted(2);
  EXPECT_EQ(count(metrics::kRequestsInFlight, "-3"), 1);
  EXPECT_EQ(count(metrics::kRequestsInFlight, "queued"), 2);
  counts.Began(2);
  EXPECT_EQ(count(metrics::kRequestsInFlight, "running"), 1);
  counts.Ended(2, /*had_begun=*/true, absl::OkStatus(), nullptr);
  counts.Ended(-3, false, absl::CancelledError(""), nullptr);
  EXPECT_EQ(count(metrics::kRequestsFinished, "completed"), 1);
  EXPECT_EQ(count(metrics::kRequestsCancelled, "queued"), 1);
  for (const absl::Status& end : {absl::DeadlineExceededError(""), absl::InternalError("")}) {
    counts.Accepted(0);
    counts.Began(0);
    counts.Ended(0, true, end, nullptr);
  }
  EXPECT_EQ(count(metrics::kDeadlineMisses, "running"), 1);
  EXPECT_EQ(count(metrics::kRequestsFinished, "failed"), 1);
  counts.Accepted(0);
  counts.Ended(0, false, absl::CancelledError(""), "cold_bucket");
  EXPECT_EQ(count(metrics::kRequestsRejected, "cold_bucket"), 1);
  EXPECT_EQ(MetricOf(registry, metrics::kRequestsCancelled), 1);
  EXPECT_EQ(MetricOf(registry, metrics::kRequestsReceived), 7);
  Scrape(registry).ExpectAddsUp();
}

TEST(RequestCountsTest, WhatAScrapeSeesAddsUpWhateverChangesMeanwhile) {
  constexpr int kThreads = 3, kRequests = 3000;
  metrics::Registry registry;
  RequestCounts counts(registry);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kRequests; ++i) {
        counts.Refused("invalid");
        counts.Accepted(thread);
        if (i % 3 != 0) counts.Began(thread);
        const absl::Status end = i % 2 == 0 ? absl::OkStatus() : absl::CancelledError("");
        counts.Ended(thread, i % 3 != 0, end, i % 5 == 0 ? "oom" : nullptr);
      }
    });
  }
  double received = 0;
  while (received < 2 * kThreads * kRequests) {
    const Scrape scrape(registry);
    scrape.ExpectAddsUp();
    received = scrape.Of(metrics::kRequestsReceived);
    if (::testing::Test::HasFailure()) break;
  }
  for (std::thread& thread : threads) thread.join();
}

class RequestCountsLoopTest : public LoopTest {};

TEST_F(RequestCountsLoopTest, ALoopCountsItsRequestsOnceWheneverItIsAsked) {
  PictureLoop loop({.queue = {.pictures = 4}}, device::Host(), metrics_, clock_);
  constexpr int kRequests = 12;
  int admitted = 0;
  const auto ended = [&](const Event& event) {
    if (std::holds_alternative<Progress>(event)) Scrape(registry_).ExpectAddsUp();
  };
  std::vector<std::shared_ptr<WatchedSink>> sinks;
  for (int i = 0; i < kRequests; ++i) {
    const auto sink = std::make_shared<WatchedSink>(ended);
    const std::shared_ptr<Job> job = Request(loop, sink);
    if (!loop.Admit(job, 0).ok()) continue;
    ++admitted;
    if (i % 3 == 0) sink->WaitFor<Progress>();
    if (i % 3 != 1) loop.Cancel(job->handle);
    sinks.push_back(sink);
  }
  for (const auto& sink : sinks) sink->WaitForEnd();
  const Scrape scrape(registry_);
  scrape.ExpectAddsUp();
  EXPECT_EQ(scrape.Ended(), admitted);
}

}  // namespace
}  // namespace latentd::engine
