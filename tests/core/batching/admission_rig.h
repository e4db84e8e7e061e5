// A queue of eight places that knows what a step takes, and requests that ask it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_facts.h"
#include "core/batching/queue.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::batching {

inline auto IsBound(const std::string& bound, int queued, int limit) {
  return ::testing::ElementsAre(ErrorFact{"bound", bound},
                                ErrorFact{"queued", absl::StrCat(queued)},
                                ErrorFact{"limit", absl::StrCat(limit)});
}

inline constexpr Lane kLane{.width = 64, .height = 64};

// A picture takes one row of two and, alone, a second a step: 10 rows a lane would, two of them
// take two seconds a step together.
class AdmissionRig : public ::testing::Test {
 protected:
  struct Options {
    int steps = 10;
    absl::Duration deadline = absl::InfiniteDuration();
    std::string caller = "a";
    int priority = 0;
    uint64_t content = 0;
  };

  // Lets the queue learn the time of a step.
  void Learn(int times = 4) { LearnIn(queue_, times); }
  static void LearnIn(Queue& queue, int times = 4) {
    const Unit step{.kind = UnitKind::kStep, .lane = kLane, .pictures = {0}};
    for (int i = 0; i < times; ++i) queue.Measure(step, 1, absl::Seconds(1));
  }

  absl::StatusOr<Prospect> Ask(const Options& options, int pictures = 1, size_t bytes = 0) {
    return AskOf(queue_, options, pictures, bytes);
  }
  absl::StatusOr<Prospect> AskOf(Queue& queue, const Options& options, int pictures = 1,
                                 size_t bytes = 0) {
    std::vector<PictureId> ids;
    for (int i = 0; i < pictures; ++i) ids.push_back(next_id_++);
    last_ = ids.front();
    return queue.Admit({.pictures = ids,
                        .need = {.kind = UnitKind::kText,
                                 .lane = kLane,
                                 .lane_rows = 1,
                                 .ahead = {.stages = {{{kLane, true, {{options.steps}}}}},
                                           .after = {UnitKind::kDecode}}},
                        .bytes = bytes,
                        .caller = options.caller,
                        .priority = options.priority,
                        .deadline = clock_.Monotonic() + options.deadline,
                        .content = options.content});
  }
  PictureId Admit(const Options& options) {
    EXPECT_OK(Ask(options));
    return last_;
  }
  // In the order in which they begin.
  std::vector<PictureId> Order() const {
    std::vector<PictureId> order;
    for (const auto& [picture, prospect] : queue_.Waiting()) order.push_back(picture);
    return order;
  }

  latentd::testing::FakeClock clock_;
  Queue queue_{{.pictures = 8, .bytes = 100}, clock_};
  PictureId next_id_ = 1, last_ = 0;
};

}  // namespace latentd::batching
