#include "core/tls/pem.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <ctime>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"

namespace latentd::tls {
namespace {

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
};
using BioPtr = std::unique_ptr<BIO, FreeBio>;

BioPtr Reader(absl::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

bool IsEndOfText(unsigned long error) {
  return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

// Without it, OpenSSL asks the terminal.
int NoPassphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

absl::Time ToTime(const ASN1_TIME* time) {
  std::tm parts = {};
  ASN1_TIME_to_tm(time, &parts);
  return absl::FromTM(parts, absl::UTCTimeZone());
}

}  // namespace

absl::StatusOr<std::vector<CertificatePtr>> ParseCertificates(absl::string_view pem,
                                                              absl::string_view name) {
  const absl::Cleanup clear = [] { ERR_clear_error(); };
  const BioPtr reader = Reader(pem);
  std::vector<CertificatePtr> certificates;
  while (X509* certificate = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(certificate);
  }
  if (!IsEndOfText(ERR_peek_last_error())) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": certificate ", certificates.size() + 1, " in it is damaged"));
  }
  if (certificates.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": no certificate in it; one in PEM (-----BEGIN CERTIFICATE-----) is needed"));
  }
  return certificates;
}

absl::StatusOr<KeyPtr> ParseKey(absl::string_view pem, absl::string_view name) {
  const absl::Cleanup clear = [] { ERR_clear_error(); };
  const BioPtr reader = Reader(pem);
  bool encrypted = false;
  KeyPtr key(PEM_read_bio_PrivateKey(reader.get(), nullptr, &NoPassphrase, &encrypted));
  if (key != nullptr) return key;
  return absl::InvalidArgumentError(absl::StrCat(
      name, encrypted ? ": the key is encrypted; one without a passphrase is needed"
                      : ": no private key in it, or a damaged one; one in PEM (-----BEGIN PRIVATE "
                        "KEY-----) is needed"));
}

absl::Status CheckTime(X509& certificate, absl::string_view name, absl::Time now) {
  const absl::Time begin = ToTime(X509_get0_notBefore(&certificate));
  const absl::Time end = ToTime(X509_get0_notAfter(&certificate));
  const absl::TimeZone utc = absl::UTCTimeZone();
  if (now < begin) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, ": the certificate is not valid before ",
                     absl::FormatTime(absl::RFC3339_sec, begin, utc)));
  }
  if (now > end) {
    return absl::FailedPreconditionError(absl::StrCat(
        name, ": the certificate expired at ", absl::FormatTime(absl::RFC3339_sec, end, utc)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Expiry> ExpiryOf(absl::string_view pem, absl::string_view name) {
  ASSIGN_OR_RETURN(const auto certificates, ParseCertificates(pem, name));
  Expiry expiry = {.first = absl::InfiniteFuture(), .last = absl::InfinitePast()};
  for (const CertificatePtr& certificate : certificates) {
    const absl::Time end = ToTime(X509_get0_notAfter(certificate.get()));
    expiry.first = std::min(expiry.first, end);
    expiry.last = std::max(expiry.last, end);
  }
  return expiry;
}

std::string SubjectOf(X509& certificate) {
  const absl::Cleanup clear = [] { ERR_clear_error(); };
  const BioPtr text(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(text.get(), X509_get_subject_name(&certificate), 0, XN_FLAG_RFC2253);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(text.get(), &bytes);
  return std::string(bytes, static_cast<size_t>(size));
}

}  // namespace latentd::tls
