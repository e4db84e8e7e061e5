#include "server/generation/shown_key.h"

namespace latentd::server::generation {

absl::StatusOr<KeyHolder> CheckKey(const CallEnvironment& environment, Transport transport,
                                   const ShownKey& shown) {
  absl::StatusOr<KeyHolder> holder = environment.holder_of_key(shown.authorization, shown.api_key);
  if (!holder.ok()) {
    CountRefusedKey(environment.engine.metrics(), transport,
                    !shown.authorization.empty() || !shown.api_key.empty());
  }
  return holder;
}

}  // namespace latentd::server::generation
