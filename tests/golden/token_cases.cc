#include "tests/golden/token_cases.h"

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/status_macros.h"
#include "core/tokenizer/clip_tokenizer.h"
#include "tests/golden/case_files.h"

namespace latentd::golden {
namespace {

using nlohmann::json;

struct Count {
  size_t wrong = 0;
  size_t texts = 0;
};

using Tokenizer = absl::StatusOr<std::unique_ptr<const tokenizer::ClipTokenizer>>;

absl::StatusOr<Count> CountWrong(const Tokenizer& tokenizer, const std::string& expected) {
  RETURN_IF_ERROR(tokenizer.status());
  ASSIGN_OR_RETURN(const json rows, ReadJsonFile(expected));
  Count count;
  for (const json& row : rows) {
    const tokenizer::Encoding got = (*tokenizer)->Encode(row.value("text", ""));
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
void RunList(const std::string& title, const std::string& list, const Tokenizer& tokenizer,
             const Options& options, Report& report) {
  if (!options.Selects(title)) return;
  const std::string file = absl::StrCat(options.cases, "/tokens/", list);
  const absl::StatusOr<Count> count = CountWrong(tokenizer, file);
  if (!count.ok()) return report.Failed(title, count.status());
  report.Measured(title, {{absl::StrCat("wrong of ", count->texts, " texts"),
                           static_cast<double>(count->wrong), 0}});
}

}  // namespace

void RunTokenCases(const Options& options, Report& report) {
  using tokenizer::ClipTokenizer;
  RunList("tokens_demo", "demo.json", ClipTokenizer::Load(options.checkpoint + "/base/tokenizer"),
          options, report);
  RunList("tokens_clip", "clip.json", ClipTokenizer::BuiltIn("<|endoftext|>"), options, report);
}

}  // namespace latentd::golden
