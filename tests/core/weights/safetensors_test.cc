#include "core/weights/containers/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/base/text/digest.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::weights {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

// `bytes` must outlive the result.
absl::StatusOr<TensorMap> Parse(const std::string& bytes) {
  return ParseSafetensorsBytes(bytes, "x.safetensors", nullptr);
}

absl::StatusOr<TensorMap> ParseHeader(const std::string& header, size_t data_bytes = 8) {
  return Parse(testing::SafetensorsBytes(header, std::string(data_bytes, '\0')));
}

auto Refuses(const std::string& reason) {
  return StatusIs(absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr("x.safetensors"), HasSubstr(reason)));
}

TEST(SafetensorsTest, FindsTensorsOfAllDTypesThatGraphsHave) {
  const std::string bytes = testing::SafetensorsBytes({{"a", "F32", {2}, std::string(8, '\0')},
                                                       {"b", "I64", {1, 1}, std::string(8, '\0')},
                                                       {"c", "F16", {}, std::string(2, '\0')},
                                                       {"d", "BF16", {1}, std::string(2, '\0')},
                                                       {"e", "U8", {0, 3}, ""},
                                                       {"f", "F8_E4M3", {3}, "xyz"},
                                                       {"g", "F8_E5M2", {1, 2}, "xy"}});
  ASSERT_OK_AND_ASSIGN(const TensorMap tensors, Parse(bytes));
  ASSERT_EQ(tensors.size(), 7u);
  EXPECT_EQ(tensors.at("a").data.dtype(), device::DType::kF32);
  EXPECT_EQ(tensors.at("a").data.shape(), device::Shape({2}));
  EXPECT_EQ(tensors.at("b").data.dtype(), device::DType::kI64);
  EXPECT_EQ(tensors.at("c").data.dtype(), device::DType::kF16);
  EXPECT_EQ(tensors.at("c").data.shape(), device::Shape());
  EXPECT_EQ(tensors.at("d").data.dtype(), device::DType::kBF16);
  EXPECT_EQ(tensors.at("e").data.shape(), device::Shape({0, 3}));
  EXPECT_EQ(tensors.at("f").data.dtype(), device::DType::kF8E4M3);
  EXPECT_THAT(tensors.at("f").data.as<uint8_t>(), ElementsAre('x', 'y', 'z'));
  EXPECT_EQ(tensors.at("g").data.dtype(), device::DType::kF8E5M2);
  EXPECT_EQ(tensors.at("g").data.shape(), device::Shape({1, 2}));
}

TEST(SafetensorsTest, GivesTheTextsThatAFileSaysOfItself) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("m.safetensors");
  testing::WriteFile(path, testing::SafetensorsBytes(
                               R"({"__metadata__":{"modelspec.prediction_type":"v","format":"pt"},)"
                               R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":"y"}})",
                               std::string(4, '\0')));
  ASSERT_OK_AND_ASSIGN(const SafetensorsFile file, ReadSafetensorsFile(path));
  EXPECT_EQ(file.metadata, (absl::flat_hash_map<std::string, std::string>{
                               {"modelspec.prediction_type", "v"}, {"format", "pt"}}));
  EXPECT_TRUE(file.tensors.contains("a"));
}

TEST(SafetensorsTest, KeepsTheMappingAliveWithoutCopying) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("m.safetensors");
  testing::WriteSafetensors(
      path, {testing::F32Tensor("a", {2}, {1, 2}), testing::F32Tensor("b", {3}, {3, 4, 5})});
  device::ConstBuffer b;
  {
    ASSERT_OK_AND_ASSIGN(const TensorMap tensors, ReadSafetensors(path));
    EXPECT_EQ(tensors.at("b").file, path);
    b = tensors.at("b").data;
  }
  EXPECT_THAT(b.as<float>(), ElementsAre(3, 4, 5));
}

TEST(SafetensorsTest, TakesRangesInAnyOrderOfNames) {
  const std::string bytes =
      testing::SafetensorsBytes(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                                R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                "xy");
  ASSERT_OK_AND_ASSIGN(const TensorMap tensors, Parse(bytes));
  EXPECT_EQ(tensors.at("a").data.as<uint8_t>()[0], 'x');
  EXPECT_EQ(tensors.at("b").data.as<uint8_t>()[0], 'y');
}

TEST(SafetensorsTest, SkipsMetadataAndPadding) {
  EXPECT_THAT(ParseHeader(R"({"__metadata__":{"format":"pt"}}    )", 0), testing::IsOk());
}

