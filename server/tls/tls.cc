#include "server/tls/tls.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/metrics/families.h"
#include "core/tls/pem.h"
#include "server/process/logs/log.h"

namespace latentd::server::tls {
namespace {

namespace v1 = ::latent::v1;

absl::StatusOr<std::unique_ptr<ClientCheck>> OpenCheck(const std::string& authority,
                                                       const std::string& clients,
                                                       const Clock& clock) {
  if (authority.empty()) return nullptr;
  return ClientCheck::Open(authority, clients, clock);
}

// `end`: a server stops with the first of its chain, an authority with its last.
void Record(const char* certificate, const std::string& pem, absl::Time latentd::tls::Expiry::*end,
            metrics::Registry& metrics) {
  const auto expiry = latentd::tls::ExpiryOf(pem, certificate);
  if (!expiry.ok()) return;
  metrics.GetGauge(metrics::kTlsCertificateExpiry, {certificate})
      .Set(static_cast<double>(absl::ToUnixSeconds((*expiry).*end)));
}

void RecordAuthority(const char* certificate, const ClientCheck& check,
                     metrics::Registry& metrics) {
  Record(certificate, check.authority()->pem(), &latentd::tls::Expiry::last, metrics);
}

// Logs a change or a failure; true if there is a new value.
bool LogChange(const absl::StatusOr<bool>& changed, const std::string& file) {
  if (!changed.ok()) {
    process::Log(v1::WARNING, "TLS reload failed; keeping the current certificate",
                 {{"reason", std::string(changed.status().message())}});
  } else if (*changed) {
    process::Log(v1::INFO, "TLS files have changed", {{"file", file}});
  }
  return changed.ok() && *changed;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tls>> Tls::Open(const TlsFiles& files, const Clock& clock,
                                               metrics::Registry& metrics) {
  const auto make =
      [files, &clock](const PairFiles::Contents& pem) -> absl::StatusOr<latentd::tls::KeyPair> {
    latentd::tls::KeyPair pair{.certificate = pem[0], .key = pem[1]};
    RETURN_IF_ERROR(latentd::tls::CheckKeyPair(pair, files.certificate, files.key, clock.Wall()));
    return pair;
  };
  ASSIGN_OR_RETURN(auto pair, PairFiles::Open({files.certificate, files.key}, make));
  ASSIGN_OR_RETURN(auto clients, OpenCheck(files.client_authority, "clients", clock));
  ASSIGN_OR_RETURN(auto operators, OpenCheck(files.operator_authority, "operators", clock));
  return absl::WrapUnique(
      new Tls(files, std::move(pair), std::move(clients), std::move(operators), metrics));
}

Tls::Tls(TlsFiles files, std::unique_ptr<PairFiles> pair, std::unique_ptr<ClientCheck> clients,
         std::unique_ptr<ClientCheck> operators, metrics::Registry& metrics)
    : metrics_(metrics),
      files_(std::move(files)),
      pair_(std::move(pair)),
      clients_(std::move(clients)),
      operators_(std::move(operators)),
      credentials_(std::make_shared<TlsCredentials>(*pair_, clients_.get())),
      operator_credentials_(operators_ == nullptr
                                ? nullptr
                                : std::make_shared<TlsCredentials>(*pair_, operators_.get())) {
  RecordExpiry();
}

void Tls::Refresh() {
  bool changed = LogChange(pair_->Refresh(), files_.certificate);
  if (clients_ != nullptr) changed |= LogChange(clients_->Refresh(), files_.client_authority);
  if (operators_ != nullptr) changed |= LogChange(operators_->Refresh(), files_.operator_authority);
  if (changed) RecordExpiry();
}

void Tls::RecordExpiry() {
  Record("server", pair_->value()->certificate, &latentd::tls::Expiry::first, metrics_);
  if (clients_ != nullptr) RecordAuthority("client_authority", *clients_, metrics_);
  if (operators_ != nullptr) RecordAuthority("operator_authority", *operators_, metrics_);
}

}  // namespace latentd::server::tls
