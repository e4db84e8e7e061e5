// The ControlNets of a server's models.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/compiler/graph_store.h"
#include "core/pipeline/graphs/loaded_model.h"
#include "core/pipeline/graphs/nets.h"
#include "core/pipeline/spec/request/control.h"

namespace latentd::pipeline {

// Thread-safe.
class ControlNets : public Nets {
 public:
  // Both must outlive this.
  ControlNets(adapters::Catalogue& catalogue, compiler::GraphStore& store)
      : Nets(store), catalogue_(catalogue), store_(store) {}

  // A number that two nets over one model have in common only if they are of one file; never 0.
  static uint64_t IdOf(const Control& control);

  // Null: it was not declared, or has left. Reads no file.
  Graphs Find(const LoadedModel& model, const Control& control);
  // Reads the file's header where it has to; errors as Catalogue::LoadControlNet's.
  absl::StatusOr<Graphs> FindOrMake(const LoadedModel& model, const Control& control);

 private:
  adapters::Catalogue& catalogue_;
  compiler::GraphStore& store_;
};

}  // namespace latentd::pipeline
