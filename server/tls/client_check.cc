#include "server/tls/client_check.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "server/process/logs/log.h"

namespace latentd::server::tls {

absl::StatusOr<std::unique_ptr<ClientCheck>> ClientCheck::Open(const std::string& authority,
                                                               std::string clients,
                                                               const Clock& clock) {
  ASSIGN_OR_RETURN(auto files, Files::Open({authority}, [authority](const Files::Contents& pem) {
                     return latentd::tls::Authority::Parse(pem.front(), authority);
                   }));
  return absl::WrapUnique(new ClientCheck(std::move(files), std::move(clients), clock));
}

ClientCheck::ClientCheck(std::unique_ptr<Files> authority, std::string clients, const Clock& clock)
    : authority_(std::move(authority)),
      clients_(std::move(clients)),
      clock_(clock),
      log_limit_(clock, process::kLogPause) {}

absl::Status ClientCheck::Judge(absl::string_view certificate, absl::string_view chain) const {
  if (certificate.empty()) {
    return absl::UnauthenticatedError(absl::StrCat(
        "this port is for ", clients_, " with a client certificate, and there was none"));
  }
  return authority_->value()->CheckClient(certificate, chain, clock_.Wall());
}

absl::Status ClientCheck::Check(absl::string_view certificate, absl::string_view chain) {
  absl::Status judged = Judge(certificate, chain);
  if (!judged.ok()) {
    process::LogRarely(log_limit_, "call refused", {{"reason", std::string(judged.message())}});
  }
  return judged;
}

}  // namespace latentd::server::tls
