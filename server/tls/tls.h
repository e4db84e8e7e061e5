// TLS of the ports, made from files.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/metrics/registry.h"
#include "core/tls/key_pair.h"
#include "server/tls/client_check.h"
#include "server/tls/followed_files.h"
#include "server/tls/tls_credentials.h"
#include "server/tls/tls_files.h"

namespace latentd::server::tls {

// Must outlive the ports. Thread-safe.
class Tls {
 public:
  // REQUIRES: a certificate and a key. Errors name the file and what is wrong with it. `clock` and
  // `metrics`, which say when certificates expire, must outlive it.
  static absl::StatusOr<std::unique_ptr<Tls>> Open(const TlsFiles& files, const Clock& clock,
                                                   metrics::Registry& metrics);

  // Follows the files, for connections and calls that begin from now on, and logs what has changed
  // and what cannot be used; call it every second or so.
  void Refresh();

  // For the port of all clients, and for that of operators: null without an authority of theirs.
  std::shared_ptr<grpc::ServerCredentials> credentials() const { return credentials_; }
  std::shared_ptr<grpc::ServerCredentials> operator_credentials() const {
    return operator_credentials_;
  }

  // For a port that is not gRPC's: the pair that counts now, and the check of each call's client,
  // which lives as long as this; null: any client.
  std::shared_ptr<const latentd::tls::KeyPair> pair() const { return pair_->value(); }
  ClientCheck* clients() const { return clients_.get(); }

 private:
  using PairFiles = FollowedFiles<latentd::tls::KeyPair>;

  Tls(TlsFiles files, std::unique_ptr<PairFiles> pair, std::unique_ptr<ClientCheck> clients,
      std::unique_ptr<ClientCheck> operators, metrics::Registry& metrics);
  void RecordExpiry();

  metrics::Registry& metrics_;
  const TlsFiles files_;
  const std::unique_ptr<PairFiles> pair_;
  const std::unique_ptr<ClientCheck> clients_;    // null: any client
  const std::unique_ptr<ClientCheck> operators_;  // null: none
  const std::shared_ptr<TlsCredentials> credentials_;
  const std::shared_ptr<TlsCredentials> operator_credentials_;
};

}  // namespace latentd::server::tls
