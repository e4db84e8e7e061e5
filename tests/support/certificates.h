// Certificates that tests make for themselves. A header only, so that nothing but its users needs
// OpenSSL.
#pragma once

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/tls/key_pair.h"
#include "core/tls/pem.h"

namespace latentd::testing {

struct CertificateOptions {
  std::string name;  // its common name
  // Its purpose, as OpenSSL spells it: "serverAuth", "clientAuth".
  std::string usage = "serverAuth,clientAuth";
  absl::Time begin = absl::UnixEpoch();
  absl::Time end = absl::Now() + absl::Hours(24);
  int rsa_bits = 0;  // its key's; 0: a key of the curve P-256
};

// Signs certificates, and has a certificate itself.
class TestAuthority {
 public:
  // Signed by itself, or by `issuer`.
  explicit TestAuthority(const std::string& name, const TestAuthority* issuer = nullptr)
      : key_(EVP_EC_gen("P-256")),
        certificate_(Make({.name = name}, *key_, issuer, Kind::kAuthority)) {}

  std::string pem() const { return CertificateText(*certificate_); }

  // A certificate for localhost and 127.0.0.1.
  tls::KeyPair Issue(const CertificateOptions& options) const {
    const tls::KeyPtr key(options.rsa_bits == 0 ? EVP_EC_gen("P-256")
                                                : EVP_RSA_gen(options.rsa_bits));
    const tls::CertificatePtr certificate = Make(options, *key, this, Kind::kLeaf);
    return {CertificateText(*certificate), KeyText(*key)};
  }

 private:
  enum class Kind { kAuthority, kLeaf };

  static tls::CertificatePtr Make(const CertificateOptions& options, EVP_PKEY& key,
                                  const TestAuthority* issuer, Kind kind) {
    tls::CertificatePtr certificate(X509_new());
    X509* const x509 = certificate.get();
    X509_set_version(x509, X509_VERSION_3);
    static int64_t serial = 0;
    ASN1_INTEGER_set_int64(X509_get_serialNumber(x509), ++serial);
    ASN1_TIME_set(X509_getm_notBefore(x509), absl::ToTimeT(options.begin));
    ASN1_TIME_set(X509_getm_notAfter(x509), absl::ToTimeT(options.end));
    X509_set_pubkey(x509, &key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(options.name.c_str()), -1, -1,
                               0);
    X509* const signer = issuer == nullptr ? x509 : issuer->certificate_.get();
    X509_set_issuer_name(x509, X509_get_subject_name(signer));
    if (kind == Kind::kAuthority) {
      Extend(*x509, *signer, NID_basic_constraints, "critical,CA:TRUE");
      Extend(*x509, *signer, NID_key_usage, "critical,keyCertSign");
    } else {
      Extend(*x509, *signer, NID_ext_key_usage, options.usage);
      Extend(*x509, *signer, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    }
    X509_sign(x509, issuer == nullptr ? &key : issuer->key_.get(), EVP_sha256());
    return certificate;
  }

  static void Extend(X509& certificate, X509& signer, int kind, const std::string& value) {
    X509V3_CTX context = {};
    X509V3_set_ctx(&context, &signer, &certificate, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
    X509_add_ext(&certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }

  static std::string TextOf(BIO* bio) {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(bio, &bytes);
    std::string text(bytes, static_cast<size_t>(size));
    BIO_free_all(bio);
    return text;
  }
  static std::string CertificateText(X509& certificate) {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, &certificate);
    return TextOf(bio);
  }
  static std::string KeyText(EVP_PKEY& key) {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, &key, nullptr, nullptr, 0, nullptr, nullptr);
    return TextOf(bio);
  }

  const tls::KeyPtr key_;
  const tls::CertificatePtr certificate_;
};

}  // namespace latentd::testing
