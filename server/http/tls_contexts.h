// OpenSSL's contexts for connections, of the certificate that counts now.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/tls/authority.h"
#include "core/tls/key_pair.h"
#include "server/tls/tls.h"

namespace boost::asio::ssl {
class context;
}

namespace latentd::server::http {

// Thread-safe.
class TlsContexts {
 public:
  // `tls` outlives it.
  explicit TlsContexts(const tls::Tls& tls) : tls_(tls) {}

  // TLS 1.2 and newer, for HTTP/1.1. A client is asked for a certificate where there is an
  // authority of clients, and may show any, or none: each request is judged by itself. Null: the
  // files do not make one, which has been logged.
  std::shared_ptr<boost::asio::ssl::context> Get() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const tls::Tls& tls_;
  absl::Mutex mutex_;
  std::shared_ptr<const latentd::tls::KeyPair> pair_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const latentd::tls::Authority> authority_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<boost::asio::ssl::context> context_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::server::http
