#include "server/http/peer_certificate.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <utility>

#include "core/tls/pem.h"

namespace latentd::server::http {
namespace {

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct FreeNames {
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};

std::string ToPem(X509* certificate) {
  const std::unique_ptr<BIO, FreeBio> bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_X509(bio.get(), certificate) != 1) return "";
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

std::string TextOf(const ASN1_STRING* text) {
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                     static_cast<size_t>(ASN1_STRING_length(text)));
}

std::string AddressOf(const ASN1_STRING* bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  const int family = ASN1_STRING_length(bytes) == 4 ? AF_INET : AF_INET6;
  inet_ntop(family, ASN1_STRING_get0_data(bytes), text, sizeof(text));
  return text;
}

std::string NameOf(const GENERAL_NAME& name) {
  switch (name.type) {
    case GEN_DNS:
      return TextOf(name.d.dNSName);
    case GEN_EMAIL:
      return TextOf(name.d.rfc822Name);
    case GEN_URI:
      return TextOf(name.d.uniformResourceIdentifier);
    case GEN_IPADD:
      return AddressOf(name.d.iPAddress);
    default:
      return "";
  }
}

std::vector<std::string> AlternativeNames(X509* certificate) {
  const std::unique_ptr<GENERAL_NAMES, FreeNames> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> found;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    std::string name = NameOf(*sk_GENERAL_NAME_value(names.get(), i));
    if (!name.empty()) found.push_back(std::move(name));
  }
  return found;
}

std::string CommonNameOf(X509* certificate) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  return at < 0 ? "" : TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

}  // namespace

PeerCertificate PeerOf(SSL* connection) {
  PeerCertificate peer;
  const latentd::tls::CertificatePtr certificate(SSL_get1_peer_certificate(connection));
  if (certificate == nullptr) return peer;
  peer.certificate = ToPem(certificate.get());
  STACK_OF(X509)* chain = SSL_get_peer_cert_chain(connection);
  for (int i = 0; chain != nullptr && i < sk_X509_num(chain); ++i) {
    peer.chain += ToPem(sk_X509_value(chain, i));
  }
  peer.names = AlternativeNames(certificate.get());
  if (peer.names.empty()) peer.names.push_back(CommonNameOf(certificate.get()));
  return peer;
}

}  // namespace latentd::server::http
