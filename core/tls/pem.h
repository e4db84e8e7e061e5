// Certificates and keys as OpenSSL reads them out of PEM text.
//
// OpenSSL keeps a thread's errors in a queue that gRPC reads too; what is here leaves it empty.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace latentd::tls {

struct Free {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using CertificatePtr = std::unique_ptr<X509, Free>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free>;

// In the order of the text, at least one; text between them is skipped. `name` is the file's, for
// messages.
absl::StatusOr<std::vector<CertificatePtr>> ParseCertificates(absl::string_view pem,
                                                              absl::string_view name);

// A key without a passphrase.
absl::StatusOr<KeyPtr> ParseKey(absl::string_view pem, absl::string_view name);

// FAILED_PRECONDITION where `now` is outside of the certificate's time.
absl::Status CheckTime(X509& certificate, absl::string_view name, absl::Time now);

// When the first and the last of the certificates in a text expire.
struct Expiry {
  absl::Time first, last;
};
absl::StatusOr<Expiry> ExpiryOf(absl::string_view pem, absl::string_view name);

// "CN=alice,O=Example", as RFC 2253 has it.
std::string SubjectOf(X509& certificate);

}  // namespace latentd::tls
