// A tokenizer folder that a test may damage: a copy of one of the demo checkpoint's.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"
#include "tests/support/source_directory.h"

namespace latentd::tokenizer {

class TokenizerFolder {
 public:
  // `name` is "tokenizer" or "tokenizer_2".
  explicit TokenizerFolder(const std::string& name = "tokenizer") {
    std::string pattern = ::testing::TempDir() + "/tokenizer.XXXXXX";
    path_ = mkdtemp(pattern.data());
    for (const auto& file : std::filesystem::directory_iterator(Demo(name))) {
      std::ofstream(path_ / file.path().filename(), std::ios::binary)
          << std::ifstream(file.path(), std::ios::binary).rdbuf();
    }
  }
  ~TokenizerFolder() { std::filesystem::remove_all(path_); }
  TokenizerFolder(const TokenizerFolder&) = delete;
  TokenizerFolder& operator=(const TokenizerFolder&) = delete;

  static std::filesystem::path Demo(const std::string& name) {
    return std::filesystem::path(::latentd::testing::SourcePath("deploy/demo-model/base")) / name;
  }

  std::string path() const { return path_.string(); }

  void Write(const std::string& name, absl::string_view content) {
    std::ofstream(path_ / name, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
  }
  void Remove(const std::string& name) { std::filesystem::remove(path_ / name); }

  // A folder of the demo as transformers saves it, with `patch` applied (RFC 7396).
  static nlohmann::json Saved(const std::string& name, const nlohmann::json& patch = {}) {
    nlohmann::json saved = nlohmann::json::parse(std::ifstream(
        ::latentd::testing::SourcePath("tests/core/tokenizer/saved/" + name + ".json")));
    if (!patch.is_null()) saved.merge_patch(patch);
    return saved;
  }

  // Puts a tokenizer.json in the place of vocab.json and merges.txt.
  void TurnInto(absl::string_view tokenizer_json) {
    Write("tokenizer.json", tokenizer_json);
    Remove("vocab.json");
    Remove("merges.txt");
  }

 private:
  std::filesystem::path path_;
};

}  // namespace latentd::tokenizer
