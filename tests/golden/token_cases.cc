#include "tests/golden/token_cases.h"

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tokenizer/clip_tokenizer.h"
#include "tests/golden/case_files.h"

namespace latentd::golden {
namespace {

using nlohmann::json;

struct Count {
  size_t wrong = 0;
  size_t texts = 0;
};

absl::StatusOr<Count> CountWrong(const std::string& vocabulary, const std::string& expected) {
  ASSIGN_OR_RETURN(const auto tokenizer, tokenizer::ClipTokenizer::Load(vocabulary));
  ASSIGN_OR_RETURN(const json rows, ReadJsonFile(expected));
  Count count;
  for (const json& row : rows) {
    const tokenizer::Encoding got = tokenizer->Encode(row.value("text", ""));
    const bool same = got.ids == row.value("ids", std::vector<int64_t>()) &&
                      got.dropped == row.value("dropped", -1);
    count.wrong += !same;
    ++count.texts;
  }
  if (count.texts == 0)
    return absl::InvalidArgumentError(absl::StrCat(expected, " holds no texts"));
  return count;
}

// `list` is a file of tokens/.
void RunList(const std::string& title, const std::string& list, const std::string& vocabulary,
             const Options& options, Report& report) {
  if (!options.Selects(title)) return;
  const std::string file = absl::StrCat(options.cases, "/tokens/", list);
  const absl::StatusOr<Count> count = CountWrong(vocabulary, file);
  if (!count.ok()) return report.Failed(title, count.status());
  report.Measured(title, {{absl::StrCat("wrong of ", count->texts, " texts"),
                           static_cast<double>(count->wrong), 0}});
}

}  // namespace

void RunTokenCases(const Options& options, Report& report) {
  RunList("tokens_demo", "demo.json", options.checkpoint + "/base/tokenizer", options, report);
  if (!options.clip_vocabulary.empty()) {
    RunList("tokens_clip", "clip.json", options.clip_vocabulary, options, report);
    RunList("tokens_clip_saved", "clip.json", options.clip_vocabulary + "/saved", options, report);
    return;
  }
  for (const char* title : {"tokens_clip", "tokens_clip_saved"}) {
    if (!options.Selects(title)) continue;
    report.Skipped(title, "the real CLIP vocabulary, which needs --clip-vocabulary");
  }
}

}  // namespace latentd::golden
