#include "core/device/dtype.h"

#include <string>

#include "tests/support/status_matchers.h"

namespace latentd::device {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr DType kAll[] = {DType::kF32, DType::kF16,    DType::kBF16,  DType::kI64,
                          DType::kU8,  DType::kF8E4M3, DType::kF8E5M2};

TEST(DTypeTest, NamesParseBack) {
  for (DType dtype : kAll) {
    ASSERT_OK_AND_ASSIGN(const DType parsed, ParseDType(Name(dtype)));
    EXPECT_EQ(parsed, dtype) << Name(dtype);
  }
}

TEST(DTypeTest, SizesAreThoseOfTheElements) {
  const int64_t sizes[] = {4, 2, 2, 8, 1, 1, 1};
  for (size_t i = 0; i < std::size(kAll); ++i) EXPECT_EQ(SizeOf(kAll[i]), sizes[i]);
}

TEST(DTypeTest, AnUnknownNameIsQuotedInPart) {
  const std::string name = "f8_" + std::string(1000, 'x');
  const auto parsed = ParseDType(name);
  EXPECT_THAT(parsed, StatusIs(absl::StatusCode::kInvalidArgument,
                               AllOf(HasSubstr("f8_xxx"), ::testing::Not(HasSubstr(name)))));
}

TEST(DTypeTest, NamesAreCaseSensitive) {
  EXPECT_THAT(ParseDType("F32"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("F32")));
}

}  // namespace
}  // namespace latentd::device
