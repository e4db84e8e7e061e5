#include "core/pipeline/plan/controls.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/digest.h"
#include "core/pipeline/graphs/control_graph.h"
#include "core/pipeline/graphs/control_nets.h"
#include "core/pipeline/graphs/ip_adapters.h"
#include "core/pipeline/plan/named_adapter.h"
#include "core/pipeline/plan/refusals.h"
#include "core/pipeline/spec/request/control_modes.h"

namespace latentd::pipeline {
namespace {

// Error of the type of the map; empty: it is right for the net.
std::string WhyNoMode(const AdapterFacts& facts, const std::optional<int>& mode) {
  const int count = facts.control_modes;
  if (count == 0) {
    if (!mode) return "";
    return absl::StrCat(facts.name,
                        " is a net for one type of maps: only a ControlNet-Union has modes");
  }
  const std::string modes = ControlModesText(count);
  if (!mode) {
    return absl::StrCat("set it: ", facts.name, " is a ControlNet-Union, whose modes are ", modes);
  }
  if (*mode < count) return "";
  std::string why = absl::StrCat("is ", *mode, ", and the modes of ", facts.name, " are ", modes);
  if (count == kBasicControlModes) {
    absl::StrAppend(&why, "; tile and repaint, 6 and 7, are ProMax's, which is another file");
  }
  return why;
}

absl::Status CheckControlImage(const std::string& field, const Inputs& inputs, size_t index) {
  absl::string_view image;
  if (index < inputs.control_images.size()) image = inputs.control_images[index];
  return ReadAdapterImage(field + ".image", image, "what the net reads").status();
}

absl::Status ResolveControl(adapters::Catalogue* catalogue, const LoadedModel& model,
                            const std::string& field, Control& control,
                            std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(const AdapterFacts facts,
                   FindAdapter(catalogue, model, AdapterKind::kControlNet, field, control.name));
  const std::string why_no_mode = WhyNoMode(facts, control.mode);
  if (!why_no_mode.empty()) return InvalidFields({{field + ".control_mode", why_no_mode}});
  control.stamp = facts.stamp;
  control.digest = facts.digest;
  control.scale = control.scale.value_or(1);
  control.start = control.start.value_or(0);
  control.end = control.end.value_or(1);
  for (const std::string& warning : facts.warnings) {
    warnings.push_back(absl::StrCat("control ", control.name, ": ", warning));
  }
  return absl::OkStatus();
}

// As controlnet_keep of diffusers' pipelines.
bool TakesPart(const Control& control, size_t evaluation, size_t evaluations) {
  const auto i = static_cast<double>(evaluation), n = static_cast<double>(evaluations);
  return !(i / n < *control.start || (i + 1) / n > *control.end);
}

}  // namespace

absl::Status ResolveControls(adapters::Catalogue* catalogue, const LoadedModel& model,
                             const Inputs& inputs, PictureSpec& spec,
                             std::vector<std::string>& warnings) {
  Refusals refusals;
  for (size_t i = 0; i < spec.controls.size(); ++i) {
    const std::string field = absl::StrCat("controls[", i, "]");
    for (const absl::Status& status :
         {ResolveControl(catalogue, model, field, spec.controls[i], warnings),
          CheckControlImage(field, inputs, i)}) {
      refusals.Add(status);
    }
  }
  if (spec.refine && !spec.controls.empty()) {
    warnings.emplace_back("controls have no effect on the refiner: they are for the base alone");
  }
  return refusals.Join();
}

uint64_t AdaptersIdOf(uint64_t loras, const PictureSpec& spec) {
  uint64_t id = loras;
  for (const Control& control : spec.controls) {
    id = DigestOf(absl::StrCat(id, " ", ControlNets::IdOf(control))).low | 1;
  }
  for (const ImagePrompt& prompt : spec.ip_adapters) {
    id = DigestOf(absl::StrCat(id, " ", IpAdapters::IdOf(prompt))).low | 1;
  }
  return id;
}

std::vector<PlannedControl> PlanControls(const PictureSpec& spec, size_t evaluations,
                                         const PlannedStage& stage) {
  std::vector<PlannedControl> planned;
  for (const Control& control : spec.controls) {
    PlannedControl& one = planned.emplace_back();
    one.id = ControlNets::IdOf(control);
    for (size_t i = 0; i < stage.schedule.steps.size(); ++i) {
      one.scales.push_back(TakesPart(control, i, evaluations) ? *control.scale : 0);
    }
  }
  return planned;
}

std::vector<Control> ControlsFor(const adapters::Catalogue& catalogue, const LoadedModel& model) {
  std::vector<Control> controls;
  for (const AdapterFacts& facts : catalogue.List()) {
    if (!facts.is_served()) continue;
    if (!WhyNoAdapter(model, AdapterKind::kControlNet, facts).empty()) continue;
    controls.push_back({.name = facts.name, .stamp = facts.stamp, .digest = facts.digest});
  }
  return controls;
}

std::vector<PlannedGraph> GraphsOfControl(ModelId model, uint64_t control, const StepShape& shape,
                                          const std::vector<int>& rows) {
  const auto graph = [&](GraphKind kind, const StepShape& of) {
    return PlannedGraph{model, {.kind = kind, .shape = of}, control};
  };
  std::vector<PlannedGraph> graphs = {graph(GraphKind::kHint, {1, shape.height, shape.width}),
                                      graph(GraphKind::kControlRequest, {.chunks = shape.chunks})};
  for (int count : rows) {
    graphs.push_back(graph(GraphKind::kControl, {count, shape.height, shape.width, shape.chunks}));
  }
  return graphs;
}

void AddControlGraphs(const StepShape& shape, const std::vector<int>& rows, Plan& plan) {
  const PlannedStage& stage = plan.stages.front();
  StepShape of_stage = shape;
  of_stage.chunks = stage.chunks();
  for (const PlannedControl& control : plan.controls) {
    for (const PlannedGraph& graph :
         GraphsOfControl(stage.model->row().id, control.id, of_stage, rows)) {
      if (!absl::c_linear_search(plan.graphs, graph)) plan.graphs.push_back(graph);
    }
  }
}

int64_t ControlBytes(const Plan& plan) {
  if (plan.controls.empty()) return 0;
  const LoadedModel& model = *plan.stages.front().model;
  const LatentSize& size = plan.latents;
  const device::DType dtype = model.graphs().residual_dtype();
  int64_t residuals = 0, largest = 0;
  for (const RowPort& port : ResidualPorts(model.configs().unet, size.height, size.width, dtype)) {
    residuals += port.row_bytes();
    largest = std::max(largest, port.row_bytes());
  }
  // The first residual has the hint's shape. Each net keeps a hint, and what it reads of prompts.
  const auto nets = static_cast<int64_t>(plan.controls.size());
  // The lane keeps the program of the guided rows beside that of one.
  const int rows = plan.rows + (plan.may_end_guidance() ? 1 : 0);
  // A ControlNet-Union's embedding of the type of its map; others have none.
  const auto unions = static_cast<int64_t>(absl::c_count_if(
      plan.spec.controls, [](const Control& control) { return control.mode.has_value(); }));
  const int64_t type =
      model.configs().unet.time_embedding_dim * device::SizeOf(device::DType::kF32);
  return rows * residuals + largest + unions * (rows + 1) * type +
         nets * (rows + 1) * (largest + plan.chunks() * model.graphs().request_bytes());
}

}  // namespace latentd::pipeline
