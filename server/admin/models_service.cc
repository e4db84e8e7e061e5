#include "server/admin/models_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "server/admin/worker_call.h"
#include "server/calls/serialize.h"
#include "server/calls/unary_answer.h"
#include "server/generation/conversion/basic_conversion.h"
#include "server/generation/conversion/response_conversion.h"

namespace latentd::server::admin {
namespace {

namespace v1 = ::latent::v1;

using engine::Engine;

v1::ModelStatus ToProto(const engine::ModelStatus& model) {
  v1::ModelStatus proto;
  proto.set_name(model.name);
  proto.set_checkpoint(model.checkpoint);
  proto.set_family(model.family);
  proto.set_residency(generation::ToProto(model.residency));
  proto.set_pinned(model.pinned);
  proto.set_loaded(model.loaded);
  proto.mutable_devices()->Assign(model.devices.begin(), model.devices.end());
  proto.set_graphs_ready(model.graphs_ready);
  proto.set_graphs_total(model.graphs_total);
  if (model.last_use != absl::InfinitePast()) {
    *proto.mutable_last_used() = generation::ToProto(model.last_use);
  }
  return proto;
}

absl::StatusOr<engine::ModelStatus> FindModel(Engine& engine, const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<engine::ModelStatus> models, engine.models().List());
  const auto found =
      absl::c_find_if(models, [&](const engine::ModelStatus& model) { return model.name == name; });
  if (found != models.end()) return *found;
  const auto add_name = [](std::string* out, const engine::ModelStatus& model) {
    absl::StrAppend(out, model.name);
  };
  return WithReason(
      absl::NotFoundError(absl::StrCat("there is no model ", Excerpt(name), "; there are ",
                                       absl::StrJoin(models, ", ", add_name))),
      "NO_SUCH_MODEL");
}

// The first failure of a graph, if there is one.
absl::Status FirstFailure(const std::vector<engine::EntryResult>& results) {
  for (const engine::EntryResult& result : results) RETURN_IF_ERROR(result.status);
  return absl::OkStatus();
}

absl::Status Load(Engine& engine, const std::string& name) {
  absl::Status failure;
  const auto note = [&failure](const engine::WarmProgress& progress) {
    failure.Update(progress.entry.status);
    return true;
  };
  RETURN_IF_ERROR(engine.graphs().Warm({.models = {name}}, /*dry_run=*/false, note).status());
  ASSIGN_OR_RETURN(const engine::ModelStatus model, FindModel(engine, name));
  // Graphs that images can do without may have failed.
  return model.loaded ? absl::OkStatus() : failure;
}

absl::Status Evict(Engine& engine, const std::string& name) {
  ASSIGN_OR_RETURN(
      const std::vector<engine::EntryResult> results,
      engine.graphs().Evict({.models = {name}}, engine::CacheTier::kMemory, /*force=*/false));
  return FirstFailure(results);
}

}  // namespace

template <typename Request, typename Act>
grpc::ServerUnaryReactor* ModelsService::Change(const char* method,
                                                grpc::CallbackServerContext& context,
                                                const grpc::ByteBuffer& bytes,
                                                grpc::ByteBuffer& response, Act act) {
  return calls::StartOrRefuse(context, [&] {
    const absl::Status judged = changing_.CheckCaller(context);
    if (!judged.ok()) return calls::FinishNow(context, judged);
    absl::StatusOr<Request> request = calls::ReadRequest<Request>(bytes);
    if (!request.ok()) return calls::FinishNow(context, request.status());
    return RunOnWorker(
        changing_, context, method,
        [&engine = engine_, &response, act, request = *std::move(request)]() -> absl::Status {
          RETURN_IF_ERROR(FindModel(engine, request.name()).status());
          RETURN_IF_ERROR(act(engine, request));
          ASSIGN_OR_RETURN(const engine::ModelStatus model, FindModel(engine, request.name()));
          response = calls::Serialize(ToProto(model));
          return absl::OkStatus();
        });
  });
}

grpc::ServerUnaryReactor* ModelsService::ListModels(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  return AnswerOnWorker<v1::ListModelsRequest, v1::ListModelsResponse>(
      listing_, *context, *request, *response,
      [this](const v1::ListModelsRequest&, v1::ListModelsResponse& list) -> absl::Status {
        ASSIGN_OR_RETURN(const std::vector<engine::ModelStatus> models, engine_.models().List());
        for (const engine::ModelStatus& model : models) *list.add_models() = ToProto(model);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ModelsService::LoadModel(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  return Change<v1::LoadModelRequest>("LoadModel", *context, *request, *response,
                                      [](Engine& engine, const v1::LoadModelRequest& wanted) {
                                        return Load(engine, wanted.name());
                                      });
}

grpc::ServerUnaryReactor* ModelsService::EvictModel(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  return Change<v1::EvictModelRequest>("EvictModel", *context, *request, *response,
                                       [](Engine& engine, const v1::EvictModelRequest& wanted) {
                                         return Evict(engine, wanted.name());
                                       });
}

grpc::ServerUnaryReactor* ModelsService::PinModel(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return Change<v1::PinModelRequest>("PinModel", *context, *request, *response,
                                     [](Engine& engine, const v1::PinModelRequest& wanted) {
                                       return engine.models().Pin(wanted.name(), wanted.pinned());
                                     });
}

}  // namespace latentd::server::admin
