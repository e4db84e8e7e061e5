// Against a collector on a real connection.
#include "server/tracing/otlp_client.h"

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::tracing {
namespace {

namespace otlp = ::opentelemetry::proto::collector::trace::v1;
using ::latentd::testing::StatusIs;
using ::testing::_;

// For what takes milliseconds; a call without end fails the test after it.
constexpr absl::Duration kWait = absl::Seconds(30);

// Thread-safe.
class TestCollector final : public otlp::TraceService::CallbackService {
 public:
  TestCollector() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~TestCollector() override { server_->Shutdown(std::chrono::system_clock::now()); }

  Endpoint endpoint() const { return {absl::StrCat("127.0.0.1:", port_), false}; }

  // Never answers so many calls, then all.
  void IgnoreNext(int calls) {
    absl::MutexLock lock(&mutex_);
    to_ignore_ = calls;
  }
  void set_rejected(int64_t spans) {
    absl::MutexLock lock(&mutex_);
    rejected_ = spans;
  }

  // True if so many calls came.
  bool WaitForCalls(int count) const {
    absl::MutexLock lock(&mutex_);
    const auto came = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return calls_ >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&came), kWait);
  }
  ExportRequest last() const {
    absl::MutexLock lock(&mutex_);
    return last_;
  }

 private:
  class Ignored final : public grpc::ServerUnaryReactor {
   public:
    void OnCancel() override { Finish(grpc::Status::CANCELLED); }
    void OnDone() override { delete this; }
  };

  grpc::ServerUnaryReactor* Export(grpc::CallbackServerContext* context,
                                   const otlp::ExportTraceServiceRequest* request,
                                   otlp::ExportTraceServiceResponse* response) override {
    absl::MutexLock lock(&mutex_);
    ++calls_;
    last_ = *request;
    if (to_ignore_ > 0) {
      --to_ignore_;
      return new Ignored;
    }
    response->mutable_partial_success()->set_rejected_spans(rejected_);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  int port_ = 0;
  mutable absl::Mutex mutex_;
  int to_ignore_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t rejected_ ABSL_GUARDED_BY(mutex_) = 0;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  ExportRequest last_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

ExportRequest OneSpan(const std::string& name = "queue") {
  ExportRequest request;
  Span& span = *request.add_resource_spans()->add_scope_spans()->add_spans();
  span.set_name(name);
  span.set_trace_id(std::string(16, '\x01'));
  return request;
}

class OtlpClientTest : public ::testing::Test {
 protected:
  // The result of Send; if it does not end by itself, its result after Cancel.
  static absl::StatusOr<int64_t> SendOrCancel(OtlpClient& client, absl::Duration timeout) {
    absl::Notification sent;
    absl::StatusOr<int64_t> result;
    std::thread sender([&] {
      result = client.Send(OneSpan(), timeout);
      sent.Notify();
    });
    if (!sent.WaitForNotificationWithTimeout(kWait)) client.Cancel();
    sender.join();
    return result;
  }

  TestCollector collector_;
};

TEST_F(OtlpClientTest, TheCollectorGetsTheSpansAndSaysWhatItRefuses) {
  OtlpClient client(collector_.endpoint());
  collector_.set_rejected(3);
  ASSERT_OK_AND_ASSIGN(const int64_t refused, client.Send(OneSpan("steps"), kWait));
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(collector_.last().SerializeAsString(), OneSpan("steps").SerializeAsString());
}

TEST_F(OtlpClientTest, ACallEndsInTimeWhereThereIsNoAnswer) {
  OtlpClient client(collector_.endpoint());
  collector_.IgnoreNext(1);
  EXPECT_THAT(SendOrCancel(client, absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, _));
}

TEST_F(OtlpClientTest, ASenderTriesAgainWhereThereIsNoAnswer) {
  collector_.IgnoreNext(1);
  metrics::Registry registry;
  const testing::FakeClock clock;
  absl::Notification sent_again;
  SpanSender sender({.period = absl::ZeroDuration(),
                     .timeout = absl::Milliseconds(50),
                     .first_pause = absl::Milliseconds(1)},
                    CollectorAt(collector_.endpoint()), {}, registry, clock,
                    [&](latent::v1::LogLevel level, absl::string_view, const process::LogFields&) {
                      if (level == latent::v1::INFO) sent_again.Notify();
                    });
  sender.Add({Span()});
  // On a busy machine the answer may be late more than once; what fails in SendLast is given up.
  EXPECT_TRUE(sent_again.WaitForNotificationWithTimeout(kWait));
  EXPECT_TRUE(collector_.WaitForCalls(2));
  sender.SendLast(kWait);
  EXPECT_EQ(registry.GetCounter(metrics::kSpansSent).Value(), 1);
}

TEST_F(OtlpClientTest, CancelEndsWhatIsUnderWayAndWhatComes) {
  OtlpClient client(collector_.endpoint());
  collector_.IgnoreNext(2);
  std::thread canceller([&] {
    EXPECT_TRUE(collector_.WaitForCalls(1));
    client.Cancel();
  });
  EXPECT_THAT(client.Send(OneSpan(), kWait), StatusIs(absl::StatusCode::kCancelled, _));
  canceller.join();
  EXPECT_THAT(client.Send(OneSpan(), kWait), StatusIs(absl::StatusCode::kCancelled, _));
  client.Cancel();  // nothing is under way
}

TEST_F(OtlpClientTest, NobodyThereIsUnavailable) {
  OtlpClient client({"127.0.0.1:1", false});
  EXPECT_THAT(SendOrCancel(client, kWait), StatusIs(absl::StatusCode::kUnavailable, _));
}

TEST_F(OtlpClientTest, NoProxyStandsBeforeACollectorOfThisMachine) {
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  OtlpClient client(collector_.endpoint());
  const auto refused = SendOrCancel(client, kWait);
  unsetenv("http_proxy");
  EXPECT_OK(refused);
}

}  // namespace
}  // namespace latentd::server::tracing
