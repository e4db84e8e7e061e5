// The merges of a byte-pair vocabulary in the order in which they rank, from merges.txt or
// tokenizer.json. Needed while a tokenizer loads, not afterwards.
//
// Thread-safe: free functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::tokenizer {

struct MergeList {
  struct Merge {
    std::string left;
    std::string right;
    int64_t number = 0;  // number of the line, or of the item
  };

  std::string name;    // "path" or "path: model.merges"
  bool lines = false;  // lines of a text, counted from 1; else items, counted from 0
  std::vector<Merge> merges;

  // "path line 3" or "path: model.merges[3]".
  std::string NameOf(int64_t number) const;
};

// Parses the text of a merges.txt. INVALID_ARGUMENT names the line that is not two tokens.
absl::StatusOr<MergeList> ParseMergesText(absl::string_view text, const std::string& path);

// Parses "merges" of a tokenizer.json, each "left right", as in older ones, or ["left", "right"].
// INVALID_ARGUMENT names the item that is neither.
absl::StatusOr<MergeList> ParseMerges(const nlohmann::json& list, const std::string& path);

}  // namespace latentd::tokenizer
