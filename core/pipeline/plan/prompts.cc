#include "core/pipeline/plan/prompts.h"

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/families/families.h"
#include "core/families/family/clip_text.h"
#include "core/pipeline/plan/adapters.h"
#include "core/pipeline/plan/embeds.h"

namespace latentd::pipeline {
namespace {

absl::Status CheckBlends(const std::vector<PlannedStage>& stages) {
  int64_t blends = 0;
  for (const PlannedStage& stage : stages) blends += stage.blends();
  if (blends <= kMaxBlends) return absl::OkStatus();
  return InvalidFields({{"prompt", absl::StrCat("has weights below 1 that take ", blends,
                                                " more runs of the text encoders, and at most ",
                                                kMaxBlends, " are made: weigh fewer pieces so")}});
}

}  // namespace

absl::Status PlanPrompts(PictureSpec& resolved, const Inputs& inputs,
                         adapters::Catalogue* catalogue, std::vector<PlannedStage>& stages,
                         std::vector<std::string>& warnings) {
  for (PlannedStage& stage : stages) {
    const LoadedModel& model = *stage.model;
    resolved.words = WordsFor(catalogue, model, resolved, warnings);
    RETURN_IF_ERROR(CheckEmbeds(model, inputs));
    const bool guided = UsesGuidance(resolved) && !model.configs().embeds_guidance();
    for (const bool negative : {true, false}) {
      if (negative && !guided) continue;
      ASSIGN_OR_RETURN(stage.prompts.emplace_back(),
                       model.family().row(model.configs(), resolved, negative));
    }
    RETURN_IF_ERROR(PlanChunks(inputs, stage));
    if (!stage.takes_vectors()) continue;
    for (families::RowInputs& row : stage.prompts) families::TakeVectors(model.configs(), row);
  }
  resolved.words = nullptr;
  return CheckBlends(stages);
}

}  // namespace latentd::pipeline
