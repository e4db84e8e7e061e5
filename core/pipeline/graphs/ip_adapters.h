// The IP-Adapters of a server's models, each with its image encoder. Encoders of equal contents,
// and adapters of equal shapes, share artifacts and weights, as all graphs do.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/compiler/graph_store.h"
#include "core/pipeline/graphs/loaded_model.h"
#include "core/pipeline/graphs/nets.h"
#include "core/pipeline/spec/request/image_prompt.h"

namespace latentd::pipeline {

// Thread-safe.
class IpAdapters : public Nets {
 public:
  // Both must outlive this.
  IpAdapters(adapters::Catalogue& catalogue, compiler::GraphStore& store)
      : Nets(store), catalogue_(catalogue), store_(store) {}

  // A number that two adapters over one model have in common only if they are of one file; never
  // 0.
  static uint64_t IdOf(const ImagePrompt& prompt);

  // Null: it was not declared, or has left. Reads no file.
  Graphs Find(const LoadedModel& model, const ImagePrompt& prompt);
  // Reads headers where it has to; errors as Catalogue::LoadIpAdapter's. Its graphs are
  // kImageEncoder and kImagePrompt.
  absl::StatusOr<Graphs> FindOrMake(const LoadedModel& model, const ImagePrompt& prompt);

 private:
  adapters::Catalogue& catalogue_;
  compiler::GraphStore& store_;
};

}  // namespace latentd::pipeline
