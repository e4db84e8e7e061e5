#include "core/families/families.h"

#include <iterator>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/families/sd1/sd1.h"
#include "core/families/sdxl/sdxl.h"
#include "core/families/svd/svd.h"
#include "core/weights/containers/other_checkpoint.h"

namespace latentd::families {
namespace {

using weights::Checkpoint;
using weights::Component;

// The first family that fits a checkpoint is its own.
constexpr const Family* kFamilies[] = {&sdxl::kBase, &sdxl::kRefiner, &sd1::kFamily, &svd::kFamily};

// A pipeline of diffusers that has the components of text-to-image, and draws with them as that
// does but for what it adds. Its name follows a family's prefix.
struct PipelineKind {
  absl::string_view name;
  bool starts_from_image;
  absl::string_view adds;  // empty: nothing
};
constexpr absl::string_view kGuidance = "perturbed-attention guidance";
constexpr absl::string_view kControl = "its ControlNet";
constexpr absl::string_view kBoth = "its ControlNet and perturbed-attention guidance";
constexpr PipelineKind kPipelines[] = {
    {"Pipeline", false, ""},
    {"Img2ImgPipeline", true, ""},
    {"InpaintPipeline", true, ""},
    {"PAGPipeline", false, kGuidance},
    {"PAGImg2ImgPipeline", true, kGuidance},
    {"PAGInpaintPipeline", true, kGuidance},
    {"ControlNetPipeline", false, kControl},
    {"ControlNetImg2ImgPipeline", true, kControl},
    {"ControlNetInpaintPipeline", true, kControl},
    {"ControlNetUnionPipeline", false, kControl},
    {"ControlNetUnionImg2ImgPipeline", true, kControl},
    {"ControlNetUnionInpaintPipeline", true, kControl},
    {"ControlNetXSPipeline", false, kControl},
    {"ControlNetPAGPipeline", false, kBoth},
    {"ControlNetPAGImg2ImgPipeline", true, kBoth},
    {"AdapterPipeline", false, "its T2I-Adapter"},
};

// Null: the class is none of the family's.
const PipelineKind* FindKind(const Family& family, absl::string_view class_name) {
  if (!absl::ConsumePrefix(&class_name, family.class_prefix)) return nullptr;
  const auto found = absl::c_find_if(
      kPipelines, [&](const PipelineKind& kind) { return kind.name == class_name; });
  return found == std::end(kPipelines) ? nullptr : &*found;
}

template <typename... Parts>
absl::Status Refuse(const Checkpoint& checkpoint, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(checkpoint.index(), ": ", parts...));
}

absl::Status CheckComponent(const Checkpoint& checkpoint, const Family& family,
                            const FamilyComponent& supported) {
  const auto found = checkpoint.components().find(supported.name);
  const std::string classes = absl::StrJoin(supported.classes, ", ");
  if (found == checkpoint.components().end()) {
    if (!supported.is_required) return absl::OkStatus();
    return Refuse(checkpoint, "no ", supported.name, "; ", family.title, " has a ", classes, " of ",
                  supported.library);
  }
  const Component& component = found->second;
  if (supported.classes.empty() ||
      (component.library == supported.library &&
       absl::c_linear_search(supported.classes, component.class_name))) {
    return absl::OkStatus();
  }
  return Refuse(checkpoint, supported.name, " is ", Excerpt(component.class_name), " of ",
                Excerpt(component.library), "; supported: ", classes, " of ", supported.library);
}

// Accepts any of diffusers': requests may name another.
absl::Status CheckScheduler(const Checkpoint& checkpoint) {
  const auto found = checkpoint.components().find("scheduler");
  if (found == checkpoint.components().end()) return absl::OkStatus();
  const Component& scheduler = found->second;
  if (scheduler.library == "diffusers" && absl::EndsWith(scheduler.class_name, "Scheduler")) {
    return absl::OkStatus();
  }
  return Refuse(checkpoint, "scheduler is ", Excerpt(scheduler.class_name), " of ",
                Excerpt(scheduler.library),
                "; supported: a scheduler of diffusers, such as EulerDiscreteScheduler");
}

// True if a model in that role can be drawn with by a family's pipeline of that kind.
bool Plays(const pipeline::ModelRow& model, const Family& family, const PipelineKind& kind) {
  const bool draws_videos = family.videos != nullptr;
  if (model.draws_videos != draws_videos) return false;
  if (draws_videos) return !kind.starts_from_image && kind.adds.empty();
  return model.is_refiner ? family.starts_from_image && kind.starts_from_image
                          : !family.starts_from_image;
}

// The family whose pipelines that class is one of, for a model in that role. Null: none.
const Family* FindPlayer(const pipeline::ModelRow& model, absl::string_view class_name) {
  const auto* const found = absl::c_find_if(kFamilies, [&](const Family* family) {
    const PipelineKind* kind = FindKind(*family, class_name);
    return kind != nullptr && Plays(model, *family, *kind);
  });
  return found == std::end(kFamilies) ? nullptr : *found;
}

// A model in that role, and the classes that it can have, without those that add something.
std::string SupportedFor(const pipeline::ModelRow& model) {
  std::vector<std::string> names;
  for (const Family* family : kFamilies) {
    for (const PipelineKind& kind : kPipelines) {
      if (!kind.adds.empty() || !Plays(model, *family, kind)) continue;
      names.push_back(absl::StrCat(family->class_prefix, kind.name));
    }
  }
  const std::string classes = absl::StrJoin(names, ", ");
  if (model.draws_videos) return absl::StrCat("videos: ", classes);
  if (!model.is_refiner) {
    return absl::StrCat("a base: ", classes, ", and those of PAG, ControlNet and T2I-Adapter");
  }
  return absl::StrCat("a refiner: ", classes,
                      ", and those of PAG and ControlNet that start from an image");
}

// A sentence's end about another role, in which such a checkpoint could draw.
absl::string_view OtherRoleOf(absl::string_view class_name) {
  if (FindPlayer({.draws_videos = true}, class_name) != nullptr) {
    return "; it draws videos: give it as --video";
  }
  return FindPlayer({}, class_name) != nullptr ? " (this is a base)" : "";
}

absl::Status RefuseClass(const pipeline::ModelRow& model, const Checkpoint& checkpoint) {
  const std::string& name = checkpoint.pipeline_class();
  const std::string other = weights::DescribePipelineClass(name);
  return Refuse(checkpoint, "_class_name is ", name.empty() ? "missing" : Excerpt(name),
                other.empty() ? "" : ": ", other, "; supported for ", SupportedFor(model),
                OtherRoleOf(name));
}

int MultipleOf8(int side) { return side / 8 * 8; }

}  // namespace

