// The file of callers' keys (core/tls/api_keys.h), and the judgement of calls by it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "core/tls/api_keys.h"
#include "server/process/logs/rate_limit.h"
#include "server/tls/followed_files.h"

namespace latentd::server::tls {

// Thread-safe.
class ApiKeyFile {
 public:
  // `clock` outlives it. FAILED_PRECONDITION where the file may be read by any user of this
  // machine; else as ApiKeys.
  static absl::StatusOr<std::unique_ptr<ApiKeyFile>> Open(const std::string& file,
                                                          const Clock& clock);

  // Follows the file, and logs what has changed and what cannot be used; call it every second or
  // so.
  void Refresh();

  // The key's holder by the values of the metadata or headers of these names; empty: there are
  // none. A key is "Bearer KEY", or "Basic" with a name of no matter and the key as password, or by
  // itself in the second. UNAUTHENTICATED, which is logged once a second.
  absl::StatusOr<latentd::tls::ApiKeys::Holder> Check(absl::string_view authorization,
                                                      absl::string_view api_key);

 private:
  using Files = FollowedFiles<latentd::tls::ApiKeys>;

  ApiKeyFile(std::string file, std::unique_ptr<Files> keys, const Clock& clock);

  const std::string file_;
  const std::unique_ptr<Files> keys_;
  process::RateLimit log_limit_;
};

}  // namespace latentd::server::tls
