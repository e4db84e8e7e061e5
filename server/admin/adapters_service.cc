#include "server/admin/adapters_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/base/text/utf8.h"
#include "server/admin/worker_call.h"
#include "server/calls/serialize.h"
#include "server/calls/unary_answer.h"
#include "server/generation/conversion/adapter_conversion.h"
#include "server/generation/conversion/basic_conversion.h"

namespace latentd::server::admin {
namespace {

namespace v1 = ::latent::v1;

using engine::AdapterAdmin;

v1::AdapterStatus StatusToProto(const engine::AdapterStatus& adapter) {
  v1::AdapterStatus proto;
  *proto.mutable_info() = generation::ToProto(adapter.facts);
  proto.set_path(ToUtf8(adapter.facts.path));
  proto.set_problem(ToUtf8(adapter.facts.problem));
  proto.set_pinned(adapter.pinned);
  proto.set_loaded(adapter.loaded);
  proto.set_sets(adapter.sets);
  if (adapter.last_use != absl::InfinitePast()) {
    *proto.mutable_last_used() = generation::ToProto(adapter.last_use);
  }
  return proto;
}

absl::StatusOr<engine::AdapterStatus> FindAdapter(AdapterAdmin& all, const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<engine::AdapterStatus> adapters, all.List());
  for (const engine::AdapterStatus& adapter : adapters) {
    if (adapter.facts.name == name) return adapter;
  }
  return WithReason(absl::NotFoundError(absl::StrCat("there is no adapter ", Excerpt(name))),
                    "NO_SUCH_ADAPTER");
}

}  // namespace

template <typename Request, typename Act>
grpc::ServerUnaryReactor* AdaptersService::Change(const char* method,
                                                  grpc::CallbackServerContext& context,
                                                  const grpc::ByteBuffer& bytes,
                                                  grpc::ByteBuffer& response, Act act) {
  return calls::StartOrRefuse(context, [&] {
    const absl::Status judged = changing_.CheckCaller(context);
    if (!judged.ok()) return calls::FinishNow(context, judged);
    absl::StatusOr<Request> request = calls::ReadRequest<Request>(bytes);
    if (!request.ok()) return calls::FinishNow(context, request.status());
    return RunOnWorker(changing_, context, method,
                       [&all = engine_.adapters(), &response, act,
                        request = *std::move(request)]() -> absl::Status {
                         RETURN_IF_ERROR(FindAdapter(all, request.name()).status());
                         RETURN_IF_ERROR(act(all, request));
                         ASSIGN_OR_RETURN(const engine::AdapterStatus adapter,
                                          FindAdapter(all, request.name()));
                         response = calls::Serialize(StatusToProto(adapter));
                         return absl::OkStatus();
                       });
  });
}

grpc::ServerUnaryReactor* AdaptersService::ListAdapters(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) {
  return AnswerOnWorker<v1::ListAdaptersRequest, v1::ListAdaptersResponse>(
      listing_, *context, *request, *response,
      [this](const v1::ListAdaptersRequest&, v1::ListAdaptersResponse& list) -> absl::Status {
        ASSIGN_OR_RETURN(const std::vector<engine::AdapterStatus> adapters,
                         engine_.adapters().List());
        for (const engine::AdapterStatus& adapter : adapters) {
          *list.add_adapters() = StatusToProto(adapter);
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AdaptersService::LoadAdapter(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* response) {
  return Change<v1::LoadAdapterRequest>(
      "LoadAdapter", *context, *request, *response,
      [](AdapterAdmin& all, const v1::LoadAdapterRequest& wanted) {
        return all.Load(wanted.name());
      });
}

grpc::ServerUnaryReactor* AdaptersService::EvictAdapter(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) {
  return Change<v1::EvictAdapterRequest>(
      "EvictAdapter", *context, *request, *response,
      [](AdapterAdmin& all, const v1::EvictAdapterRequest& wanted) {
        return all.Evict(wanted.name());
      });
}

grpc::ServerUnaryReactor* AdaptersService::PinAdapter(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  return Change<v1::PinAdapterRequest>("PinAdapter", *context, *request, *response,
                                       [](AdapterAdmin& all, const v1::PinAdapterRequest& wanted) {
                                         return all.Pin(wanted.name(), wanted.pinned());
                                       });
}

}  // namespace latentd::server::admin
