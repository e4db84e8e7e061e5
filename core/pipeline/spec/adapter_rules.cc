#include "core/pipeline/spec/adapter_rules.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/text/text.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/pipeline/spec/validation.h"

namespace latentd::pipeline {
namespace {

// Written so that NaN is out of range.
bool IsScale(const std::string& name, double scale, double most, Violations& found) {
  if (std::abs(scale) <= most) return true;
  found.Add(name, "must be ", -most, " to ", most, ", is ", scale);
  return false;
}

void IsBlockScale(const std::string& name, const BlockScale& scale, double most,
                  Violations& found) {
  if (!IsBlockName(scale.block)) {
    found.Add(name + ".block", "must be down, mid, up or such as down.block_1 and up.block_0, is ",
              Excerpt(scale.block));
  }
  if (scale.values.empty() || scale.values.size() > kMaxBlockScales) {
    found.Add(name + ".values",
              "must be one number, or one for each transformer of the block, are ",
              scale.values.size());
    return;
  }
  for (size_t i = 0; i < scale.values.size(); ++i) {
    if (!IsScale(absl::StrCat(name, ".values[", i, "]"), scale.values[i], most, found)) return;
  }
}

void AreBlockScales(const std::string& name, const std::vector<BlockScale>& scales, double most,
                    Violations& found) {
  if (scales.size() > kMaxBlockScales) {
    return found.Add(name, "must be at most ", kMaxBlockScales, ", are ", scales.size());
  }
  for (size_t i = 0; i < scales.size(); ++i) {
    const std::string own = absl::StrCat(name, "[", i, "]");
    IsBlockScale(own, scales[i], most, found);
    for (size_t other = 0; other < i; ++other) {
      if (scales[other].block != scales[i].block) continue;
      found.Add(own + ".block", "is there twice: ", Excerpt(scales[i].block));
    }
  }
}

}  // namespace

void AreAdapters(const Field& field, const AskedSpec& asked, Violations& found) {
  const std::vector<Adapter>& adapters = asked.spec.adapters;
  if (adapters.size() > kMaxAdapters) {
    found.Add(field.name, "must be at most ", kMaxAdapters, ", are ", adapters.size());
  }
  for (size_t i = 0; i < adapters.size() && i < kMaxAdapters; ++i) {
    const std::string own = absl::StrCat(field.name, "[", i, "].");
    for (size_t other = 0; other < i; ++other) {
      if (adapters[other].name != adapters[i].name) continue;
      found.Add(own + "name", "is there twice: ", Excerpt(adapters[i].name));
    }
    IsScale(own + "weight", adapters[i].weight.value_or(1), kMaxAdapterWeight, found);
    IsScale(own + "text_encoder_weight", adapters[i].text_encoder_weight.value_or(1),
            kMaxAdapterWeight, found);
  }
}

void AreControls(const Field& field, const AskedSpec& asked, Violations& found) {
  const std::vector<Control>& controls = asked.spec.controls;
  if (controls.size() > kMaxControls) {
    found.Add(field.name, "must be at most ", kMaxControls, ", are ", controls.size());
  }
  for (size_t i = 0; i < controls.size() && i < kMaxControls; ++i) {
    const std::string own = absl::StrCat(field.name, "[", i, "].");
    const double start = controls[i].start.value_or(0), end = controls[i].end.value_or(1);
    IsScale(own + "scale", controls[i].scale.value_or(1), kMaxControlScale, found);
    const int mode = controls[i].mode.value_or(0);
    if (mode < 0) found.Add(own + "control_mode", "must be 0 or more, is ", mode);
    if (start >= 0 && start < end && end <= 1) continue;
    found.Add(own + "start", "must be 0 <= start < end <= 1, is start ", start, " and end ", end);
  }
}

void NeedsControls(const Field& field, const AskedSpec& asked, Violations& found) {
  if (IsSet(field, asked.spec) && asked.spec.controls.empty()) {
    found.Add(field.name, "needs controls");
  }
}

void AreImagePrompts(const Field& field, const AskedSpec& asked, Violations& found) {
  const std::vector<ImagePrompt>& prompts = asked.spec.ip_adapters;
  if (prompts.size() > kMaxIpAdapters) {
    found.Add(field.name, "must be at most ", kMaxIpAdapters, ", are ", prompts.size());
  }
  for (size_t i = 0; i < prompts.size() && i < kMaxIpAdapters; ++i) {
    const std::string own = absl::StrCat(field.name, "[", i, "].");
    IsScale(own + "scale", prompts[i].scale.value_or(1), kMaxIpAdapterScale, found);
    AreBlockScales(own + "scales", prompts[i].scales, kMaxIpAdapterScale, found);
  }
}

}  // namespace latentd::pipeline
