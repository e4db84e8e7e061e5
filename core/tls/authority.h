// Certificates that are believed, and what they have signed.
#pragma once

#include <openssl/x509_vfy.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace latentd::tls {

// Immutable, thread-safe.
class Authority {
 public:
  // INVALID_ARGUMENT where `pem` has no certificates. `name` is the file's, for messages.
  static absl::StatusOr<Authority> Parse(absl::string_view pem, absl::string_view name);

  // The text that it was made of.
  const std::string& pem() const { return pem_; }

  // OK where one of the certificates has signed the client's certificate, the first in
  // `certificate`, if need be by way of those in `chain`, and it may be used by a client at `now`.
  // PERMISSION_DENIED names the certificate and the reason.
  absl::Status CheckClient(absl::string_view certificate, absl::string_view chain,
                           absl::Time now) const;

 private:
  struct FreeStore {
    void operator()(X509_STORE* store) const { X509_STORE_free(store); }
  };

  Authority(absl::string_view pem, std::unique_ptr<X509_STORE, FreeStore> store)
      : pem_(pem), store_(std::move(store)) {}

  std::string pem_;
  std::unique_ptr<X509_STORE, FreeStore> store_;
};

}  // namespace latentd::tls
