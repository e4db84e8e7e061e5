#include "server/generation/shown_key.h"

namespace latentd::server::generation {

absl::StatusOr<std::string> CheckKey(const CallEnvironment& environment, Transport transport,
                                     const ShownKey& shown) {
  absl::StatusOr<std::string> caller =
      environment.caller_of_key(shown.authorization, shown.api_key);
  if (!caller.ok()) {
    CountRefusedKey(environment.engine.metrics(), transport,
                    !shown.authorization.empty() || !shown.api_key.empty());
  }
  return caller;
}

}  // namespace latentd::server::generation
