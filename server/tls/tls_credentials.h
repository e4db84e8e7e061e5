// Credentials of a port that speaks TLS 1.2 or newer.
//
// gRPC's own for C++ (grpc::experimental::FileWatcherCertificateProvider) take a key that does not
// fit its certificate, and then refuse every connection. Its C interface asks for a pair at each
// new connection instead, and stays with the last one that was good.
#pragma once

#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/tls/key_pair.h"
#include "server/tls/client_check.h"
#include "server/tls/followed_files.h"

namespace latentd::server::tls {

// Credentials of one port; must outlive its grpc::Server. Thread-safe.
class TlsCredentials final : public grpc::ServerCredentials {
 public:
  // `pair` holds one; `clients`: null where clients need no certificate. Both outlive this.
  TlsCredentials(const FollowedFiles<latentd::tls::KeyPair>& pair, ClientCheck* clients);
  ~TlsCredentials() override;

  // Unused: clients are known by their certificates.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override;
  grpc_ssl_certificate_config_reload_status Fetch(grpc_ssl_server_certificate_config** config)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const FollowedFiles<latentd::tls::KeyPair>& pair_;
  const ClientCheck* const clients_;
  grpc_server_credentials* const credentials_;
  absl::Mutex mutex_;
  // The pair and the authority that gRPC has got.
  std::shared_ptr<const latentd::tls::KeyPair> fetched_pair_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const latentd::tls::Authority> fetched_authority_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::server::tls
