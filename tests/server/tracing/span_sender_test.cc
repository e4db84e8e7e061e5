#include "server/tracing/span_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "tests/support/fake_clock.h"
#include "tests/support/recording_sink.h"

namespace latentd::server::tracing {
namespace {

namespace v1 = ::latent::v1;
using ::latentd::testing::kLongestWait;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Answers as a test says, and keeps the names of what it was sent. Thread-safe.
class FakeCollector {
 public:
  using Answer = absl::StatusOr<int64_t>;
  using Names = std::vector<std::string>;

  SpanSender::Collector AsCollector() {
    return {.address = "collector:4317",
            .send = [this](const ExportRequest& request,
                           absl::Duration timeout) { return Take(request, timeout); },
            .cancel = [this] { Cancel(); }};
  }

  // In this order, then OK.
  void AnswerWith(std::vector<Answer> answers) {
    absl::MutexLock lock(&mutex_);
    answers_ = {answers.rbegin(), answers.rend()};
  }
  void set_silent(bool silent) {
    absl::MutexLock lock(&mutex_);
    silent_ = silent;
  }

  // Names in every message so far, once there are so many (or the test is about to fail).
  std::vector<Names> WaitForMessages(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&]()
                           ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return messages_.size() >= count; };
    mutex_.AwaitWithTimeout(absl::Condition(&there), kLongestWait);
    return messages_;
  }
  std::vector<Names> messages() { return WaitForMessages(0); }
  std::vector<absl::Duration> timeouts() const {
    absl::MutexLock lock(&mutex_);
    return timeouts_;
  }
  ExportRequest last() const {
    absl::MutexLock lock(&mutex_);
    return last_;
  }

 private:
  Answer Take(const ExportRequest& request, absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    if (cancelled_) return absl::CancelledError("cancelled");
    Names names;
    for (const Span& span : request.resource_spans(0).scope_spans(0).spans()) {
      names.push_back(span.name());
    }
    messages_.push_back(std::move(names));
    timeouts_.push_back(timeout);
    last_ = request;
    const auto may_answer = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return !silent_ || cancelled_;
    };
    mutex_.Await(absl::Condition(&may_answer));
    if (cancelled_) return absl::CancelledError("cancelled");
    if (answers_.empty()) return 0;
    const Answer answer = answers_.back();
    answers_.pop_back();
    return answer;
  }
  void Cancel() {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
  }

  mutable absl::Mutex mutex_;
  std::vector<Answer> answers_ ABSL_GUARDED_BY(mutex_);
  std::vector<Names> messages_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Duration> timeouts_ ABSL_GUARDED_BY(mutex_);
  ExportRequest last_ ABSL_GUARDED_BY(mutex_);
  bool silent_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

// By default what waits is sent at once, and again without a pause.
SpanSender::Options AtOnce() {
  return {.period = absl::ZeroDuration(),
          .first_pause = absl::ZeroDuration(),
          .longest_pause = absl::ZeroDuration()};
}

// Only full batches, until the end.
SpanSender::Options Full(size_t batch) {
  SpanSender::Options options = AtOnce();
  options.batch = batch;
  options.period = absl::InfiniteDuration();
  return options;
}

class SpanSenderTest : public ::testing::Test {
 protected:
  void Start(const SpanSender::Options& options) {
    Resource resource;
    resource.add_attributes()->set_key("service.name");
    sender_ = std::make_unique<SpanSender>(
        options, collector_.AsCollector(), std::move(resource), registry_, clock_,
        [this](v1::LogLevel level, absl::string_view message, const process::LogFields& fields) {
          lines_.push_back(
              absl::StrCat(v1::LogLevel_Name(level), " ", process::FormatText(message, fields)));
        });
  }

  // Spans "0", "1", ...
  void Add(int count) {
    std::vector<Span> spans(count);
    for (Span& span : spans) span.set_name(absl::StrCat(made_++));
    sender_->Add(std::move(spans));
  }
  // Ends the sender, so that all is counted and logged.
  void End() { sender_.reset(); }

  double sent() { return registry_.GetCounter(metrics::kSpansSent).Value(); }
  double dropped(const std::string& reason) {
    return registry_.GetCounter(metrics::kSpansDropped, {reason}).Value();
  }

  testing::FakeClock clock_;
  metrics::Registry registry_;
  FakeCollector collector_;
  std::vector<std::string> lines_;  // written by the sender's thread, then by the one that ends it
  int made_ = 0;
  std::unique_ptr<SpanSender> sender_;
};

