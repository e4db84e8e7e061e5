#include "server/admin/health_service.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>

#include "tests/server/running_server.h"

namespace latentd::server::admin {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr char kService[] = "latent.v1.ImageGeneration";

class HealthServiceTest : public RunningServer {
 protected:
  void SetUp() override {
    engine_.set_state(engine::State::kLoading);
    RunningServer::SetUp();
  }

  // The status, or NOT_FOUND's code as a negative number.
  int Check(const std::string& service) { return Check(*health_, service); }

  static int Check(grpc::health::v1::Health::Stub& health, const std::string& service) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    const grpc::Status status = health.Check(&context, request, &response);
    return status.ok() ? response.status() : -static_cast<int>(status.error_code());
  }

  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> Watch(grpc::ClientContext& context,
                                                                 const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    return health_->Watch(&context, request);
  }
};

int Next(grpc::ClientReader<HealthCheckResponse>& reader) {
  HealthCheckResponse response;
  return reader.Read(&response) ? response.status() : -1;
}

TEST_F(HealthServiceTest, ServesOnlyOnceReady) {
  EXPECT_EQ(Check(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Check(kService), HealthCheckResponse::NOT_SERVING);
  engine_.set_state(engine::State::kReady);
  EXPECT_EQ(Check(""), HealthCheckResponse::SERVING);
  EXPECT_EQ(Check(kService), HealthCheckResponse::SERVING);
}

TEST_F(HealthServiceTest, DoesNotServeWhileWarming) {
  engine_.set_state(engine::State::kWarming);
  EXPECT_EQ(Check(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Check("liveness"), HealthCheckResponse::SERVING);
}

TEST_F(HealthServiceTest, ServesDegradedWithABucketThatIsReady) {
  engine::ServerStatus status = {.state = engine::State::kDegraded};
  status.buckets = {{.size = {256, 256}}, {.size = {320, 192}}};
  engine_.set_status(status);
  EXPECT_EQ(Check(""), HealthCheckResponse::NOT_SERVING);
  status.buckets[1].ready = true;
  engine_.set_status(status);
  EXPECT_EQ(Check(""), HealthCheckResponse::SERVING);
  EXPECT_EQ(Check(kService), HealthCheckResponse::SERVING);
  engine_.set_state(engine::State::kFailed);
  EXPECT_EQ(Check(""), HealthCheckResponse::NOT_SERVING);
}

TEST_F(HealthServiceTest, TheServicesOfOperatorsServeWhileTheyListen) {
  EXPECT_EQ(Check("latent.v1.GraphCache"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Check("latent.v1.Admin"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Check("latent.v1.Models"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Check("latent.v1.Adapters"), HealthCheckResponse::SERVING);
}

TEST_F(HealthServiceTest, AServerThatIsReadyWhenItListensServes) {
  FakeEngine ready;
  ASSERT_OK_AND_ASSIGN(const auto server,
                       GrpcServer::Start({.listen = "127.0.0.1:0"}, ready, clock_));
  const auto health = grpc::health::v1::Health::NewStub(ChannelTo(server->address()));
  EXPECT_EQ(Check(*health, ""), HealthCheckResponse::SERVING);
}

TEST_F(HealthServiceTest, IsAliveFromTheStart) {
  EXPECT_EQ(Check("liveness"), HealthCheckResponse::SERVING);
}

TEST_F(HealthServiceTest, AnUnknownServiceIsNotFound) {
  EXPECT_EQ(Check("latent.v1.Nothing"), -static_cast<int>(grpc::StatusCode::NOT_FOUND));
}

// The API is not latentd's: a client may have a newer one.
TEST_F(HealthServiceTest, AFieldThatIsNotKnownIsLeftOut) {
  engine_.set_state(engine::State::kReady);
  grpc::health::v1::HealthCheckRequest request;
  auto* fields = request.GetReflection()->MutableUnknownFields(&request);
  fields->AddVarint(99, 1);
  HealthCheckResponse response;
  grpc::ClientContext context;
  EXPECT_TRUE(health_->Check(&context, request, &response).ok());
  grpc::ClientContext watching;
  const auto reader = health_->Watch(&watching, request);
  EXPECT_EQ(Next(*reader), HealthCheckResponse::SERVING);
  watching.TryCancel();
}

TEST_F(HealthServiceTest, WatchTellsTheStatusAndItsChanges) {
  grpc::ClientContext context;
  const auto reader = Watch(context, kService);
  EXPECT_EQ(Next(*reader), HealthCheckResponse::NOT_SERVING);
  engine_.set_state(engine::State::kReady);
  EXPECT_EQ(Next(*reader), HealthCheckResponse::SERVING);
  server_->Drain(absl::ZeroDuration());
  EXPECT_EQ(Next(*reader), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Next(*reader), -1);
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(HealthServiceTest, WatchOfAnUnknownServiceSaysSoAndStaysOpen) {
  grpc::ClientContext context;
  const auto reader = Watch(context, "latent.v1.Nothing");
  EXPECT_EQ(Next(*reader), HealthCheckResponse::SERVICE_UNKNOWN);
  engine_.set_state(engine::State::kReady);
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(HealthServiceTest, BecomingReadyAfterDrainDoesNotServe) {
  grpc::ClientContext context;
  const auto reader = Watch(context, "");
  EXPECT_EQ(Next(*reader), HealthCheckResponse::NOT_SERVING);
  server_->Drain(absl::ZeroDuration());
  engine_.set_state(engine::State::kReady);
  EXPECT_EQ(Next(*reader), -1);
}

}  // namespace
}  // namespace latentd::server::admin
