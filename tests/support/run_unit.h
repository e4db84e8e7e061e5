// Runs a unit of the pipeline to its end at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/base/errors/status_macros.h"
#include "core/pipeline/units/units.h"

namespace latentd::testing {

// The unit that picture.next names.
inline absl::Status RunUnit(pipeline::Picture& picture) {
  ASSIGN_OR_RETURN(const auto stream, picture.stage().device().NewStream(SystemClock()));
  pipeline::Lanes lanes;  // the picture keeps the one that it is in
  ASSIGN_OR_RETURN(pipeline::PendingUnit unit, pipeline::EnqueueUnit({&picture}, lanes, *stream));
  RETURN_IF_ERROR(unit.parts[0].status);
  return pipeline::CompleteUnit(unit, picture, unit.parts[0]);
}

// As pipeline::EnqueueGraph.
inline absl::StatusOr<pipeline::NamedBuffers> RunNamed(
    const std::shared_ptr<backends::Executable>& executable, const pipeline::NamedBuffers& ports,
    const std::vector<std::string>& to_host) {
  pipeline::PendingWork work;  // outlives the stream
  ASSIGN_OR_RETURN(const auto stream, executable->device().NewStream(SystemClock()));
  ASSIGN_OR_RETURN(pipeline::NamedBuffers outputs,
                   pipeline::EnqueueGraph(executable, ports, to_host, *stream, work));
  RETURN_IF_ERROR(stream->Synchronize());
  return outputs;
}

}  // namespace latentd::testing
