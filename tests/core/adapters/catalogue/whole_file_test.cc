// Adapters' files in memory: the same tensors, in one unit that a device can take as it lies.
#include "core/adapters/catalogue/whole_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::adapters {
namespace {

using testing::FilledTensor;
using testing::TensorToWrite;
using weights::StoredTensor;

// Bytes of many values, so that one that moved differs.
TensorToWrite Bytes(const std::string& name, const std::string& dtype, int64_t elements,
                    int64_t size) {
  std::string bytes(static_cast<size_t>(elements * size), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + name.size());
  return {name, dtype, {elements}, bytes};
}

std::vector<TensorToWrite> Mixed() {
  return {FilledTensor("down", {3, 5}, 1), Bytes("an alpha", "F16", 1, 2),
          FilledTensor("up", {5, 3}, 2), Bytes("doubles", "F64", 3, 8),
          Bytes("of no dtype", "I32", 3, 4)};
}

std::string BytesOf(const StoredTensor& tensor) {
  return {static_cast<const char*>(tensor.data.data()), tensor.data.bytes()};
}

class WholeFileTest : public ::testing::Test {
 protected:
  LoraFile Read(const std::vector<TensorToWrite>& tensors) {
    testing::WriteSafetensors(path_, tensors);
    return ReadWhole(path_).value();
  }

  testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("film.safetensors");
};

TEST_F(WholeFileTest, HasWhatTheFileHas) {
  const LoraFile whole = Read(Mixed());
  ASSERT_OK_AND_ASSIGN(const LoraFile opened, OpenLora(path_));
  ASSERT_EQ(whole.tensors.size(), opened.tensors.size());
  for (const auto& [name, tensor] : opened.tensors) {
    const StoredTensor& read = whole.tensors.at(name);
    EXPECT_EQ(read.data.shape(), tensor.data.shape()) << name;
    EXPECT_EQ(read.unusable_dtype, tensor.unusable_dtype) << name;
    EXPECT_EQ(read.data.has_memory(), tensor.data.has_memory()) << name;
    EXPECT_EQ(read.origin, nullptr) << name;
    EXPECT_FALSE(read.mapped) << name;
    if (!tensor.data.has_memory()) continue;
    EXPECT_EQ(read.data.dtype(), tensor.data.dtype()) << name;
    EXPECT_EQ(BytesOf(read), BytesOf(tensor)) << name;
    EXPECT_EQ(read.digest->Get(), tensor.digest->Get()) << name;
  }
}

TEST_F(WholeFileTest, LiesInOneUnitWhereADeviceReadsIt) {
  const LoraFile whole = Read(Mixed());
  const auto& unit = whole.tensors.at("down").part_of;
  ASSERT_NE(unit, nullptr);
  const auto* const begin = static_cast<const char*>(unit->data.data());
  for (const auto& [name, tensor] : whole.tensors) {
    if (!tensor.data.has_memory()) continue;
    EXPECT_EQ(tensor.part_of, unit) << name;
    const ptrdiff_t offset = static_cast<const char*>(tensor.data.data()) - begin;
    EXPECT_EQ(offset % static_cast<ptrdiff_t>(weights::kPartAlignment), 0) << name;
    EXPECT_LE(static_cast<size_t>(offset) + tensor.data.bytes(), unit->data.bytes()) << name;
  }
  EXPECT_EQ(whole.tensors.at("of no dtype").part_of, nullptr);
}

TEST_F(WholeFileTest, UnitsOfOneContentHaveOneDigest) {
  const auto digest = [&](const std::vector<TensorToWrite>& tensors) {
    return Read(tensors).tensors.at("a").part_of->digest->Get();
  };
  const Digest first = digest({FilledTensor("a", {2, 2}, 1), FilledTensor("b", {2, 2}, 2)});
  EXPECT_EQ(digest({FilledTensor("a", {2, 2}, 1), FilledTensor("b", {2, 2}, 2)}), first);
  EXPECT_NE(digest({FilledTensor("a", {2, 2}, 1), FilledTensor("b", {2, 2}, 3)}), first);
  EXPECT_NE(digest({FilledTensor("a", {2, 2}, 1), FilledTensor("b", {65, 2}, 2)}), first);
  EXPECT_NE(digest({FilledTensor("a", {2, 2}, 1)}), first);
}

TEST_F(WholeFileTest, StaysWhenTheFileChanges) {
  const LoraFile whole = Read({FilledTensor("a", {2, 2}, 1)});
  const std::string before = BytesOf(whole.tensors.at("a"));
  testing::WriteSafetensors(path_, {FilledTensor("a", {2, 2}, 5)});
  ASSERT_EQ(truncate(path_.c_str(), 0), 0);
  EXPECT_EQ(BytesOf(whole.tensors.at("a")), before);
}

TEST_F(WholeFileTest, NamesAFileThatIsNotThere) {
  EXPECT_THAT(ReadWhole(path_),
              testing::StatusIs(absl::StatusCode::kNotFound, ::testing::HasSubstr(path_)));
}

}  // namespace
}  // namespace latentd::adapters
