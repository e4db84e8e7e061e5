#include "server/http/own/own_answers.h"

#include "absl/status/statusor.h"
#include "core/base/errors/status_macros.h"
#include "core/engine/api/serving.h"
#include "server/generation/conversion/report_conversion.h"
#include "server/generation/conversion/response_conversion.h"
#include "server/http/exchange/error_body.h"
#include "server/http/exchange/proto_json.h"
#include "server/http/openai/openai_dialect.h"

namespace latentd::server::http {
namespace {

namespace v1 = ::latent::v1;
using generation::ToProto;

Answer AnswerOf(const absl::StatusOr<v1::ListGraphsResponse>& graphs) {
  if (!graphs.ok()) return OpenAiRefusal(graphs.status());
  return {.body = AnswerBody(ToText(ToJson(*graphs)))};
}

}  // namespace

Answer OwnAnswers::Status(bool for_operators) const {
  v1::ServerStatus status = ToProto(engine_.status(), options_.version);
  if (!for_operators) {
    status.clear_reason();
    for (v1::BucketStatus& bucket : *status.mutable_buckets()) bucket.clear_reason();
    for (v1::DeviceStatus& device : *status.mutable_devices()) {
      device.clear_reason();
      device.clear_fault();
    }
  }
  return {.body = AnswerBody(ToText(ToJson(status)))};
}

Answer OwnAnswers::Capabilities(const std::string& caller) const {
  const absl::Status serving = engine::CheckServing(engine_.status());
  if (!serving.ok()) return OpenAiRefusal(serving);
  v1::GetCapabilitiesResponse capabilities = ToProto(engine_.capabilities(), caller);
  capabilities.set_version(options_.version);
  return {.body = AnswerBody(ToText(ToJson(capabilities)))};
}

Answer OwnAnswers::Memory() const {
  v1::MemoryReport report = ToProto(engine_.memory());
  if (options_.client_memory != nullptr) {
    for (const process::ClientBytes& bytes : options_.client_memory()) {
      *report.add_clients() = ToProto(bytes);
    }
  }
  return {.body = AnswerBody(ToText(ToJson(report)))};
}

Answer OwnAnswers::Graphs() const {
  const auto list = [&]() -> absl::StatusOr<v1::ListGraphsResponse> {
    ASSIGN_OR_RETURN(const std::vector<engine::GraphEntry> entries,
                     engine_.graphs().List({.all = true}));
    v1::ListGraphsResponse graphs;
    for (const engine::GraphEntry& entry : entries) *graphs.add_graphs() = ToProto(entry);
    return graphs;
  };
  return AnswerOf(list());
}

}  // namespace latentd::server::http
