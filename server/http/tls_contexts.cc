#include "server/http/tls_contexts.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <utility>

#include "core/tls/pem.h"
#include "server/process/logs/log.h"

namespace latentd::server::http {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

constexpr unsigned char kHttp11[] = "\x08http/1.1";

int SelectProtocol(SSL*, const unsigned char** chosen, unsigned char* size,
                   const unsigned char* offered, unsigned offered_size, void*) {
  const int selected = SSL_select_next_proto(const_cast<unsigned char**>(chosen), size, kHttp11,
                                             sizeof(kHttp11) - 1, offered, offered_size);
  return selected == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

// The handshake takes any certificate.
int TakeAny(int, X509_STORE_CTX*) { return 1; }

// Clients are told the names of their authorities.
void AskForCertificate(SSL_CTX* context, const latentd::tls::Authority& authority) {
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, TakeAny);
  constexpr unsigned char kSessions[] = "latentd";
  SSL_CTX_set_session_id_context(context, kSessions, sizeof(kSessions) - 1);
  const auto certificates = latentd::tls::ParseCertificates(authority.pem(), "clients");
  if (!certificates.ok()) return;
  for (const auto& certificate : *certificates) {
    SSL_CTX_add_client_CA(context, certificate.get());
  }
}

std::shared_ptr<asio::ssl::context> MakeContext(const latentd::tls::KeyPair& pair,
                                                const latentd::tls::Authority* authority) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX* raw = context->native_handle();
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_alpn_select_cb(raw, SelectProtocol, nullptr);
  Error error;
  context->use_certificate_chain(asio::buffer(pair.certificate), error);
  if (!error) context->use_private_key(asio::buffer(pair.key), asio::ssl::context::pem, error);
  ERR_clear_error();  // gRPC reads the queue, too
  if (error) {
    process::Log(latent::v1::WARNING, "the certificate cannot be used over HTTP",
                 {{"reason", error.message()}});
    return nullptr;
  }
  if (authority != nullptr) AskForCertificate(raw, *authority);
  return context;
}

}  // namespace

std::shared_ptr<asio::ssl::context> TlsContexts::Get() {
  auto pair = tls_.pair();
  auto authority = tls_.clients() == nullptr ? nullptr : tls_.clients()->authority();
  absl::MutexLock lock(&mutex_);
  if (pair == pair_ && authority == authority_) return context_;
  // One that cannot be used leaves the one before.
  if (auto made = MakeContext(*pair, authority.get())) context_ = std::move(made);
  pair_ = std::move(pair);
  authority_ = std::move(authority);
  return context_;
}

}  // namespace latentd::server::http
