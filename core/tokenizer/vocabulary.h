// The ids of all tokens, from vocab.json, tokenizer.json or a list. Needed while a tokenizer loads,
// not afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace latentd::tokenizer {

// Most bytes of each file of a tokenizer's folder; CLIP's own have about 1 MB.
inline constexpr size_t kMaxFileBytes = size_t{32} << 20;

// Frozen once it is made.
class Vocabulary {
 public:
  // Parses an object from tokens to ids, of the file `path`. INVALID_ARGUMENT names the token whose
  // id is not one.
  static absl::StatusOr<Vocabulary> Parse(const nlohmann::json& object, const std::string& path);

  // The place of each token is its id. `path` is for messages. REQUIRES: no token comes twice.
  static Vocabulary Of(std::vector<std::string> tokens, const std::string& path);

  std::optional<int64_t> Find(absl::string_view token) const;
  const absl::flat_hash_map<std::string, int64_t>& ids() const { return ids_; }
  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  int64_t largest_id() const { return largest_id_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  absl::flat_hash_map<std::string, int64_t> ids_;
  int64_t largest_id_ = -1;
};

}  // namespace latentd::tokenizer
