#include "server/health_service.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>

#include "tests/server/running_server.h"

namespace latentd::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr char kService[] = "latent.v1.ImageGeneration";

class HealthServiceTest : public RunningServer {
 protected:
  // The status, or NOT_FOUND's code as a negative number.
  int Check(const std::string& service) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    const grpc::Status status = health_->Check(&context, request, &response);
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
  server_->SetReady();
  EXPECT_EQ(Check(""), HealthCheckResponse::SERVING);
  EXPECT_EQ(Check(kService), HealthCheckResponse::SERVING);
}

TEST_F(HealthServiceTest, IsAliveFromTheStart) {
  EXPECT_EQ(Check("liveness"), HealthCheckResponse::SERVING);
}

TEST_F(HealthServiceTest, AnUnknownServiceIsNotFound) {
  EXPECT_EQ(Check("latent.v1.Nothing"), -static_cast<int>(grpc::StatusCode::NOT_FOUND));
}

TEST_F(HealthServiceTest, WatchTellsTheStatusAndItsChanges) {
  grpc::ClientContext context;
  const auto reader = Watch(context, kService);
  EXPECT_EQ(Next(*reader), HealthCheckResponse::NOT_SERVING);
  server_->SetReady();
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
  server_->SetReady();
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(HealthServiceTest, BecomingReadyAfterDrainDoesNotServe) {
  grpc::ClientContext context;
  const auto reader = Watch(context, "");
  EXPECT_EQ(Next(*reader), HealthCheckResponse::NOT_SERVING);
  server_->Drain(absl::ZeroDuration());
  server_->SetReady();
  EXPECT_EQ(Next(*reader), -1);
}

}  // namespace
}  // namespace latentd::server
