#include "core/pipeline/run_graph.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace latentd::pipeline {

absl::StatusOr<NamedBuffers> RunGraph(backends::Executable& executable,
                                      const NamedBuffers& inputs) {
  std::vector<device::Buffer> given;
  for (const backends::Port& port : executable.inputs()) {
    const auto found = inputs.find(port.name);
    if (found == inputs.end()) {
      return absl::InternalError(absl::StrCat("graph input ", port.name, " is not given"));
    }
    given.push_back(found->second);
  }
  std::vector<device::Buffer> made;
  for (const backends::Port& port : executable.outputs()) {
    made.push_back(device::Buffer::Allocate(port.dtype, port.shape));
  }
  RETURN_IF_ERROR(executable.Run(given, absl::MakeSpan(made)));
  NamedBuffers outputs;
  for (size_t i = 0; i < made.size(); ++i) outputs[executable.outputs()[i].name] = made[i];
  return outputs;
}

}  // namespace latentd::pipeline
