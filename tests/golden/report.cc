#include "tests/golden/report.h"

#include <cstdio>

#include "absl/strings/str_format.h"

namespace latentd::golden {
namespace {

// Cases take up to a minute: each line is to be seen when it is known.
template <typename... Arguments>
void PrintLine(const absl::FormatSpec<Arguments...>& format, const Arguments&... arguments) {
  absl::PrintF(format, arguments...);
  std::fflush(stdout);
}

// A likeness is near 1: it differs in the digits behind the nines.
std::string Text(const Measure& measure) {
  if (measure.bound == Bound::kAtLeast) {
    const std::string beside =
        measure.of_diffusers ? absl::StrFormat("; diffusers %.5f", *measure.of_diffusers) : "";
    return absl::StrFormat("%s %.5f (at least %g%s)  ", measure.what, measure.value, measure.limit,
                           beside);
  }
  return absl::StrFormat("%s %.3g (at most %g)  ", measure.what, measure.value, measure.limit);
}

}  // namespace

void Report::Measured(const std::string& name, const std::vector<Measure>& measures) {
  std::string line;
  bool passed = !measures.empty();
  for (const Measure& measure : measures) {
    line += Text(measure);
    passed = passed && measure.Right();
  }
  ++(passed ? passed_ : failed_);
  PrintLine("%-28s %s%s\n", name, line, passed ? "PASS" : "FAIL");
}

void Report::Failed(const std::string& name, const absl::Status& status) {
  ++failed_;
  PrintLine("%-28s %s FAIL\n", name, status.ToString());
}

void Report::Skipped(const std::string& name, absl::string_view reason) {
  ++skipped_;
  PrintLine("%-28s %s SKIPPED\n", name, reason);
}

bool Report::Finish() {
  if (passed_ + failed_ == 0) PrintLine("no case was run\n");
  PrintLine("%d passed, %d failed, %d skipped\n", passed_, failed_, skipped_);
  return passed_ > 0 && failed_ == 0;
}

}  // namespace latentd::golden