// As A1111 marks its checkpoints (v_pred, ztsnr).
TEST(SafetensorsTest, ReadsTensorsWithoutElementsAnywhere) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("m.safetensors");
  testing::WriteSafetensors(path, {{"first", "F32", {0}, ""},
                                   testing::F32Tensor("a", {2}, {1, 2}),
                                   {"between", "F16", {0}, ""},
                                   testing::F32Tensor("b", {1}, {3}),
                                   {"last", "F32", {0}, ""}});
  ASSERT_OK_AND_ASSIGN(const TensorMap tensors, ReadSafetensors(path));
  EXPECT_EQ(tensors.size(), 5u);
  for (const char* name : {"first", "between", "last"}) {
    const StoredTensor& empty = tensors.at(name);
    EXPECT_EQ(empty.data.shape(), device::Shape({0})) << name;
    EXPECT_EQ(empty.digest->Get(), DigestOf("")) << name;
    EXPECT_EQ(Aligned(empty.data).elements(), 0) << name;
    ReleasePages(empty);
  }
  EXPECT_THAT(tensors.at("b").data.as<float>(), ElementsAre(3));
}

TEST(SafetensorsTest, ReadsAFileOfNothingButATensorWithoutElements) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("m.safetensors");
  testing::WriteSafetensors(path, {{"v_pred", "F32", {0}, ""}});
  ASSERT_OK_AND_ASSIGN(const TensorMap tensors, ReadSafetensors(path));
  EXPECT_EQ(tensors.at("v_pred").data.shape(), device::Shape({0}));
}

TEST(SafetensorsTest, MarksDTypesThatGraphsDoNotHave) {
  ASSERT_OK_AND_ASSIGN(const TensorMap tensors,
                       ParseHeader(R"({"n":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}})"));
  EXPECT_EQ(tensors.at("n").unusable_dtype, "I32");
  EXPECT_FALSE(tensors.at("n").data.has_memory());
}

TEST(SafetensorsTest, EqualContentHasEqualDigests) {
  const std::string bytes = testing::SafetensorsBytes({testing::FilledTensor("a", {4}, 1),
                                                       testing::FilledTensor("b", {4}, 1),
                                                       testing::FilledTensor("c", {4}, 2)});
  ASSERT_OK_AND_ASSIGN(const TensorMap tensors, Parse(bytes));
  EXPECT_EQ(tensors.at("a").digest->Get(), tensors.at("b").digest->Get());
  EXPECT_NE(tensors.at("a").digest->Get(), tensors.at("c").digest->Get());
}

TEST(SafetensorsTest, OldFilesWithOddAddressesAreReadThroughACopy) {
  // A header of odd length, as writers once made them, so the floats lie at odd addresses.
  std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  while (header.size() % 2 == 0) header += ' ';
  const float value = 1.5;
  const std::string bytes = testing::SafetensorsBytes(
      header, std::string(reinterpret_cast<const char*>(&value), sizeof(value)));
  ASSERT_OK_AND_ASSIGN(const TensorMap tensors, Parse(bytes));
  const device::ConstBuffer aligned = Aligned(tensors.at("a").data);
  EXPECT_NE(aligned.data(), tensors.at("a").data.data());
  EXPECT_THAT(aligned.as<float>(), ElementsAre(1.5f));
}

TEST(SafetensorsTest, AlignedTensorsAreNotCopied) {
  const device::Buffer buffer = device::Buffer::Allocate(device::DType::kF32, {4});
  EXPECT_EQ(Aligned(buffer).data(), buffer.data());
}

// Mistakes, and the words that the message must have.

