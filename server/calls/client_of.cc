#include "server/calls/client_of.h"

#include <vector>

#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "core/base/errors/status_macros.h"
#include "server/generation/caller.h"
#include "server/generation/shown_key.h"

namespace latentd::server::calls {
namespace {

// All values if several have the name, as the standard for trace context has it.
std::string MetadataOf(const grpc::CallbackServerContext& context, const char* name) {
  const auto [begin, end] = context.client_metadata().equal_range(name);
  return absl::StrJoin(begin, end, ",", [](std::string* out, const auto& entry) {
    out->append(entry.second.data(), entry.second.size());
  });
}

constexpr char kAuthorization[] = "authorization", kApiKey[] = "x-api-key";

// REQUIRES: calls need a key.
absl::StatusOr<generation::KeyHolder> HolderOf(const generation::CallEnvironment& environment,
                                               const grpc::CallbackServerContext& context) {
  const std::string authorization = MetadataOf(context, kAuthorization);
  const std::string api_key = MetadataOf(context, kApiKey);
  return generation::CheckKey(environment, generation::Transport::kGrpc, {authorization, api_key});
}

}  // namespace

absl::Status CheckKey(const generation::CallEnvironment& environment,
                      const grpc::CallbackServerContext& context) {
  if (environment.holder_of_key == nullptr) return absl::OkStatus();
  return HolderOf(environment, context).status();
}

absl::Status CheckOperator(const generation::CallEnvironment& environment,
                           const grpc::CallbackServerContext& context) {
  if (environment.holder_of_key == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const generation::KeyHolder holder, HolderOf(environment, context));
  if (holder.is_operator) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "the API key is for drawing: its line in the server's --api-key-file has no operator");
}

std::string CallerOf(const generation::CallEnvironment& environment,
                     const grpc::CallbackServerContext& context) {
  if (environment.holder_of_key != nullptr) {
    // It may have left the file since it was checked.
    absl::StatusOr<generation::KeyHolder> holder = environment.holder_of_key(
        MetadataOf(context, kAuthorization), MetadataOf(context, kApiKey));
    if (holder.ok()) return std::move(holder->caller);
  }
  const auto identity = context.auth_context();
  if (identity == nullptr || !identity->IsPeerAuthenticated()) {
    return generation::HostOf(context.peer());
  }
  const auto names = identity->GetPeerIdentity();
  std::vector<absl::string_view> views;
  for (const grpc::string_ref& name : names) views.emplace_back(name.data(), name.size());
  return generation::CallerOf(views);
}

generation::Client ClientOf(const generation::CallEnvironment& environment,
                            const grpc::CallbackServerContext& context) {
  return {.caller = CallerOf(environment, context),
          .peer = context.peer(),
          .deadline = absl::FromChrono(context.deadline()),
          .trace_parent = MetadataOf(context, "traceparent"),
          .trace_state = MetadataOf(context, "tracestate")};
}

}  // namespace latentd::server::calls
