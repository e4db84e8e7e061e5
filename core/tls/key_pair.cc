#include "core/tls/key_pair.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/tls/pem.h"

namespace latentd::tls {
namespace {

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

// Asks OpenSSL's level of security on this machine, by which gRPC would refuse the certificate
// without saying why.
absl::Status CheckStrength(X509& certificate, absl::string_view name) {
  const std::unique_ptr<SSL_CTX, FreeContext> context(SSL_CTX_new(TLS_method()));
  if (context == nullptr || SSL_CTX_use_certificate(context.get(), &certificate) == 1) {
    ERR_clear_error();
    return absl::OkStatus();
  }
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return absl::FailedPreconditionError(
      absl::StrCat(name, ": OpenSSL takes no such certificate on this machine (",
                   reason == nullptr ? "no reason was given" : reason,
                   "): one with a key of RSA-2048 or P-256 and a signature by SHA-256 is taken"));
}

}  // namespace

absl::Status CheckKeyPair(const KeyPair& pair, absl::string_view certificate_name,
                          absl::string_view key_name, absl::Time now) {
  ASSIGN_OR_RETURN(const auto certificates, ParseCertificates(pair.certificate, certificate_name));
  ASSIGN_OR_RETURN(const KeyPtr key, ParseKey(pair.key, key_name));
  X509& leaf = *certificates.front();
  const bool fits = X509_check_private_key(&leaf, key.get()) == 1;
  ERR_clear_error();
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        key_name, ": the key is not that of the (first) certificate in ", certificate_name));
  }
  RETURN_IF_ERROR(CheckStrength(leaf, certificate_name));
  return CheckTime(leaf, certificate_name, now);
}

}  // namespace latentd::tls
