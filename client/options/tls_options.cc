#include "client/options/tls_options.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/options/files.h"
#include "client/output/error_text.h"
#include "core/base/errors/status_macros.h"
#include "core/tls/authority.h"
#include "core/tls/key_pair.h"
#include "core/tls/probe.h"

namespace latentd::client {
namespace {

// The connection's TLS, switched on by whichever option is first.
Tls& TlsOf(Connection& connection) {
  return connection.tls ? *connection.tls : connection.tls.emplace();
}

// Puts the file's content into a field of Tls.
std::function<absl::Status(const std::string&)> SetContent(Connection& connection,
                                                           std::string Tls::*field) {
  return [&connection, field](const std::string& path) {
    ASSIGN_OR_RETURN(TlsOf(connection).*field, ReadFile(path));
    return absl::OkStatus();
  };
}

absl::Status SetAuthorities(Connection& connection, const std::string& path) {
  ASSIGN_OR_RETURN(std::string pem, ReadFile(path));
  RETURN_IF_ERROR(tls::Authority::Parse(pem, path).status());
  TlsOf(connection).authorities = std::move(pem);
  return absl::OkStatus();
}

// Empty: none.
std::string FindProblem(const Connection& connection) {
  if (absl::StartsWith(connection.server, "unix:")) return "";
  const Tls tls = connection.tls.value_or(Tls());
  const absl::Status probed = tls::Probe({.address = connection.server,
                                          .authorities = tls.authorities,
                                          .server_name = tls.server_name});
  if (!connection.tls) {
    const bool speaks_tls = probed.ok() || absl::IsPermissionDenied(probed);
    return speaks_tls ? absl::StrCat("the server at ", connection.server,
                                     " speaks TLS: give --tls or --tls-ca")
                      : "";
  }
  if (absl::IsPermissionDenied(probed)) {
    return absl::StrCat(connection.server, ": ", probed.message(),
                        "\n(--tls-ca and --tls-server-name say which is)");
  }
  if (absl::IsFailedPrecondition(probed)) {
    return absl::StrCat(connection.server, ": ", probed.message());
  }
  return "";
}

}  // namespace

OptionGroup TlsOptions(Connection& connection) {
  const auto set_tls = [&connection](const std::string& text) {
    bool on = false;
    RETURN_IF_ERROR(SetSwitch(on)(text));
    if (on) TlsOf(connection);
    return absl::OkStatus();
  };
  const auto set_authorities = [&connection](const std::string& path) {
    return SetAuthorities(connection, path);
  };
  const auto set_name = [&connection](const std::string& name) {
    return SetString(TlsOf(connection).server_name)(name);
  };
  return {
      "TLS (any of these switches it on; files are PEM)",
      {{"tls", "", "speak TLS, and believe the system's authorities", set_tls},
       {"tls-ca", "FILE", "believe these authorities instead", set_authorities},
       {"tls-cert", "FILE", "show this certificate", SetContent(connection, &Tls::certificate)},
       {"tls-key", "FILE", "its key", SetContent(connection, &Tls::key)},
       {"tls-server-name", "NAME",
        "expect this name in the server's certificate (default: the host of --server)", set_name}}};
}

absl::Status CheckTls(const Connection& connection) {
  if (!connection.tls) return absl::OkStatus();
  const Tls& tls = *connection.tls;
  if (tls.certificate.empty() && tls.key.empty()) return absl::OkStatus();
  if (tls.key.empty()) return absl::InvalidArgumentError("--tls-cert: needs --tls-key too");
  if (tls.certificate.empty()) return absl::InvalidArgumentError("--tls-key: needs --tls-cert too");
  return tls::CheckKeyPair({tls.certificate, tls.key}, "--tls-cert", "--tls-key", absl::Now());
}

std::string ExplainTls(const grpc::Status& status, const Connection& connection) {
  if (ExitCodeFor(status, /*connected=*/false) != ExitCode::kUnreachable) return "";
  const std::string problem = FindProblem(connection);
  return problem.empty() ? "" : absl::StrCat(problem, "\n(", status.error_message(), ")");
}

}  // namespace latentd::client
