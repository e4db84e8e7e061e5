#include "core/tls/authority.h"

#include <openssl/err.h>

#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/tls/pem.h"

namespace latentd::tls {
namespace {

struct FreeVerification {
  void operator()(X509_STORE_CTX* verification) const { X509_STORE_CTX_free(verification); }
  // Borrows what it holds.
  void operator()(STACK_OF(X509) * chain) const { sk_X509_free(chain); }
};

// X509_V_OK, or why not.
int Verify(X509_STORE& store, X509& leaf, const std::vector<CertificatePtr>& chain,
           absl::Time now) {
  const absl::Cleanup clear = [] { ERR_clear_error(); };
  const std::unique_ptr<STACK_OF(X509), FreeVerification> untrusted(sk_X509_new_null());
  for (const CertificatePtr& certificate : chain) sk_X509_push(untrusted.get(), certificate.get());
  const std::unique_ptr<X509_STORE_CTX, FreeVerification> verification(X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(verification.get(), &store, &leaf, untrusted.get()) != 1 ||
      X509_STORE_CTX_set_default(verification.get(), "ssl_client") != 1) {
    return X509_V_ERR_UNSPECIFIED;
  }
  X509_STORE_CTX_set_time(verification.get(), 0, absl::ToTimeT(now));
  if (X509_verify_cert(verification.get()) == 1) return X509_V_OK;
  const int error = X509_STORE_CTX_get_error(verification.get());
  return error == X509_V_OK ? X509_V_ERR_UNSPECIFIED : error;
}

}  // namespace

absl::StatusOr<Authority> Authority::Parse(absl::string_view pem, absl::string_view name) {
  ASSIGN_OR_RETURN(const auto certificates, ParseCertificates(pem, name));
  const absl::Cleanup clear = [] { ERR_clear_error(); };
  std::unique_ptr<X509_STORE, FreeStore> store(X509_STORE_new());
  // Trust anchors need not be self-signed.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN);
  for (const CertificatePtr& certificate : certificates) {
    if (X509_STORE_add_cert(store.get(), certificate.get()) != 1) {
      return absl::InternalError(absl::StrCat(name, ": OpenSSL does not take it"));
    }
  }
  return Authority(pem, std::move(store));
}

absl::Status Authority::CheckClient(absl::string_view certificate, absl::string_view chain,
                                    absl::Time now) const {
  ASSIGN_OR_RETURN(const auto leaf, ParseCertificates(certificate, "the client's certificate"));
  std::vector<CertificatePtr> others;
  if (!chain.empty()) {
    ASSIGN_OR_RETURN(others, ParseCertificates(chain, "the client's chain of certificates"));
  }
  const int error = Verify(*store_, *leaf.front(), others, now);
  if (error == X509_V_OK) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the client's certificate (", Excerpt(SubjectOf(*leaf.front())),
                   ") is refused: ", X509_verify_cert_error_string(error)));
}

}  // namespace latentd::tls
