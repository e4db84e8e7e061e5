#include "core/base/errors/error_facts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace latentd {
namespace {

// Lines of "name TAB value", the value C-escaped so that it holds neither a tab nor a newline.
constexpr absl::string_view kFacts = "latentd/facts";

}  // namespace

absl::Status WithFacts(absl::Status status, const std::vector<ErrorFact>& facts) {
  std::vector<ErrorFact> all = GetFacts(status);
  all.insert(all.end(), facts.begin(), facts.end());
  if (all.empty()) return status;
  const std::string lines = absl::StrJoin(all, "\n", [](std::string* out, const ErrorFact& fact) {
    absl::StrAppend(out, fact.name, "\t", absl::CEscape(fact.value));
  });
  status.SetPayload(kFacts, absl::Cord(lines));
  return status;
}

std::vector<ErrorFact> GetFacts(const absl::Status& status) {
  std::vector<ErrorFact> facts;
  const auto payload = status.GetPayload(kFacts);
  if (!payload) return facts;
  const std::string lines(*payload);
  for (absl::string_view line : absl::StrSplit(lines, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits('\t', 1));
    ErrorFact& fact = facts.emplace_back();
    fact.name = std::string(parts.first);
    absl::CUnescape(parts.second, &fact.value);
  }
  return facts;
}

absl::Status WithMissingBytes(absl::Status status, int64_t needed, int64_t available) {
  return WithFacts(std::move(status),
                   {{"needed_bytes", absl::StrCat(needed)},
                    {"available_bytes", absl::StrCat(std::max<int64_t>(available, 0))}});
}

}  // namespace latentd
