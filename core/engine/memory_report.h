// What the process holds now, by what holds it.
//
// Pure functions of what they are given, but for MeasureProcess.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/compiler/graph_store.h"
#include "core/engine/cold_requests.h"
#include "core/engine/graph_admin.h"
#include "core/engine/picture_loop.h"
#include "core/weights/weight_store.h"

namespace latentd::engine {

// Fills in the weights: each result counts for every component that uses it, and once in the sum.
// Who has a graph ready and holds no weights for it shares those of somebody else.
void AddWeights(absl::Span<const weights::WeightInfo> held,
                absl::Span<const compiler::GraphStatus> graphs, MemoryReport& report);

// Fills in arena, executables, artifacts and definitions. The arena is as large as the largest
// graph that is loaded needs.
void AddGraphs(const compiler::GraphStore::Totals& totals, MemoryReport& report);

// Fills in what pictures hold: state, results, and images that wait for their graphs.
void AddPictures(const PictureLoop& loop, const ColdRequests& cold, MemoryReport& report);

// The report once those have left: of their weights stays what `needs` reads too.
void TakeAway(const compiler::Eviction& leaving, const backends::MemoryNeeds& needs,
              absl::Span<const weights::WeightInfo> held, MemoryReport& report);

// Fills in what malloc and the kernel say of this process.
void AddProcess(MemoryReport& report);

// Of the text of /proc/self/status, in bytes; 0 if it is not there.
int64_t ParsePeakResident(absl::string_view status);

}  // namespace latentd::engine
