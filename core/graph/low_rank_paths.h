// Adds low-rank paths (Op::kLowRank) beside the linears of a step graph, so that rows of one
// evaluation can have different LoRAs. Applied to the step part of a split in its precision, before
// keys and passes: the graph with paths is one artifact, whatever is in them. 8-bit linears get
// none, since the bounds of what follows them know of no path.
//
// Three inputs come with the paths:
//   paths [slots, n]           the matrices of each slot, as PathLayout has them
//   path_slot i64 [rows]       the slot of each row; a row of another number has no path
//   path_scales f32 [rows, m]  factors of a row's ranks, of all sites one after the other
//
// A path is added behind the residual that alone reads its linear, so that products keep their
// epilogues.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace latentd::graph {

inline constexpr char kPathsInput[] = "paths", kPathSlotInput[] = "path_slot",
                      kPathScalesInput[] = "path_scales";

// A linear of the step rate with a weight of a checkpoint, whose first dimension is the rows.
struct PathSite {
  std::string weight;  // name of the weight, [out, in]
  int64_t in = 0, out = 0;
  bool operator==(const PathSite&) const = default;
};

struct PathSites {
  std::vector<PathSite> sites;  // in the order of the graph, which is the same for all sizes
  DType dtype = DType::kF32;    // dtype of the matrices, in which the first of them computes
};

PathSites FindPathSites(const Graph& step, int64_t rows);

// Places of paths of so many ranks in a slot and in a row's scales, in elements.
struct PathLayout {
  PathLayout(absl::Span<const PathSite> sites, int64_t ranks);

  struct Place {
    int64_t down = 0;   // first of [ranks, in]
    int64_t up = 0;     // first of [out, ranks]
    int64_t scale = 0;  // first of [ranks]
  };

  int64_t ranks;
  std::vector<Place> places;  // by site
  int64_t slot_elements = 0;  // elements of all matrices
  int64_t scale_elements = 0;
};

// INVALID_ARGUMENT: the graph has no site, or has an input of one of these names.
absl::StatusOr<Graph> AddPaths(const Graph& step, int64_t rows, int64_t slots, int64_t ranks);

}  // namespace latentd::graph
