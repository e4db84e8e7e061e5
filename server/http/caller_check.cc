#include "server/http/caller_check.h"

#include <vector>

#include "core/base/errors/status_macros.h"
#include "server/generation/caller.h"
#include "server/generation/request_metrics.h"

namespace latentd::server::http {
namespace {

absl::StatusOr<std::string> CallerByKey(const generation::CallEnvironment& environment,
                                        const Request& request) {
  const absl::string_view authorization = request.Find("authorization");
  const absl::string_view api_key = request.Find("x-api-key");
  absl::StatusOr<std::string> caller = environment.caller_of_key(authorization, api_key);
  if (!caller.ok()) {
    generation::CountRefusedKey(environment.engine.metrics(), generation::Transport::kHttp,
                                !authorization.empty() || !api_key.empty());
  }
  return caller;
}

std::string CallerBy(const PeerCertificate& certificate) {
  return generation::CallerOf({certificate.names.begin(), certificate.names.end()});
}

}  // namespace

absl::StatusOr<std::string> CheckCaller(const Service& service, const Route* route,
                                        const Request& request, absl::string_view peer,
                                        const PeerCertificate& certificate) {
  if (route != nullptr && route->open_to_all) return generation::HostOf(peer);
  if (service.clients != nullptr) {
    RETURN_IF_ERROR(service.clients->Check(certificate.certificate, certificate.chain));
  }
  if (service.environment.caller_of_key != nullptr) {
    return CallerByKey(service.environment, request);
  }
  return service.clients != nullptr ? CallerBy(certificate) : generation::HostOf(peer);
}

}  // namespace latentd::server::http
