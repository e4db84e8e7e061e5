// Permission of a call to go on, by the certificate of its client.
//
// The handshake asks for a certificate and takes any, or none; each call is then judged here,
// before its handler: a refused client gets the reason, which no broken handshake could tell, and a
// certificate that expires or an authority that is replaced counts for the next call of open
// connections too.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "core/tls/authority.h"
#include "server/process/logs/rate_limit.h"
#include "server/tls/followed_files.h"

namespace latentd::server::tls {

// Thread-safe.
class ClientCheck {
 public:
  // `authority` is a file of certificates, `clients` whom they sign for ("operators"). `clock` must
  // outlive it.
  static absl::StatusOr<std::unique_ptr<ClientCheck>> Open(const std::string& authority,
                                                           std::string clients, const Clock& clock);

  // As of FollowedFiles.
  absl::StatusOr<bool> Refresh() { return authority_->Refresh(); }

  std::shared_ptr<const latentd::tls::Authority> authority() const { return authority_->value(); }

  // `certificate` and `chain` as PEM, empty: none. UNAUTHENTICATED without a certificate,
  // PERMISSION_DENIED with one that is not accepted; both are logged, once a second.
  absl::Status Check(absl::string_view certificate, absl::string_view chain);

 private:
  using Files = FollowedFiles<latentd::tls::Authority>;

  ClientCheck(std::unique_ptr<Files> authority, std::string clients, const Clock& clock);
  absl::Status Judge(absl::string_view certificate, absl::string_view chain) const;

  const std::unique_ptr<Files> authority_;
  const std::string clients_;
  const Clock& clock_;
  process::RateLimit log_limit_;
};

}  // namespace latentd::server::tls
