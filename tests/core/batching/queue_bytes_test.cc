// The bytes of a queue: what requests bring, beside what is finished.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/error_facts.h"
#include "core/batching/queue.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::batching {
namespace {

using ::testing::ElementsAre;

auto IsBound(const std::string& bound, int queued, int limit) {
  return ElementsAre(ErrorFact{"bound", bound}, ErrorFact{"queued", absl::StrCat(queued)},
                     ErrorFact{"limit", absl::StrCat(limit)});
}

TEST(QueueBytesTest, FinishedPicturesTakeOfTheSameBytes) {
  ::latentd::testing::FakeClock clock;
  size_t results = 0;
  Queue queue({.pictures = 8,
               .bytes = 100,
               .bytes_with_results = 150,
               .result_bytes = [&] { return results; }},
              clock);
  PictureId next = 1;
  const auto ask = [&](size_t bytes) {
    const PictureId picture = next++;
    return queue.Admit({.pictures = {&picture, 1}, .bytes = bytes}).status();
  };
  EXPECT_OK(ask(60));
  results = 70;
  const absl::Status full = ask(30);
  EXPECT_EQ(GetReason(full), "QUEUE_FULL");
  EXPECT_THAT(GetFacts(full), IsBound("bytes", 130, 150));
  EXPECT_TRUE(GetRetryDelay(full).has_value());
  EXPECT_OK(ask(20));
  EXPECT_THAT(GetFacts(ask(1)), IsBound("bytes", 150, 150));
  results = 1000;
  EXPECT_OK(ask(0));  // a request without inputs
  results = 0;
  EXPECT_OK(ask(20));
  EXPECT_THAT(GetFacts(ask(1)), IsBound("bytes", 100, 100));
  EXPECT_TRUE(absl::IsInvalidArgument(ask(101)));
}

}  // namespace
}  // namespace latentd::batching
