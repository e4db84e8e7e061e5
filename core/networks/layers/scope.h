// A place in a network's tree of modules: weights asked for here get the place's path in front,
// spelled as on disk with the component in front ("unet/down_blocks.0.resnets.1.conv1.weight").
//
//   Scope resnet = Scope(builder, "unet").Child("down_blocks", 0).Child("resnets", 1);
//   Value weight = resnet.Weight("conv1.weight", {64, 32, 3, 3});
//
// A cheap value; the builder must outlive it.
#pragma once

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph_builder.h"

namespace latentd::networks {

using graph::GraphBuilder;
using graph::kNone;
using graph::Shape;
using graph::Value;

class Scope {
 public:
  // The root of a component.
  Scope(GraphBuilder& builder, absl::string_view component)
      : builder_(&builder), path_(absl::StrCat(component, "/")) {}

  Scope Child(absl::string_view name) const {
    return Scope(builder_, absl::StrCat(path_, name, "."));
  }
  Scope Child(absl::string_view name, int64_t index) const {
    return Child(absl::StrCat(name, ".", index));
  }

  Value Weight(absl::string_view name, Shape shape) const {
    return builder_->Weight(absl::StrCat(path_, name), std::move(shape));
  }

  GraphBuilder& builder() const { return *builder_; }

 private:
  Scope(GraphBuilder* builder, std::string path) : builder_(builder), path_(std::move(path)) {}

  GraphBuilder* builder_;
  std::string path_;
};

}  // namespace latentd::networks
