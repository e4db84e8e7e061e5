// A certificate, with those that lead from it to its authority, and its key: both as PEM text.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace latentd::tls {

struct KeyPair {
  std::string certificate;
  std::string key;

  bool operator==(const KeyPair&) const = default;
};

// Checks the pair; gRPC does so too late, without a reason. INVALID_ARGUMENT where a text cannot be
// read or the key is not the certificate's, FAILED_PRECONDITION where the certificate has expired
// or is not valid yet, or is too weak for OpenSSL on this machine. `certificate_name` and
// `key_name` are the files', for messages. Thread-safe.
absl::Status CheckKeyPair(const KeyPair& pair, absl::string_view certificate_name,
                          absl::string_view key_name, absl::Time now);

}  // namespace latentd::tls
