#include "client/options/api_key.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/options/files.h"
#include "core/base/errors/status_macros.h"

namespace latentd::client {
namespace {

constexpr char kVariable[] = "LATENTD_API_KEY";
constexpr size_t kMostFileBytes = 1 << 20;

// True of what metadata of gRPC may have.
bool CanBeSent(absl::string_view key) {
  return std::all_of(key.begin(), key.end(),
                     [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); });
}

}  // namespace

absl::StatusOr<std::string> FirstKeyOf(absl::string_view text, absl::string_view file) {
  bool has_digest = false;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || words.front().front() == '#') continue;
    const bool has_role = words.size() == 3 && words.back() == "operator";
    const absl::string_view key = words.size() == 1 ? words.front() : words[1];
    if ((words.size() > 2 && !has_role) || !CanBeSent(key)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": a line must be a key, or a name, a key and perhaps a role"));
    }
    if (!absl::StartsWith(key, "sha256:")) return std::string(key);
    has_digest = true;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(file, has_digest ? ": it has digests, and no key to show" : ": no key"));
}

Option ApiKeyOption(Connection& connection) {
  if (const char* key = std::getenv(kVariable); key != nullptr) connection.api_key = key;
  const auto read = [&connection](const std::string& path) {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostFileBytes));
    ASSIGN_OR_RETURN(connection.api_key, FirstKeyOf(text, path));
    return absl::OkStatus();
  };
  return {"api-key-file", "FILE",
          "show the first key of this file (default: the key in\n$LATENTD_API_KEY, else none)",
          read};
}

absl::Status CheckApiKey(const Connection& connection) {
  // A file's has been checked.
  if (CanBeSent(connection.api_key)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("$", kVariable, ": must be visible characters of ASCII"));
}

std::string ExplainApiKey(const grpc::Status& status, const Connection& connection) {
  const bool is_about_keys = status.error_code() == grpc::StatusCode::UNAUTHENTICATED &&
                             absl::StrContains(status.error_message(), "API key");
  if (!is_about_keys) return "";
  return connection.api_key.empty() ? "(--api-key-file or $LATENTD_API_KEY gives it)"
                                    : "(it was that of --api-key-file, or of $LATENTD_API_KEY)";
}

}  // namespace latentd::client
