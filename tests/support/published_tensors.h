// The tensors of published networks, by the lists in tests/core/weights/names, whose make.py
// describes them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/files/files.h"
#include "core/device/shape.h"
#include "tests/support/source_directory.h"

namespace latentd::testing {

struct PublishedTensor {
  device::Shape shape;  // as it is stored
  std::string stored;   // name in a single file
  // Names in diffusers or transformers, and for each how it is made: "" (as it is), "T"
  // (transposed), "0-768" (these rows).
  std::vector<std::pair<std::string, std::string>> wanted;
};

inline device::Shape ParsePublishedShape(const std::string& text) {
  std::vector<int64_t> dims;
  if (text == "scalar") return device::Shape(dims);
  for (const absl::string_view size : absl::StrSplit(text, 'x')) {
    EXPECT_TRUE(absl::SimpleAtoi(size, &dims.emplace_back())) << text;
  }
  return device::Shape(std::move(dims));
}

inline PublishedTensor ParsePublishedLine(const std::vector<std::string>& words) {
  PublishedTensor tensor = {ParsePublishedShape(words[0]), words[1], {}};
  if (words.size() == 3) tensor.wanted.emplace_back(words[2], "");
  for (size_t i = 2; i + 1 < words.size(); i += 2)
    tensor.wanted.emplace_back(words[i], words[i + 1]);
  return tensor;
}

// The list NAME.txt.
inline std::vector<PublishedTensor> ReadPublishedTensors(const std::string& name) {
  const std::string path = SourcePath("tests/core/weights/names/" + name + ".txt");
  const absl::StatusOr<std::string> text = ReadFile(path, size_t{1} << 22);
  EXPECT_TRUE(text.ok()) << text.status();
  std::vector<PublishedTensor> tensors;
  if (!text.ok()) return tensors;
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    std::vector<std::string> words = absl::StrSplit(line, ' ');
    int count = 1;
    if (absl::EndsWith(words[0], "*")) {
      EXPECT_TRUE(absl::SimpleAtoi(absl::StripSuffix(words[0], "*"), &count)) << line;
      words.erase(words.begin());
    }
    for (int i = 0; i < count; ++i) {
      std::vector<std::string> numbered;
      for (const std::string& word : words) {
        numbered.push_back(absl::StrReplaceAll(word, {{"#", absl::StrCat(i)}}));
      }
      tensors.push_back(ParsePublishedLine(numbered));
    }
  }
  return tensors;
}

}  // namespace latentd::testing