TEST_F(SpanSenderTest, SendsABatchOnceItIsFullAndTheRestAtTheEnd) {
  Start(Full(3));
  Add(2);
  Add(2);
  EXPECT_THAT(collector_.WaitForMessages(1), ElementsAre(ElementsAre("0", "1", "2")));
  sender_->SendLast(kLongestWait);
  EXPECT_THAT(collector_.messages(), ElementsAre(ElementsAre("0", "1", "2"), ElementsAre("3")));
  EXPECT_EQ(sent(), 4);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(SpanSenderTest, SendsWhatThereIsAfterThePeriod) {
  SpanSender::Options options = Full(3);
  options.period = absl::Milliseconds(1);
  Start(options);
  Add(1);
  EXPECT_THAT(collector_.WaitForMessages(1), ElementsAre(ElementsAre("0")));
  EXPECT_EQ(collector_.last().resource_spans(0).resource().attributes(0).key(), "service.name");
  EXPECT_EQ(collector_.last().resource_spans(0).scope_spans(0).scope().name(), "latentd");
}

TEST_F(SpanSenderTest, ACollectorCanReadWhateverASpanIsMadeOf) {
  Start(AtOnce());
  Span span;
  span.set_name("caf\xE9");
  span.add_attributes()->mutable_value()->set_string_value("\xFF");
  sender_->Add({span});
  EXPECT_THAT(collector_.WaitForMessages(1), ElementsAre(ElementsAre("caf\\xe9")));
  EXPECT_TRUE(ExportRequest().ParseFromString(collector_.last().SerializeAsString()));
}

TEST_F(SpanSenderTest, TriesAgainWhatMayPassAndSaysSoOnce) {
  collector_.AnswerWith({absl::UnavailableError("away"), absl::DeadlineExceededError("late"),
                         absl::CancelledError(), 0, 0, absl::AbortedError("again")});
  Start(Full(2));
  Add(2);
  collector_.WaitForMessages(4);
  Add(2);
  Add(2);
  EXPECT_THAT(collector_.WaitForMessages(7),
              ElementsAre(ElementsAre("0", "1"), ElementsAre("0", "1"), ElementsAre("0", "1"),
                          ElementsAre("0", "1"), ElementsAre("2", "3"), ElementsAre("4", "5"),
                          ElementsAre("4", "5")));
  sender_->SendLast(kLongestWait);
  EXPECT_EQ(sent(), 6);
  EXPECT_EQ(dropped("refused"), 0);
  EXPECT_THAT(lines_,
              ElementsAre(AllOf(StartsWith("WARNING spans cannot be sent collector=collector:4317"),
                                HasSubstr("UNAVAILABLE: away")),
                          StartsWith("INFO spans are sent again"),
                          AllOf(StartsWith("WARNING"), HasSubstr("ABORTED: again")),
                          StartsWith("INFO spans are sent again")));
}

TEST_F(SpanSenderTest, DropsWhatWillNeverBeTaken) {
  collector_.AnswerWith({absl::InvalidArgumentError("no such thing"), 1});
  Start(Full(3));
  Add(3);
  Add(3);
  collector_.WaitForMessages(2);
  sender_->SendLast(kLongestWait);
  EXPECT_THAT(collector_.messages(),
              ElementsAre(ElementsAre("0", "1", "2"), ElementsAre("3", "4", "5")));
  EXPECT_EQ(dropped("refused"), 3 + 1);
  EXPECT_EQ(sent(), 2);
}

TEST_F(SpanSenderTest, WhoAddsDoesNotWaitForACollectorThatIsSlow) {
  collector_.set_silent(true);
  SpanSender::Options options = Full(2);
  options.most_waiting = 4;
  Start(options);
  Add(2);
  collector_.WaitForMessages(1);
  Add(7);  // beside the two that it is at
  Add(1);
  EXPECT_EQ(dropped("queue_full"), 6);
  collector_.set_silent(false);
  EXPECT_THAT(collector_.WaitForMessages(2),
              ElementsAre(ElementsAre("0", "1"), ElementsAre("2", "3")));
  sender_->SendLast(kLongestWait);
  EXPECT_EQ(sent(), 4);
  EXPECT_EQ(dropped("queue_full"), 6);
}

TEST_F(SpanSenderTest, PausesAfterAFailureButNotAtTheEnd) {
  collector_.AnswerWith({absl::UnavailableError("away"), absl::UnavailableError("still away")});
  SpanSender::Options options = Full(2);
  options.first_pause = options.longest_pause = absl::InfiniteDuration();
  Start(options);
  Add(2);
  collector_.WaitForMessages(1);
  Add(2);
  sender_->SendLast(kLongestWait);
  EXPECT_THAT(collector_.messages(), ElementsAre(ElementsAre("0", "1"), ElementsAre("0", "1")));
  EXPECT_EQ(dropped("stopped"), 4);
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("spans cannot be sent"),
                                  "WARNING spans were not sent before the end "
                                  "collector=collector:4317 spans=4"));
}

TEST_F(SpanSenderTest, TheEndWaitsForNoCollectorLongerThanItMay) {
  collector_.set_silent(true);
  Start(Full(2));
  Add(2);
  collector_.WaitForMessages(1);
  sender_->SendLast(absl::Milliseconds(1));
  EXPECT_EQ(collector_.messages().size(), 1u);
  EXPECT_EQ(dropped("stopped"), 2);
}

TEST_F(SpanSenderTest, AMessageHasItsTimeAndAtTheEndNoMoreThanIsLeft) {
  Start(Full(2));
  Add(3);
  collector_.WaitForMessages(1);
  sender_->SendLast(absl::Seconds(2));
  EXPECT_THAT(collector_.timeouts(), ElementsAre(absl::Seconds(10), absl::Seconds(2)));
}

TEST_F(SpanSenderTest, WhatComesAfterTheEndIsDropped) {
  Start(AtOnce());
  sender_->SendLast(kLongestWait);
  Add(2);
  End();
  EXPECT_THAT(collector_.messages(), IsEmpty());
  EXPECT_EQ(dropped("stopped"), 2);
}

TEST_F(SpanSenderTest, GoesWithoutWaitingForWhatItCannotSend) {
  collector_.set_silent(true);
  Start(Full(2));
  Add(3);
  collector_.WaitForMessages(1);
  End();
  EXPECT_EQ(dropped("stopped"), 3);
}

TEST(NextPauseTest, DoublesUpToABound) {
  std::vector<double> seconds;
  absl::Duration pause;
  for (int i = 0; i < 7; ++i) {
    pause = NextPause(pause, absl::Seconds(1), absl::Seconds(30));
    seconds.push_back(absl::ToDoubleSeconds(pause));
  }
  EXPECT_THAT(seconds, ElementsAre(1, 2, 4, 8, 16, 30, 30));
}

}  // namespace
}  // namespace latentd::server::tracing
