// HttpClient over TLS, as OpenSSL speaks it.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <csignal>
#include <memory>
#include <string>

#include "core/tls/key_pair.h"
#include "core/tls/pem.h"
#include "tests/server/http/http_client.h"

namespace latentd::server::http {

class HttpsClient final : public HttpClient {
 public:
  // Believes the authorities in `pem`, and shows `pair` if it has a certificate.
  HttpsClient(const std::string& address, const std::string& pem,
              const latentd::tls::KeyPair& pair = {})
      : HttpClient(address), context_(SSL_CTX_new(TLS_client_method())) {
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL's sockets have no MSG_NOSIGNAL
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    Believe(pem);
    if (!pair.certificate.empty()) Show(pair);
    constexpr unsigned char kOffered[] = "\x02h2\x08http/1.1";
    SSL_CTX_set_alpn_protos(context_.get(), kOffered, sizeof(kOffered) - 1);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), descriptor());
    ready_ = SSL_connect(ssl_.get()) == 1;
    ERR_clear_error();
  }

  // The handshake went well.
  bool ready() const { return ready_; }

  // The protocol that the server has chosen.
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_.get(), &name, &size);
    return std::string(reinterpret_cast<const char*>(name), size);
  }

 private:
  struct FreeSsl {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  void Believe(const std::string& pem) {
    const auto certificates = latentd::tls::ParseCertificates(pem, "authority");
    if (!certificates.ok()) return;
    for (const auto& certificate : *certificates) {
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), certificate.get());
    }
  }

  void Show(const latentd::tls::KeyPair& pair) {
    const auto certificates = latentd::tls::ParseCertificates(pair.certificate, "certificate");
    const auto key = latentd::tls::ParseKey(pair.key, "key");
    if (!certificates.ok() || !key.ok()) return;
    SSL_CTX_use_certificate(context_.get(), certificates->front().get());
    SSL_CTX_use_PrivateKey(context_.get(), key->get());
  }

  ssize_t SendSome(const char* bytes, size_t size) override {
    const int sent = SSL_write(ssl_.get(), bytes, static_cast<int>(size));
    ERR_clear_error();
    return sent;
  }
  ssize_t ReceiveSome(char* bytes, size_t size) override {
    const int received = SSL_read(ssl_.get(), bytes, static_cast<int>(size));
    ERR_clear_error();
    return received;
  }

  const std::unique_ptr<SSL_CTX, FreeSsl> context_;
  std::unique_ptr<SSL, FreeSsl> ssl_;
  bool ready_ = false;
};

}  // namespace latentd::server::http
