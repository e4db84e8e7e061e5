// Parts of fused tensors, in doubles, which no graph has.
#include "core/weights/containers/recognize/part_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/weights/stored_tensor.h"
#include "tests/support/status_matchers.h"

namespace latentd::weights {
namespace {

using ::testing::ElementsAre;

// 0, 1, 2, ... in F64.
StoredTensor Doubles(device::Shape shape) {
  device::Buffer buffer = device::Buffer::Allocate(device::DType::kI64, std::move(shape));
  for (int64_t i = 0; i < buffer.elements(); ++i) {
    const auto value = static_cast<double>(i);
    std::memcpy(static_cast<char*>(buffer.data()) + i * 8, &value, sizeof(value));
  }
  return {.data = buffer, .file = "f64.safetensors", .unusable_dtype = std::string(kDoubles)};
}

std::vector<double> ValuesOf(const Source& source) {
  const device::ConstBuffer& data = source.from.at(0).data;
  std::vector<double> values(static_cast<size_t>(data.elements()));
  std::memcpy(values.data(), data.data(), data.bytes());
  return values;
}

// in_proj and text_projection of an OpenCLIP encoder in doubles: of merges.
TEST(PartReaderTest, CutsPartsOutOfDoubles) {
  const StoredTensor fused = Doubles({3, 2}), projection = Doubles({2, 3});
  PartTensors tensors;
  tensors.by_name.emplace("in_proj", &fused);
  tensors.by_name.emplace("projection", &projection);
  PartReader reader("the part", std::move(tensors));
  reader.TakeRows("in_proj", "q", {3, 2}, 0, 1);
  reader.TakeRows("in_proj", "v", {3, 2}, 2, 3);
  reader.TakeTransposed("projection", "p", {3, 2});
  ASSERT_OK_AND_ASSIGN(const SourceMap sources, std::move(reader).Finish("f64.safetensors"));
  EXPECT_THAT(ValuesOf(sources.at("q")), ElementsAre(0, 1));
  EXPECT_THAT(ValuesOf(sources.at("v")), ElementsAre(4, 5));
  EXPECT_EQ(sources.at("v").shape(), (device::Shape{1, 2}));
  EXPECT_THAT(ValuesOf(sources.at("p")), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(sources.at("p").shape(), (device::Shape{3, 2}));
  EXPECT_EQ(sources.at("p").from[0].unusable_dtype, kDoubles);
}

}  // namespace
}  // namespace latentd::weights
