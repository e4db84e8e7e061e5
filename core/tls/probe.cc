#include "core/tls/probe.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/host_port.h"
#include "core/base/text/text.h"
#include "core/tls/pem.h"

namespace latentd::tls {
namespace {

constexpr int kPollMillis = 20;

struct FreeSsl {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(BIO* bio) const { BIO_free_all(bio); }
};
using ContextPtr = std::unique_ptr<SSL_CTX, FreeSsl>;
using BioPtr = std::unique_ptr<BIO, FreeSsl>;

absl::StatusOr<ContextPtr> MakeContext(const std::string& authorities) {
  ContextPtr context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (authorities.empty()) {
    SSL_CTX_set_default_verify_paths(context.get());
    return context;
  }
  ASSIGN_OR_RETURN(const auto certificates, ParseCertificates(authorities, "the authorities"));
  for (const CertificatePtr& certificate : certificates) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), certificate.get());
  }
  return context;
}

void ExpectName(SSL& ssl, const std::string& name) {
  X509_VERIFY_PARAM& wanted = *SSL_get0_param(&ssl);
  if (X509_VERIFY_PARAM_set1_ip_asc(&wanted, name.c_str()) == 1) return;
  SSL_set_tlsext_host_name(&ssl, name.c_str());
  X509_VERIFY_PARAM_set1_host(&wanted, name.c_str(), name.size());
}

// True if the handshake succeeded before `timeout` passed.
bool Shake(BIO& connection, absl::Duration timeout) {
  BIO_set_nbio(&connection, 1);
  // OpenSSL takes whole seconds, of the system's clock.
  const std::time_t end = std::time(nullptr) + std::max<int64_t>(absl::ToInt64Seconds(timeout), 1);
  while (BIO_do_handshake(&connection) != 1) {
    if (!BIO_should_retry(&connection) || BIO_wait(&connection, end, kPollMillis) < 1) return false;
  }
  return true;
}

absl::Status Explain(SSL& ssl) {
  const CertificatePtr certificate(SSL_get1_peer_certificate(&ssl));
  const long verified = SSL_get_verify_result(&ssl);
  if (certificate != nullptr || verified != X509_V_OK) {
    const std::string subject =
        certificate == nullptr ? "" : absl::StrCat(" (", Excerpt(SubjectOf(*certificate)), ")");
    return absl::PermissionDeniedError(
        absl::StrCat("the server's certificate", subject,
                     " is not accepted: ", X509_verify_cert_error_string(verified)));
  }
  const unsigned long error = ERR_peek_last_error();
  if (ERR_GET_LIB(error) == ERR_LIB_SSL) {
    const char* reason = ERR_reason_error_string(error);
    return absl::FailedPreconditionError(
        absl::StrCat("the server does not speak TLS (", reason == nullptr ? "?" : reason, ")"));
  }
  return absl::UnavailableError("no TLS handshake");
}

}  // namespace

absl::Status Probe(const ProbeOptions& options) {
  const absl::Cleanup clear = [] { ERR_clear_error(); };
  ASSIGN_OR_RETURN(const ContextPtr context, MakeContext(options.authorities));
  const BioPtr connection(BIO_new_ssl_connect(context.get()));
  SSL* ssl = nullptr;
  BIO_get_ssl(connection.get(), &ssl);
  ExpectName(*ssl, options.server_name.empty() ? HostOf(options.address) : options.server_name);
  BIO_set_conn_hostname(connection.get(), options.address.c_str());
  return Shake(*connection, options.timeout) ? absl::OkStatus() : Explain(*ssl);
}

}  // namespace latentd::tls