absl::StatusOr<const Family*> FindFamily(const pipeline::ModelRow& model,
                                         const Checkpoint& checkpoint) {
  const Family* family = FindPlayer(model, checkpoint.pipeline_class());
  if (family == nullptr) return RefuseClass(model, checkpoint);
  for (const FamilyComponent& supported : family->components) {
    RETURN_IF_ERROR(CheckComponent(checkpoint, *family, supported));
  }
  RETURN_IF_ERROR(CheckScheduler(checkpoint));
  return family;
}

std::vector<std::string> FindLeftOut(const Family& family, const Checkpoint& checkpoint) {
  constexpr size_t kMostNamed = 12;
  const std::string& file = checkpoint.index();
  std::vector<std::string> found;
  const PipelineKind* kind = FindKind(family, checkpoint.pipeline_class());
  if (kind != nullptr && !kind->adds.empty()) {
    found.push_back(absl::StrCat(file, ": _class_name is ", checkpoint.pipeline_class(),
                                 "; pictures are drawn as by ", family.class_prefix,
                                 "Pipeline, without ", kind->adds));
  }
  std::vector<std::string> passed_over = checkpoint.passed_over();
  std::erase_if(passed_over, [&](const std::string& entry) {
    return absl::c_any_of(family.components,
                          [&](const FamilyComponent& read) { return read.name == entry; });
  });
  if (!passed_over.empty()) {
    found.push_back(
        absl::StrCat(file, ": not known, and ignored: ", ListSome(passed_over, kMostNamed)));
  }
  return found;
}

std::vector<pipeline::Size> DefaultBuckets(const Family& family, const pipeline::Size& own) {
  std::vector<pipeline::Size> sizes(family.sizes.begin(), family.sizes.end());
  for (pipeline::Size& size : sizes) size.frames = own.frames;
  if (own == sizes.front()) return sizes;
  return {own,
          {MultipleOf8(own.width * 5 / 4), MultipleOf8(own.height * 3 / 4), own.frames},
          {MultipleOf8(own.width * 3 / 4), MultipleOf8(own.height * 5 / 4), own.frames}};
}

}  // namespace latentd::families
