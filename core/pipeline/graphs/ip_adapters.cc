#include "core/pipeline/graphs/ip_adapters.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/digest.h"
#include "core/compiler/compile.h"
#include "core/pipeline/graphs/image_prompt_graph.h"
#include "core/pipeline/spec/models/components.h"

namespace latentd::pipeline {
namespace {

std::shared_ptr<weights::WeightSet> AdapterWeightsOf(const LoadedModel& model,
                                                     const adapters::IpAdapter& adapter) {
  auto set = std::make_shared<weights::WeightSet>(&model.graphs().weights().store(), adapter.name);
  set->Add(kImageEncoderName, adapter.encoder_tensors);
  set->Add(kIpAdapterName, adapter.tensors);
  return set;
}

// The graphs of an IP-Adapter over a model (image_prompt_graph.h).
class IpAdapterGraphs : public NetGraphs {
 public:
  IpAdapterGraphs(std::string user, const LoadedModel& model,
                  std::shared_ptr<const adapters::IpAdapter> adapter, compiler::GraphStore& store)
      : NetGraphs(std::move(user), model, AdapterWeightsOf(model, *adapter), store),
        adapter_(std::move(adapter)) {}

  // INVALID_ARGUMENT names what the networks want and the files lack.
  absl::Status CheckWeights() const {
    for (const GraphKind kind : {GraphKind::kImageEncoder, GraphKind::kImagePrompt}) {
      ASSIGN_OR_RETURN(const graph::Graph whole, BuildWhole({.kind = kind}));
      RETURN_IF_ERROR(weights().Check(whole));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<graph::Graph> BuildWhole(const GraphName& name) const {
    if (name.kind == GraphKind::kImageEncoder) {
      return MakeImageEncoderGraph(adapter_->encoder, adapter_->config);
    }
    return MakeImagePromptGraph(adapter_->encoder, adapter_->config, model().configs().unet,
                                model().graphs().residual_dtype(), name.shape.rows);
  }

  absl::StatusOr<graph::Graph> Build(const GraphName& name) const override {
    ASSIGN_OR_RETURN(const graph::Graph whole, BuildWhole(name));
    ASSIGN_OR_RETURN(
        graph::SplitGraphs split,
        compiler::SplitInPrecision(whole, {.dtype = model().graphs().residual_dtype()}));
    return std::move(split.step);
  }

  compiler::GraphLabel LabelOf(const GraphName& name) const override {
    const bool encodes = name.kind == GraphKind::kImageEncoder;
    compiler::GraphLabel label{
        .model = model().row().name,
        .component = std::string(encodes ? kImageEncoderName : kIpAdapterName)};
    if (name.shape.rows > 1) label.part = absl::StrCat(name.shape.rows, "_images");
    label.dtype = model().graphs().residual_dtype();
    return label;
  }

  const std::shared_ptr<const adapters::IpAdapter> adapter_;
};

}  // namespace

uint64_t IpAdapters::IdOf(const ImagePrompt& prompt) {
  return DigestOf(absl::StrCat("image\n", prompt.name, "\n", prompt.stamp)).low | 1;
}

Nets::Graphs IpAdapters::Find(const LoadedModel& model, const ImagePrompt& prompt) {
  return Nets::Find({model.row().name, prompt.name, prompt.stamp});
}

absl::StatusOr<Nets::Graphs> IpAdapters::FindOrMake(const LoadedModel& model,
                                                    const ImagePrompt& prompt) {
  const Place place = {model.row().name, prompt.name, prompt.stamp};
  return Nets::FindOrMake(place, [&]() -> absl::StatusOr<Graphs> {
    ASSIGN_OR_RETURN(auto adapter,
                     catalogue_.LoadIpAdapter(prompt.name, prompt.stamp, model.row().name));
    const auto graphs = std::make_shared<IpAdapterGraphs>(place.user(), model, adapter, store_);
    const absl::Status fits = graphs->CheckWeights();
    if (fits.ok()) return graphs;
    if (!absl::IsInvalidArgument(fits)) return fits;
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          "the adapter ", adapter->name, " cannot be used: ", fits.message())),
                      adapters::kAdapterUnusable);
  });
}

}  // namespace latentd::pipeline
