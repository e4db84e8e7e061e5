// Stable Diffusion XL as units of work: text-to-image, image-to-image, and base and refiner as an
// ensemble of experts.
//
// No threads, no queues, no loop over steps: whoever holds a Picture calls Run until its `next` is
// kDone, in whatever order with other pictures'. Run is for one thread at a time; every other
// method may be called from any thread.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/error_details.h"
#include "core/pipeline/picture.h"
#include "core/pipeline/picture_spec.h"
#include "core/pipeline/sdxl_model.h"
#include "core/pipeline/validation.h"

namespace latentd::pipeline {

class Pipeline {
 public:
  // `refiner` may be null, `base` not. INVALID_ARGUMENT if the two do not fit each other.
  static absl::StatusOr<std::unique_ptr<const Pipeline>> Create(
      std::unique_ptr<const SdxlModel> base, std::unique_ptr<const SdxlModel> refiner);

  const SdxlModel& base() const { return *base_; }
  const SdxlModel* refiner() const { return refiner_.get(); }
  const Traits& traits() const { return traits_; }
  // The noise scheduler of the base's checkpoint, by its short name.
  const std::string& default_scheduler() const { return default_scheduler_; }

  // Every bad field of the spec at once; empty iff Resolve succeeds.
  std::vector<FieldViolation> Validate(const PictureSpec& spec) const;

  // The spec with every default filled in: what will really be used. INVALID_ARGUMENT with all
  // violations.
  absl::StatusOr<PictureSpec> Resolve(PictureSpec spec) const;

  // One picture for each seed; they share their conditioning. REQUIRES: `resolved` came from
  // Resolve.
  absl::StatusOr<std::vector<std::unique_ptr<Picture>>> Start(PictureSpec resolved) const;

  // Does the unit that picture.next names.
  absl::Status Run(Picture& picture) const;

  // Tokens of the longest prompt that no text encoder reads.
  int64_t DroppedTokens(const PictureSpec& spec) const;

 private:
  Pipeline(std::unique_ptr<const SdxlModel> base, std::unique_ptr<const SdxlModel> refiner);

  // The models whose steps the spec asks for, in order. REQUIRES: they are there.
  std::vector<const SdxlModel*> ModelsOf(const PictureSpec& spec) const;
  // Empty where base and refiner each keep another one of their own.
  absl::StatusOr<std::string> SchedulerNameOf(const PictureSpec& spec) const;
  absl::StatusOr<std::vector<Stage>> StagesOf(const PictureSpec& spec) const;

  const std::unique_ptr<const SdxlModel> base_;
  const std::unique_ptr<const SdxlModel> refiner_;
  Traits traits_;
  std::string default_scheduler_;
};

}  // namespace latentd::pipeline