TEST(SafetensorsErrorTest, MissingFile) {
  EXPECT_THAT(ReadSafetensors("/nowhere/x.safetensors"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/x.safetensors")));
}

TEST(SafetensorsErrorTest, TooShortForALength) {
  EXPECT_THAT(Parse(""), Refuses("has 0 bytes"));
  EXPECT_THAT(Parse("1234567"), Refuses("has 7 bytes"));
}

TEST(SafetensorsErrorTest, HeaderBeyondTheLimit) {
  EXPECT_THAT(Parse(std::string(8, '\xff') + "{}"), Refuses("at most 100000000"));
  EXPECT_THAT(Parse(std::string("\x01\xe1\xf5\x05\0\0\0\0", 8) + "{}"),
              Refuses("its header has 100000001 bytes"));
}

TEST(SafetensorsErrorTest, HeaderBeyondTheFile) {
  EXPECT_THAT(Parse(std::string("\x03\0\0\0\0\0\0\0{}", 10)),
              Refuses("is truncated: it has 10 bytes and its header alone 3"));
}

TEST(SafetensorsErrorTest, TruncatedData) {
  const std::string bytes =
      testing::SafetensorsBytes({testing::FilledTensor("conv.weight", {4}, 1)});
  EXPECT_THAT(
      Parse(bytes.substr(0, bytes.size() - 1)),
      Refuses(absl::StrCat("tensor conv.weight lies at bytes [0, 16) of the data, but there are "
                           "only 15: the file is truncated, it has ",
                           bytes.size() - 1, " of ", bytes.size(), " bytes")));
}

TEST(SafetensorsErrorTest, TruncatedDataIsSaidWithTheSizeOfAllTensors) {
  const std::string bytes = testing::SafetensorsBytes(
      {testing::FilledTensor("a", {4}, 1), testing::FilledTensor("b", {100}, 1)});
  const size_t left = bytes.size() - 404;  // most of a, none of b
  EXPECT_THAT(Parse(bytes.substr(0, left)),
              Refuses(absl::StrCat("it has ", left, " of ", bytes.size(), " bytes")));
}

TEST(SafetensorsErrorTest, EveryTruncationIsRefused) {
  const std::string bytes = testing::SafetensorsBytes(
      {testing::FilledTensor("a", {4}, 1), testing::FilledTensor("b", {2, 2}, 1)});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(Parse(bytes.substr(0, size)), Refuses("")) << size;
  }
}

TEST(SafetensorsErrorTest, BytesAfterTheData) {
  const std::string bytes = testing::SafetensorsBytes({testing::FilledTensor("a", {1}, 1)});
  EXPECT_THAT(Parse(bytes + "x"), Refuses("has 5 bytes of data, but its tensors end at 4"));
}

TEST(SafetensorsErrorTest, NotJson) {
  EXPECT_THAT(ParseHeader(""), Refuses("not JSON"));
  EXPECT_THAT(ParseHeader("[]"), Refuses("it is no object {...}"));
  EXPECT_THAT(ParseHeader("{"), Refuses("not JSON"));
  EXPECT_THAT(ParseHeader("{}x"), Refuses("not JSON"));
  EXPECT_THAT(ParseHeader("{\"\xff\":1}"), Refuses("not JSON"));
  EXPECT_THAT(ParseHeader(std::string("{\0}", 3)), Refuses("not JSON"));
}

TEST(SafetensorsErrorTest, AnotherContainer) {
  EXPECT_THAT(Parse("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 6938078334\n"),
              Refuses("is a Git LFS pointer to a file of 6938078334 bytes"));
  EXPECT_THAT(Parse("GGUF\x03 and more"), Refuses("is a GGUF file"));
}

TEST(SafetensorsErrorTest, DeepNesting) {
  EXPECT_THAT(ParseHeader(R"({"a":)" + std::string(100'000, '[') + "}"), Refuses("tensor a"));
  std::string objects = "{";
  for (int i = 0; i < 100'000; ++i) objects += "\"a\":{";
  EXPECT_THAT(ParseHeader(objects + "}"), Refuses("tensor a is nested more than 127 deep"));
}

TEST(SafetensorsErrorTest, EntryOfAnotherForm) {
  struct Case {
    std::string entry, reason;
  };
  const Case cases[] = {
      {R"(null)", "null"},
      {R"(5)", "a number"},
      {R"("text")", "text"},
      {R"([1])", "a list"},
      {R"({})", R"(has no "dtype")"},
      {R"({"dtype":"U8","data_offsets":[0,8]})", R"(has no "shape")"},
      {R"({"dtype":"U8","shape":[8]})", R"(has no "data_offsets")"},
      {R"({"dtype":1,"shape":[8],"data_offsets":[0,8]})", "a number"},
      {R"({"dtype":"U8","shape":8,"data_offsets":[0,8]})", "a number"},
      {R"({"dtype":"U8","shape":[[8]],"data_offsets":[0,8]})", "a list"},
      {R"({"dtype":"U8","shape":["8"],"data_offsets":[0,8]})", "text"},
      {R"({"dtype":"U8","shape":[true],"data_offsets":[0,8]})", "truth value"},
      {R"({"dtype":"U8","shape":[8],"data_offsets":{"0":8}})", "an object"},
      {R"({"dtype":"U8","shape":[8],"data_offsets":[0]})", "two numbers"},
      {R"({"dtype":"U8","shape":[8],"data_offsets":[0,8,9]})", "two numbers"},
      {R"({"dtype":"U8","shape":[8],"data_offsets":[-1,7]})", "negative"},
      {R"({"dtype":"U8","shape":[8.0],"data_offsets":[0,8]})", "whole numbers"},
      {R"({"dtype":"U8","shape":[1e999],"data_offsets":[0,8]})", "not JSON"},
      {R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,8]})", "too large"},
      {R"({"dtype":"U8","dtype":"U8","shape":[8],"data_offsets":[0,8]})", "\"dtype\" twice"},
      {R"({"dtype":"U8","shape":[8],"shape":[8],"data_offsets":[0,8]})", "\"shape\" twice"},
  };
  for (const Case& bad : cases) {
    EXPECT_THAT(ParseHeader(absl::StrCat(R"({"conv.bias":)", bad.entry, "}")), Refuses(bad.reason))
        << bad.entry;
  }
}

TEST(SafetensorsErrorTest, EntryErrorsNameTheTensor) {
  EXPECT_THAT(ParseHeader(R"({"conv.bias":{"dtype":"U8","shape":[8]}})"),
              Refuses("tensor conv.bias"));
}

TEST(SafetensorsErrorTest, MetadataThatIsNotText) {
  EXPECT_THAT(ParseHeader(R"({"__metadata__":{"a":1}})", 0), Refuses("a number"));
  EXPECT_THAT(ParseHeader(R"({"__metadata__":{"a":["b"]}})", 0), Refuses("a list"));
}

TEST(SafetensorsErrorTest, OfANameThatComesTwiceTheLastCounts) {
  EXPECT_THAT(ParseHeader(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                          R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})"),
              Refuses("tensor a begins at byte 4"));
}

TEST(SafetensorsErrorTest, UnknownDType) {
  EXPECT_THAT(ParseHeader(R"({"a":{"dtype":"F23","shape":[2],"data_offsets":[0,8]}})"),
              Refuses("tensor a has the dtype F23"));
}

TEST(SafetensorsErrorTest, ShapeThatDoesNotFitItsRange) {
  EXPECT_THAT(ParseHeader(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})"),
              Refuses("tensor a lies at bytes [0, 8) of the data, but F32[3] takes 12 bytes"));
}

TEST(SafetensorsErrorTest, DTypeThatDoesNotFitItsRange) {
  EXPECT_THAT(ParseHeader(R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,8]}})"),
              Refuses("F16[2] takes 4 bytes"));
}

