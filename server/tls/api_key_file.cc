#include "server/tls/api_key_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/files/files.h"
#include "server/process/logs/log.h"

namespace latentd::server::tls {
namespace {

namespace v1 = ::latent::v1;

absl::Status CheckMode(const std::string& file) {
  struct stat facts = {};
  if (stat(file.c_str(), &facts) != 0) return FileError("read", file, errno);
  if ((facts.st_mode & S_IRWXO) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(file, ": everybody on this machine may use it (chmod o= ", file, ")"));
}

// The key in "Bearer KEY" and "Basic BASE64"; empty: it is neither.
std::string KeyIn(absl::string_view authorization) {
  const size_t blank = authorization.find(' ');
  if (blank == absl::string_view::npos) return "";
  const absl::string_view scheme = authorization.substr(0, blank);
  const absl::string_view value = absl::StripAsciiWhitespace(authorization.substr(blank));
  if (absl::EqualsIgnoreCase(scheme, "bearer")) return std::string(value);
  std::string decoded;
  if (!absl::EqualsIgnoreCase(scheme, "basic") || !absl::Base64Unescape(value, &decoded)) return "";
  const size_t colon = decoded.find(':');
  return colon == std::string::npos ? "" : decoded.substr(colon + 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ApiKeyFile>> ApiKeyFile::Open(const std::string& file,
                                                             const Clock& clock) {
  const auto make =
      [file](const Files::Contents& contents) -> absl::StatusOr<latentd::tls::ApiKeys> {
    RETURN_IF_ERROR(CheckMode(file));
    return latentd::tls::ApiKeys::Parse(contents.front(), file);
  };
  ASSIGN_OR_RETURN(auto keys, Files::Open({file}, make));
  return absl::WrapUnique(new ApiKeyFile(file, std::move(keys), clock));
}

ApiKeyFile::ApiKeyFile(std::string file, std::unique_ptr<Files> keys, const Clock& clock)
    : file_(std::move(file)), keys_(std::move(keys)), log_limit_(clock, process::kLogPause) {}

void ApiKeyFile::Refresh() {
  const absl::StatusOr<bool> changed = keys_->Refresh();
  if (!changed.ok()) {
    process::Log(v1::WARNING, "reading API keys failed; keeping those that there were",
                 {{"reason", std::string(changed.status().message())}});
  } else if (*changed) {
    process::Log(v1::INFO, "API keys have changed", {{"file", file_}});
  }
}

absl::StatusOr<latentd::tls::ApiKeys::Holder> ApiKeyFile::Check(absl::string_view authorization,
                                                                absl::string_view api_key) {
  const auto keys = keys_->value();
  std::optional<latentd::tls::ApiKeys::Holder> holder;
  const std::string key = KeyIn(authorization);
  if (!key.empty()) holder = keys->HolderOf(key);
  if (!holder && !api_key.empty()) holder = keys->HolderOf(api_key);
  if (holder) return *std::move(holder);
  const bool has_one = !authorization.empty() || !api_key.empty();
  const absl::Status refused = absl::UnauthenticatedError(
      has_one ? "the API key is none of this server's"
              : "this server asks for an API key, as Authorization: Bearer KEY");
  process::LogRarely(log_limit_, "call refused", {{"reason", std::string(refused.message())}});
  return refused;
}

}  // namespace latentd::server::tls
