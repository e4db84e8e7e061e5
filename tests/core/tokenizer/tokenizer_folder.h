// A tokenizer folder that a test may damage: a copy of one of the demo checkpoint's.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
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

 private:
  std::filesystem::path path_;
};

}  // namespace latentd::tokenizer
