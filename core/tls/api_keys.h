// Keys that callers show, as passwords: a file says whose each is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::tls {

// Immutable, thread-safe.
class ApiKeys {
 public:
  struct Holder {
    std::string name;
    bool is_operator = false;  // may do what those who run the server may, beside drawing
  };

  // Lines "NAME KEY" or "NAME KEY operator" with blanks between them; empty lines, and those that
  // begin with "#", are skipped. A name has 1 to 64 letters, digits and ._- characters; a key 16 to
  // 512 visible characters of ASCII, or it is "sha256:" with the 64 hexadecimal digits of its
  // SHA-256. A name may have several keys, and each its own role. INVALID_ARGUMENT begins with
  // `file` and the number of the line, and has no key in it.
  static absl::StatusOr<ApiKeys> Parse(absl::string_view text, absl::string_view file);

  // The holder of the key; none: it is no caller's. It takes as long whichever it is.
  std::optional<Holder> HolderOf(absl::string_view key) const;

 private:
  struct Entry {
    Holder holder;
    std::string digest;
  };

  static absl::StatusOr<Entry> ParseLine(absl::string_view line);
  absl::Status Add(Entry entry);

  std::vector<Entry> entries_;
};

}  // namespace latentd::tls
