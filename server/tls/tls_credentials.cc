#include "server/tls/tls_credentials.h"

#include "absl/strings/string_view.h"

namespace latentd::server::tls {
namespace {

// The first value of a property; empty: none.
absl::string_view Property(const grpc_auth_context* context, const char* name) {
  grpc_auth_property_iterator values = grpc_auth_context_find_properties_by_name(context, name);
  const grpc_auth_property* value = grpc_auth_property_iterator_next(&values);
  return value == nullptr ? absl::string_view()
                          : absl::string_view(value->value, value->value_length);
}

// Called by gRPC for each call, before it looks for the call's handler.
void CheckCall(void* clients, grpc_auth_context* context, const grpc_metadata*, size_t,
               grpc_process_auth_metadata_done_cb done, void* user_data) {
  const absl::Status status = static_cast<ClientCheck*>(clients)->Check(
      Property(context, GRPC_X509_PEM_CERT_PROPERTY_NAME),
      Property(context, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME));
  done(user_data, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(status.code()),
       status.ok() ? nullptr : std::string(status.message()).c_str());
}

}  // namespace

TlsCredentials::TlsCredentials(const FollowedFiles<latentd::tls::KeyPair>& pair,
                               ClientCheck* clients)
    : pair_(pair),
      clients_(clients),
      credentials_(grpc_ssl_server_credentials_create_with_options(
          grpc_ssl_server_credentials_create_options_using_config_fetcher(
              clients == nullptr ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                 : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY,
              [](void* self, grpc_ssl_server_certificate_config** config) {
                return static_cast<TlsCredentials*>(self)->Fetch(config);
              },
              this))) {
  if (clients == nullptr) return;
  grpc_server_credentials_set_auth_metadata_processor(
      credentials_, {.process = &CheckCall, .destroy = nullptr, .state = clients});
}

TlsCredentials::~TlsCredentials() { grpc_server_credentials_release(credentials_); }

int TlsCredentials::AddPortToServer(const std::string& address, grpc_server* server) {
  return grpc_server_add_http2_port(server, address.c_str(), credentials_);
}

grpc_ssl_certificate_config_reload_status TlsCredentials::Fetch(
    grpc_ssl_server_certificate_config** config) {
  const auto pair = pair_.value();
  const auto authority = clients_ == nullptr ? nullptr : clients_->authority();
  absl::MutexLock lock(&mutex_);
  if (pair == fetched_pair_ && authority == fetched_authority_) {
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  }
  fetched_pair_ = pair;
  fetched_authority_ = authority;
  const grpc_ssl_pem_key_cert_pair pem = {pair->key.c_str(), pair->certificate.c_str()};
  // Clients are told the names of their authorities. gRPC wants some where it asks for none, too.
  const std::string& authorities = authority == nullptr ? pair->certificate : authority->pem();
  *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pem, 1);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

}  // namespace latentd::server::tls
