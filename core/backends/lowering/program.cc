#include "core/backends/lowering/program.h"

namespace latentd::backends::lowering {

bool IsHeld(const Program& program, const View& view) {
  const Storage& storage = program.storages[view.storage];
  return storage.place == Place::kHeld && storage.elements == view.shape.elements();
}

}  // namespace latentd::backends::lowering
