#include "core/tls/key_pair.h"

#include <openssl/err.h>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/tls/pem.h"

namespace latentd::tls {

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
  return CheckTime(leaf, certificate_name, now);
}

}  // namespace latentd::tls
