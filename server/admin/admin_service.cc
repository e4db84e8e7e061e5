#include "server/admin/admin_service.h"

#include <utility>

#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "server/admin/graph_conversion.h"
#include "server/calls/refused_stream.h"
#include "server/calls/request_parser.h"
#include "server/calls/unary_answer.h"
#include "server/generation/conversion/basic_conversion.h"
#include "server/process/logs/log.h"

namespace latentd::server::admin {
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
  if (request.level() != v1::LOG_LEVEL_UNSPECIFIED) return absl::OkStatus();
  return InvalidFields({{"level", "must be DEBUG, INFO, WARNING or ERROR"}});
}

}  // namespace

AdminService::AdminService(engine::Engine& engine, std::string version,
                           AskClientMemory client_memory, RequestStop request_stop,
                           OperatorCheck check)
    : engine_(engine),
      version_(std::move(version)),
      client_memory_(std::move(client_memory)),
      request_stop_(std::move(request_stop)),
      check_(std::move(check)),
      watches_([this](const std::string&) { return Status(); }) {}

v1::ServerStatus AdminService::Status() const { return ToProto(engine_.status(), version_); }

grpc::ServerUnaryReactor* AdminService::GetServerStatus(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) {
  return calls::AnswerNow<v1::GetServerStatusRequest, v1::ServerStatus>(
      *context, *request, *response,
      [this, context](const v1::GetServerStatusRequest&, v1::ServerStatus& status) {
        RETURN_IF_ERROR(check_(*context));
        status = Status();
        return absl::OkStatus();
      });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* AdminService::WatchServerStatus(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return calls::StartOrRefuseWrite([&]() -> absl::StatusOr<calls::WriteReactor*> {
    RETURN_IF_ERROR(check_(*context));
    RETURN_IF_ERROR(calls::ReadRequest<v1::WatchServerStatusRequest>(*request).status());
    return watches_.Start("");
  });
}

grpc::ServerUnaryReactor* AdminService::GetMemoryReport(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) {
  return calls::AnswerNow<v1::GetMemoryReportRequest, v1::MemoryReport>(
      *context, *request, *response,
      [this, context](const v1::GetMemoryReportRequest&, v1::MemoryReport& report) {
        RETURN_IF_ERROR(check_(*context));
        report = ToProto(engine_.memory());
        for (const process::ClientBytes& bytes : client_memory_()) {
          *report.add_clients() = ToProto(bytes);
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AdminService::Drain(grpc::CallbackServerContext* context,
                                              const grpc::ByteBuffer* request,
                                              grpc::ByteBuffer* response) {
  return calls::AnswerNow<v1::DrainRequest, v1::DrainResponse>(
      *context, *request, *response,
      [this, context](const v1::DrainRequest& drain, v1::DrainResponse&) -> absl::Status {
        RETURN_IF_ERROR(check_(*context));
        ASSIGN_OR_RETURN(const std::optional<absl::Duration> timeout, ReadTimeout(drain));
        process::Log(v1::INFO, "admin", {{"method", "Drain"}, {"peer", context->peer()}});
        request_stop_(timeout);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AdminService::SetLogLevel(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  return calls::AnswerNow<v1::SetLogLevelRequest, v1::SetLogLevelResponse>(
      *context, *request, *response,
      [this, context](const v1::SetLogLevelRequest& wanted, v1::SetLogLevelResponse& changed) {
        RETURN_IF_ERROR(check_(*context));
        RETURN_IF_ERROR(CheckLevel(wanted));
        changed.set_previous(process::ChangeLogLevel(wanted.level()));
        process::Log(v1::INFO, "admin",
                     {{"method", "SetLogLevel"},
                      {"peer", context->peer()},
                      {"level", v1::LogLevel_Name(wanted.level())}});
        return absl::OkStatus();
      });
}

}  // namespace latentd::server::admin
