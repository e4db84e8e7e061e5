#include "core/tls/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/errors/status_macros.h"

namespace latentd::tls {
namespace {

constexpr size_t kMostNameBytes = 64;
constexpr size_t kLeastKeyBytes = 16, kMostKeyBytes = 512;
constexpr absl::string_view kOperator = "operator";

std::string DigestOf(absl::string_view key) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

bool IsName(absl::string_view name) {
  return name.size() <= kMostNameBytes && std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ||
                  c == '-';
         });
}

bool IsKey(absl::string_view key) {
  return key.size() >= kLeastKeyBytes && key.size() <= kMostKeyBytes &&
         std::all_of(key.begin(), key.end(),
                     [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); });
}

// The digest that hexadecimal digits are; empty: they are something else.
std::string DigestIn(absl::string_view digits) {
  const bool is_digest = digits.size() == 2 * SHA256_DIGEST_LENGTH &&
                         std::all_of(digits.begin(), digits.end(), [](char c) {
                           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
                         });
  return is_digest ? absl::HexStringToBytes(digits) : "";
}

// The digest that a line has for its key: the key's, or one that is written there.
absl::StatusOr<std::string> DigestFor(absl::string_view key) {
  absl::string_view digits = key;
  if (absl::ConsumePrefix(&digits, "sha256:")) {
    std::string digest = DigestIn(digits);
    if (!digest.empty()) return digest;
    return absl::InvalidArgumentError("sha256: must have 64 hexadecimal digits behind it");
  }
  if (IsKey(key)) return DigestOf(key);
  return absl::InvalidArgumentError(absl::StrCat("the key must have from ", kLeastKeyBytes, " to ",
                                                 kMostKeyBytes, " visible characters of ASCII"));
}

}  // namespace

absl::StatusOr<ApiKeys::Entry> ApiKeys::ParseLine(absl::string_view line) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  const bool has_role = words.size() == 3 && words[2] == kOperator;
  if (words.size() != 2 && !has_role) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be a name and a key, and for operators the word ", kOperator));
  }
  if (!IsName(words[0])) {
    return absl::InvalidArgumentError("the name may have 64 letters, digits and ._- characters");
  }
  ASSIGN_OR_RETURN(std::string digest, DigestFor(words[1]));
  return Entry{{std::string(words[0]), has_role}, std::move(digest)};
}

absl::Status ApiKeys::Add(Entry entry) {
  for (const Entry& other : entries_) {
    if (other.digest != entry.digest) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the key is that of ", other.holder.name, " too"));
  }
  entries_.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::StatusOr<ApiKeys> ApiKeys::Parse(absl::string_view text, absl::string_view file) {
  ApiKeys keys;
  int number = 0;
  absl::ConsumePrefix(&text, "\xEF\xBB\xBF");  // editors of Windows begin a file with it
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    absl::StatusOr<Entry> entry = ParseLine(line);
    const absl::Status added = entry.ok() ? keys.Add(*std::move(entry)) : entry.status();
    if (!added.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": line ", number, ": ", added.message()));
    }
  }
  if (keys.entries_.empty()) return absl::InvalidArgumentError(absl::StrCat(file, ": no key"));
  return keys;
}

std::optional<ApiKeys::Holder> ApiKeys::HolderOf(absl::string_view key) const {
  const std::string digest = DigestOf(key);
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0) found = &entry;
  }
  if (found == nullptr) return std::nullopt;
  return found->holder;
}

}  // namespace latentd::tls
