// Says when a picture needs its guidance no more: the rule of guidance_stop. Each guided evaluation
// has the network's outputs with the prompt and without it, and so what guidance changes in the
// image that is predicted there. Once that is little in some evaluations one after the other, later
// ones have one row. "Adaptive Guidance" (arXiv 2312.12487) asks for the cosine of both outputs
// alone, which loses more the greater guidance_scale is, and the earlier it is reached; in latents,
// whose deviation is about 1, one number is for all models, scales and noise schedulers (Playground
// v2.5's deviate by 0.5, so that it is half as strict there).
//
// An evaluation decides about the one after the next: that may have been enqueued by the time that
// this is completed, or not, and makes no difference.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>

namespace latentd::pipeline {

class GuidanceWatch {
 public:
  // From an evaluation that decides to the first without guidance.
  static constexpr size_t kNotice = 2;

  // A guided evaluation, by its number of all stages', with the deviation of what guidance changes
  // in the latents that are predicted; in their order. True: it decides that guidance stops. What
  // is no number is not little.
  bool Note(size_t evaluation, double change);

  bool is_decided() const { return from_.has_value(); }
  // True of that evaluation and all behind it.
  bool HasStopped(size_t evaluation) const { return from_ && evaluation >= *from_; }

 private:
  int in_a_row_ = 0;  // evaluations in which it changed little
  std::optional<size_t> from_;
};

}  // namespace latentd::pipeline
