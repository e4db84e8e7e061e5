#include "core/base/files/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"

namespace latentd {
namespace {

using ::latentd::testing::F32Tensor;
using ::latentd::testing::SafetensorsBytes;
using ::latentd::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr auto kRefused = absl::StatusCode::kInvalidArgument;

const std::vector<NamedTensor> kTwo = {{"b", "F16", {2, 1}, "1234"}, {"a", "F32", {1}, "abcd"}};

TEST(TensorFileTest, ComesBackAsItWas) {
  const std::string file = TensorFile(kTwo);
  ASSERT_OK_AND_ASSIGN(const auto tensors, ParseTensorFile(file, "f"));
  EXPECT_THAT(tensors, SizeIs(2));
  for (const NamedTensor& wanted : kTwo) {
    const NamedTensor* tensor = FindTensor(tensors, wanted.name);
    ASSERT_NE(tensor, nullptr) << wanted.name;
    EXPECT_EQ(tensor->dtype, wanted.dtype);
    EXPECT_EQ(tensor->shape, wanted.shape);
    EXPECT_EQ(tensor->data, wanted.data);
  }
  EXPECT_EQ(FindTensor(tensors, "c"), nullptr);
}

TEST(TensorFileTest, ReadsWhatOthersWrite) {
  ASSERT_OK_AND_ASSIGN(const auto tensors,
                       ParseTensorFile(SafetensorsBytes({F32Tensor("x", {1, 2}, {1, 2})}), "f"));
  ASSERT_THAT(tensors, SizeIs(1));
  EXPECT_EQ(tensors.front().shape, (std::vector<int64_t>{1, 2}));
  EXPECT_THAT(tensors.front().data, SizeIs(8));
}

// Bytes with a header of that text.
std::string WithHeader(const std::string& header, const std::string& data = "") {
  return std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + data;
}

TEST(TensorFileTest, WhatIsNoneIsRefusedByItsName) {
  const std::string whole = TensorFile(kTwo);
  for (const std::string& wrong :
       {std::string(), std::string("short"), whole.substr(0, whole.size() - 1), whole.substr(0, 20),
        std::string(16, '\xff'), WithHeader("[]"), WithHeader("{\"a\":1}"),
        WithHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "abcd"),
        WithHeader(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "abcd"),
        WithHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "abcd"),
        WithHeader(R"({"a":{"dtype":4,"shape":[1],"data_offsets":[0,4]}})", "abcd")}) {
    EXPECT_THAT(ParseTensorFile(wrong, "star.safetensors"),
                StatusIs(kRefused, HasSubstr("star.safetensors")))
        << wrong;
  }
}

TEST(TensorFileTest, PassesMetadataOver) {
  EXPECT_THAT(ParseTensorFile(WithHeader(R"({"__metadata__":{"a":"b"}})"), "f").value(), SizeIs(0));
}

}  // namespace
}  // namespace latentd
