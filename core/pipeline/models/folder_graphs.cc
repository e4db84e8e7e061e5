#include "core/pipeline/models/folder_graphs.h"

#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/pipeline/plan/controls.h"
#include "core/pipeline/plan/image_prompts.h"
#include "core/pipeline/spec/request/limits.h"

namespace latentd::pipeline {
namespace {

// Names and shapes of tensors tell nets of one shape, as far as files go.
void AppendShapes(const weights::TensorMap& tensors, std::string& text) {
  std::map<std::string, device::Shape> shapes;
  for (const auto& [name, tensor] : tensors) shapes[name] = tensor.data.shape();
  for (const auto& [name, shape] : shapes) absl::StrAppend(&text, name, shape.ToString(), "\n");
}

// Kinds of steps that a bucket has ready.
std::vector<DeepFeatures> KindsOfSteps(const ModelGraphs& graphs, bool caches) {
  std::vector<DeepFeatures> kinds = DepthsOf(/*caches=*/false);
  if (caches && graphs.has_deep_features()) absl::c_copy(DepthsOf(true), std::back_inserter(kinds));
  return kinds;
}

std::string PromptGraphShape(const adapters::IpAdapter& adapter) {
  const networks::ClipVisionConfig& encoder = adapter.encoder;
  std::string text = absl::StrCat(
      encoder.image_size, " ", encoder.num_hidden_layers, " ", encoder.num_attention_heads, " ",
      static_cast<int>(encoder.activation), " ", encoder.layer_norm_eps, "\n");
  AppendShapes(adapter.tensors, text);
  AppendShapes(adapter.encoder_tensors, text);
  return text;
}

}  // namespace

std::vector<ImagePrompt> FolderGraphs::ImagePromptsOf(ModelId leader) const {
  if (adapters_ == nullptr || !models_.Draws(leader)) return {};
  return ImagePromptsFor(adapters_->catalogue(), models_[leader]);
}

std::vector<Control> FolderGraphs::ControlsOf(ModelId leader) const {
  if (adapters_ == nullptr || !models_.Draws(leader)) return {};
  return ControlsFor(adapters_->catalogue(), models_[leader]);
}

std::vector<Control> FolderGraphs::ControlsOfEachShape(ModelId leader) const {
  std::set<std::string> known;
  std::vector<Control> controls;
  for (Control& control : ControlsOf(leader)) {
    const auto net = adapters_->catalogue().LoadControlNet(control.name, control.stamp,
                                                           models_[leader].row().name);
    if (!net.ok()) continue;
    std::string shape;
    AppendShapes((*net)->tensors, shape);
    if (known.insert(std::move(shape)).second) controls.push_back(std::move(control));
    if (controls.size() == ControlNets::kMostNets) break;
  }
  return controls;
}

absl::StatusOr<std::vector<GraphHandle>> FolderGraphs::StepsOf(ModelId leader, Size bucket,
                                                               int rows) const {
  std::vector<GraphHandle> steps;
  std::set<ImageTokens> tokens;  // none: what control networks add
  if (!ControlsOf(leader).empty()) tokens.insert(ImageTokens());
  for (const ImagePrompt& prompt : ImagePromptsOf(leader)) tokens.insert({prompt.tokens});
  if (tokens.empty()) return steps;
  ModelGraphs& graphs = models_[leader].graphs();
  StepShape shape = models_.ShapeOf(bucket, rows);
  for (shape.chunks = 1; shape.chunks <= needed_.ready_prompts().chunks; ++shape.chunks) {
    for (int ranks : std::set<int>{0, graphs.step_paths().ranks}) {
      shape.ranks = ranks;
      for (const ImageTokens& counts : tokens) {
        shape.image_tokens = counts;
        for (const DeepFeatures deep : KindsOfSteps(graphs, needed_.rows().feature_cache)) {
          shape.deep = deep;
          ASSIGN_OR_RETURN(steps.emplace_back(),
                           graphs.Find({.shape = shape, .controlled = counts.empty()}));
        }
      }
    }
  }
  return steps;
}

void FolderGraphs::AddNetGraphs(NetGraphs& net, ModelId leader, Size bucket,
                                std::vector<GraphHandle>& all) const {
  StepShape shape = models_.ShapeOf(bucket, /*rows=*/1);
  for (shape.chunks = 1; shape.chunks <= needed_.ready_prompts().chunks; ++shape.chunks) {
    for (const PlannedGraph& graph :
         GraphsOfControl(leader, /*control=*/0, shape, {1, kMaxRowsOfPicture})) {
      absl::StatusOr<GraphHandle> handle = net.Find(graph.name, ModelGraphs::IfUnknown::kBuild);
      if (handle.ok()) all.push_back(*std::move(handle));
    }
  }
}

std::vector<ImagePrompt> FolderGraphs::ImagePromptsOfEachShape(ModelId leader) const {
  std::set<std::string> known;
  std::vector<ImagePrompt> prompts;
  for (ImagePrompt& prompt : ImagePromptsOf(leader)) {
    const auto adapter =
        adapters_->catalogue().LoadIpAdapter(prompt.name, prompt.stamp, models_[leader].row().name);
    if (!adapter.ok()) continue;
    if (known.insert(PromptGraphShape(**adapter)).second) prompts.push_back(std::move(prompt));
    if (prompts.size() == Nets::kMostNets) break;
  }
  return prompts;
}

void FolderGraphs::AddIpAdapterGraphs(ModelId leader, std::vector<GraphHandle>& all) const {
  for (const ImagePrompt& prompt : ImagePromptsOfEachShape(leader)) {
    const auto net = adapters_->ip_adapters().FindOrMake(models_[leader], prompt);
    if (!net.ok()) continue;
    for (const PlannedGraph& graph : GraphsOfIpAdapter(leader, /*net=*/0, /*images=*/1)) {
      absl::StatusOr<GraphHandle> handle = (*net)->Find(graph.name, ModelGraphs::IfUnknown::kBuild);
      if (handle.ok()) all.push_back(*std::move(handle));
    }
  }
}

std::vector<GraphHandle> FolderGraphs::NetsOf(ModelId leader,
                                              absl::Span<const Size> buckets) const {
  std::vector<GraphHandle> all;
  for (const Control& control : ControlsOfEachShape(leader)) {
    const auto net = adapters_->control_nets().FindOrMake(models_[leader], control);
    if (!net.ok()) continue;
    for (const Size& bucket : buckets) AddNetGraphs(**net, leader, bucket, all);
  }
  AddIpAdapterGraphs(leader, all);
  return all;
}

}  // namespace latentd::pipeline
