#include "server/http/head_judgement.h"

#include <utility>

#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "server/http/caller_check.h"
#include "server/http/exchange/origin.h"
#include "server/http/routes/request_limits.h"

namespace latentd::server::http {
namespace {

absl::Status CheckRole(const Route& route, const Caller& caller) {
  if (!route.for_operators || caller.is_operator) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "memory and graphs are for operators: who has a key with that role, or asks on a loopback "
      "address without keys and client certificates; `latent memory` and `latent graphs` show "
      "them, "
      "too");
}

// Judges where it leads, who it comes from, and how large its body may be.
absl::Status JudgeRoute(const Service& service, const RequestHead& head, absl::string_view peer,
                        const PeerCertificate& certificate, Judgement& judged) {
  if (head.version != 10 && head.version != 11) {
    return WithReason(absl::InvalidArgumentError("this is no request of HTTP/1.1"), "MALFORMED");
  }
  const Request& request = head.request;
  Router::Found found = service.router.Find(request.method, request.path);
  judged.route = found.route;
  // A stranger is not told which paths there are.
  ASSIGN_OR_RETURN(judged.caller, CheckCaller(service, found.route, request, peer, certificate));
  judged.allow = std::move(found.allow);
  if (found.route == nullptr) return found.status;
  RETURN_IF_ERROR(CheckRole(*found.route, judged.caller));
  ASSIGN_OR_RETURN(judged.deadline, DeadlineOf(request, service.environment.clock.Wall()));
  judged.most_bytes = MostBodyBytes(*found.route, request, service.max_request_bytes);
  judged.body_bytes = head.length ? static_cast<int64_t>(*head.length) : judged.most_bytes;
  return CheckBody(request, head.length, judged.most_bytes);
}

}  // namespace

Judgement Judge(const Service& service, const RequestHead& head, absl::string_view peer,
                const PeerCertificate& certificate) {
  Judgement judged = {.status = CheckHead(head.request, head.version),
                      .cors = CorsHeaders(head.request, service.cors_origins)};
  judged.is_sound = judged.status.ok();
  if (!judged.is_sound) return judged;
  judged.status = CheckOrigin(head.request, service.loopback_only, service.cors_origins);
  if (!judged.status.ok()) return judged;
  judged.is_preflight = IsPreflight(head.request, service.cors_origins);
  if (judged.is_preflight) return judged;
  judged.status = JudgeRoute(service, head, peer, certificate, judged);
  return judged;
}

}  // namespace latentd::server::http
