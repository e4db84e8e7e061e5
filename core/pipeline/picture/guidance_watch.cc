#include "core/pipeline/picture/guidance_watch.h"

namespace latentd::pipeline {
namespace {

// docs/performance.md has what this and others save and cost.
constexpr double kLittle = 0.2;
constexpr int kInARow = 2;

}  // namespace

bool GuidanceWatch::Note(size_t evaluation, double change) {
  in_a_row_ = change <= kLittle ? in_a_row_ + 1 : 0;
  if (from_ || in_a_row_ < kInARow) return false;
  from_ = evaluation + kNotice;
  return true;
}

}  // namespace latentd::pipeline