TEST(SafetensorsErrorTest, ShapeWhoseProductOverflows) {
  for (const char* shape : {"4294967296,4294967296", "9223372036854775807,2", "2305843009213693952",
                            "9223372036854775807,9223372036854775807,0"}) {
    EXPECT_THAT(ParseHeader(absl::StrCat(R"({"a":{"dtype":"F32","shape":[)", shape,
                                         R"(],"data_offsets":[0,0]}})"),
                            0),
                Refuses("an impossible number of bytes"))
        << shape;
  }
}

TEST(SafetensorsErrorTest, HalfABytePerElementThatDoesNotAddUp) {
  EXPECT_THAT(ParseHeader(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2),
              Refuses("an impossible number of bytes"));
}

TEST(SafetensorsErrorTest, RangeThatEndsBeforeItBegins) {
  EXPECT_THAT(ParseHeader(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[8,4]}})"),
              Refuses("ends before it begins"));
}

TEST(SafetensorsErrorTest, RangeOutsideOfTheData) {
  EXPECT_THAT(ParseHeader(R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})"),
              Refuses("there are only 8"));
  EXPECT_THAT(ParseHeader(R"({"a":{"dtype":"U8","shape":[1],)"
                          R"("data_offsets":[9223372036854775806,9223372036854775807]}})"),
              Refuses("there are only 8"));
}

TEST(SafetensorsErrorTest, OverlappingRanges) {
  EXPECT_THAT(ParseHeader(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
                          R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})"),
              Refuses("tensor b begins at byte 4 of the data, inside the tensor before it"));
  EXPECT_THAT(ParseHeader(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                          R"("b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})"),
              Refuses("inside the tensor before it"));
}

TEST(SafetensorsErrorTest, GapBetweenRanges) {
  EXPECT_THAT(ParseHeader(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                          R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})"),
              Refuses("tensor b begins at byte 4 of the data, behind a gap"));
  EXPECT_THAT(ParseHeader(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})"),
              Refuses("behind a gap"));
}

TEST(SafetensorsErrorTest, LongNamesAreCutInMessages) {
  const std::string name(100'000, 'n');
  const absl::Status status = ParseHeader(absl::StrCat("{\"", name, "\":5}")).status();
  EXPECT_THAT(status, Refuses("nnn..."));
  EXPECT_LT(status.message().size(), 1000u);
}

}  // namespace
}  // namespace latentd::weights
