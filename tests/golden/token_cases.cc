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

void RunList(const std::string& name, const std::string& vocabulary, const Options& options,
             Report& report) {
  const std::string file = absl::StrCat(options.cases, "/tokens/", name, ".json");
  const absl::StatusOr<Count> count = CountWrong(vocabulary, file);
  const std::string title = absl::StrCat("tokens_", name);
  if (!count.ok()) return report.Failed(title, count.status());
  report.Measured(title, {{absl::StrCat("wrong of ", count->texts, " texts"),
                           static_cast<double>(count->wrong), 0}});
}

}  // namespace

void RunTokenCases(const Options& options, Report& report) {
  if (options.Selects("tokens_demo")) {
    RunList("demo", options.checkpoint + "/base/tokenizer", options, report);
  }
  if (!options.Selects("tokens_clip")) return;
  if (options.clip_vocabulary.empty()) {
    report.Skipped("tokens_clip", "the real CLIP vocabulary, which needs --clip-vocabulary");
  } else {
    RunList("clip", options.clip_vocabulary, options, report);
  }
}

}  // namespace latentd::golden
