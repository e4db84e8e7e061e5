#include "core/pipeline/graphs/control_nets.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/digest.h"
#include "core/compiler/compile.h"
#include "core/pipeline/graphs/control_graph.h"

namespace latentd::pipeline {
namespace {

using device::DType;

// Latents at which the networks are built once to find out which weights they want.
constexpr int kProbeLatents = 8;

std::string NetKeyOf(const Control& control) {
  return absl::StrCat(control.name, "\n", control.stamp);
}

std::shared_ptr<weights::WeightSet> NetWeightsOf(const LoadedModel& model,
                                                 const adapters::ControlNet& net) {
  auto set = std::make_shared<weights::WeightSet>(&model.graphs().weights().store(), net.name);
  set->Add(kControlNetName, net.tensors);
  return set;
}

// The graphs of a ControlNet over a model (control_graph.h).
class ControlNetGraphs : public NetGraphs {
 public:
  ControlNetGraphs(std::string user, const LoadedModel& model,
                   std::shared_ptr<const adapters::ControlNet> net, compiler::GraphStore& store)
      : NetGraphs(std::move(user), model, NetWeightsOf(model, *net), store), net_(std::move(net)) {}

  // INVALID_ARGUMENT names what the network wants and the file lacks.
  absl::Status CheckWeights() const;

 private:
  // REQUIRES: a kHint, kControlRequest or kControl.
  absl::StatusOr<graph::Graph> Build(const GraphName& name) const override;
  compiler::GraphLabel LabelOf(const GraphName& name) const override;

  const std::shared_ptr<const adapters::ControlNet> net_;
};

absl::Status ControlNetGraphs::CheckWeights() const {
  const int64_t wanted = DownscaleOf(model().vae()), scale = net_->config.hint_scale();
  if (scale != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("its first layers make a latent of ", scale,
                                                   " pixels a side, and the model has ", wanted));
  }
  const DType dtype = model().graphs().residual_dtype();
  ASSIGN_OR_RETURN(const graph::Graph hint,
                   MakeHintGraph(net_->config, kProbeLatents, kProbeLatents, dtype));
  RETURN_IF_ERROR(weights().Check(hint));
  ASSIGN_OR_RETURN(const graph::Graph step,
                   MakeControlGraph(model().family(), model().configs(), net_->config,
                                    {1, kProbeLatents, kProbeLatents}, dtype));
  return weights().Check(step);
}

absl::StatusOr<graph::Graph> ControlNetGraphs::Build(const GraphName& name) const {
  const DType dtype = model().graphs().residual_dtype();
  const StepShape shape = name.kind == GraphKind::kControlRequest
                              ? StepShape{1, kProbeLatents, kProbeLatents, name.shape.chunks}
                              : name.shape;
  auto whole =
      name.kind == GraphKind::kHint
          ? MakeHintGraph(net_->config, shape.height, shape.width, dtype)
          : MakeControlGraph(model().family(), model().configs(), net_->config, shape, dtype);
  RETURN_IF_ERROR(whole.status());
  ASSIGN_OR_RETURN(graph::SplitGraphs split, compiler::SplitInPrecision(*whole, {.dtype = dtype}));
  if (name.kind != GraphKind::kControlRequest) return std::move(split.step);
  if (split.request) return *std::move(split.request);
  return absl::InvalidArgumentError(absl::StrCat(net_->path, " reads no prompt"));
}

compiler::GraphLabel ControlNetGraphs::LabelOf(const GraphName& name) const {
  const int scale = DownscaleOf(model().vae());
  compiler::GraphLabel label{.model = model().row().name,
                             .component = std::string(kControlNetName),
                             .part = "step",
                             .width = name.shape.width * scale,
                             .height = name.shape.height * scale,
                             .rows = name.shape.rows};
  if (name.kind == GraphKind::kHint) label.part = "hint";
  if (name.kind == GraphKind::kControlRequest) label.part = "request";
  if (name.shape.chunks > 1) absl::StrAppend(&label.part, "_", name.shape.chunks, "_chunks");
  label.dtype = model().graphs().residual_dtype();
  return label;
}

}  // namespace

uint64_t ControlNets::IdOf(const Control& control) { return DigestOf(NetKeyOf(control)).low | 1; }

Nets::Graphs ControlNets::Find(const LoadedModel& model, const Control& control) {
  return Nets::Find({model.row().name, control.name, control.stamp});
}

absl::StatusOr<Nets::Graphs> ControlNets::FindOrMake(const LoadedModel& model,
                                                     const Control& control) {
  const Place place = {model.row().name, control.name, control.stamp};
  return Nets::FindOrMake(place, [&]() -> absl::StatusOr<Graphs> {
    ASSIGN_OR_RETURN(auto net,
                     catalogue_.LoadControlNet(control.name, control.stamp, model.row().name));
    const auto graphs = std::make_shared<ControlNetGraphs>(place.user(), model, net, store_);
    const absl::Status fits = graphs->CheckWeights();
    if (fits.ok()) return graphs;
    return absl::Status(fits.code(), absl::StrCat(net->path, ": ", fits.message()));
  });
}

}  // namespace latentd::pipeline
