#include "server/admin_service.h"

#include <utility>
#include <vector>

#include "core/base/error_details.h"
#include "server/basic_conversion.h"
#include "server/graph_conversion.h"
#include "server/log.h"
#include "server/type_rules.h"
#include "server/worker_call.h"

namespace latentd::server {
namespace {

namespace v1 = ::latent::v1;

constexpr absl::Duration kMaxDrainTimeout = absl::Hours(24);

absl::StatusOr<std::optional<absl::Duration>> ReadTimeout(const v1::DrainRequest& request) {
  if (!request.has_timeout()) return std::nullopt;
  const absl::StatusOr<absl::Duration> timeout = FromProto(request.timeout());
  if (!timeout.ok() || *timeout < absl::ZeroDuration() || *timeout > kMaxDrainTimeout) {
    return InvalidFields({{"timeout", "must be a duration of 0 s to 24 h"}});
  }
  return *timeout;
}

absl::Status CheckLevel(const v1::SetLogLevelRequest& request) {
  std::vector<FieldViolation> violations;
  CheckTypes(request, violations);
  if (request.level() == v1::LOG_LEVEL_UNSPECIFIED) {
    violations.push_back({"level", "must be DEBUG, INFO, WARNING or ERROR"});
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

}  // namespace

AdminService::AdminService(engine::Engine& engine, std::string version, RequestStop request_stop)
    : engine_(engine),
      version_(std::move(version)),
      request_stop_(std::move(request_stop)),
      watches_([this](const std::string&) { return Status(); }) {}

v1::ServerStatus AdminService::Status() const { return ToProto(engine_.status(), version_); }

grpc::ServerUnaryReactor* AdminService::GetServerStatus(grpc::CallbackServerContext* context,
                                                        const v1::GetServerStatusRequest*,
                                                        v1::ServerStatus* response) {
  *response = Status();
  return FinishNow(*context, absl::OkStatus());
}

grpc::ServerWriteReactor<v1::ServerStatus>* AdminService::WatchServerStatus(
    grpc::CallbackServerContext*, const v1::WatchServerStatusRequest*) {
  return watches_.Start("");
}

grpc::ServerUnaryReactor* AdminService::GetMemoryReport(grpc::CallbackServerContext* context,
                                                        const v1::GetMemoryReportRequest*,
                                                        v1::MemoryReport* response) {
  *response = ToProto(engine_.graphs().memory());
  return FinishNow(*context, absl::OkStatus());
}

grpc::ServerUnaryReactor* AdminService::Drain(grpc::CallbackServerContext* context,
                                              const v1::DrainRequest* request, v1::DrainResponse*) {
  const absl::StatusOr<std::optional<absl::Duration>> timeout = ReadTimeout(*request);
  if (timeout.ok()) {
    Log(v1::INFO, "admin", {{"method", "Drain"}, {"peer", context->peer()}});
    request_stop_(*timeout);
  }
  return FinishNow(*context, timeout.status());
}

grpc::ServerUnaryReactor* AdminService::SetLogLevel(grpc::CallbackServerContext* context,
                                                    const v1::SetLogLevelRequest* request,
                                                    v1::SetLogLevelResponse* response) {
  const absl::Status status = CheckLevel(*request);
  if (status.ok()) {
    response->set_previous(ChangeLogLevel(request->level()));
    Log(v1::INFO, "admin",
        {{"method", "SetLogLevel"},
         {"peer", context->peer()},
         {"level", v1::LogLevel_Name(request->level())}});
  }
  return FinishNow(*context, status);
}

}  // namespace latentd::server
