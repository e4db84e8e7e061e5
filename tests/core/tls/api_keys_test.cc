#include "core/tls/api_keys.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace latentd::tls {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kOneKey[] = "0123456789abcdef", kOtherKey[] = "fedcba9876543210";
// The SHA-256 of kOneKey.
constexpr char kDigest[] = "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";

// The holder's name, with a star behind that of an operator; "none".
std::string HolderOf(const ApiKeys& keys, absl::string_view key) {
  const std::optional<ApiKeys::Holder> holder = keys.HolderOf(key);
  return holder ? absl::StrCat(holder->name, holder->is_operator ? "*" : "") : "none";
}

TEST(ApiKeysTest, AKeyIsThatOfItsName) {
  ASSERT_OK_AND_ASSIGN(
      const ApiKeys keys,
      ApiKeys::Parse(absl::StrCat("# ours\n\n  web\t", kOneKey, "\r\nbatch-1.x_y ", kOtherKey),
                     "keys"));
  EXPECT_EQ(HolderOf(keys, kOneKey), "web");
  EXPECT_EQ(HolderOf(keys, kOtherKey), "batch-1.x_y");
  for (const char* other :
       {"", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "web"}) {
    EXPECT_EQ(HolderOf(keys, other), "none") << other;
  }
}

TEST(ApiKeysTest, ADigestIsNoSecret) {
  ASSERT_OK_AND_ASSIGN(const ApiKeys keys,
                       ApiKeys::Parse(absl::StrCat("web sha256:", kDigest), "keys"));
  EXPECT_EQ(HolderOf(keys, kOneKey), "web");
  EXPECT_EQ(HolderOf(keys, kDigest), "none");
  EXPECT_EQ(HolderOf(keys, absl::StrCat("sha256:", kDigest)), "none");
}

TEST(ApiKeysTest, AByteOrderMarkIsNoPartOfAName) {
  const absl::StatusOr<ApiKeys> keys =
      ApiKeys::Parse("\xEF\xBB\xBFweb 0123456789abcdef\r\n", "keys");
  ASSERT_OK(keys);
  const auto holder = keys->HolderOf("0123456789abcdef");
  ASSERT_TRUE(holder.has_value());
  EXPECT_EQ(holder->name, "web");
}

TEST(ApiKeysTest, ANameMayHaveSeveral) {
  ASSERT_OK_AND_ASSIGN(
      const ApiKeys keys,
      ApiKeys::Parse(absl::StrCat("web ", kOneKey, "\nweb ", kOtherKey, "\n"), "keys"));
  EXPECT_EQ(HolderOf(keys, kOneKey), "web");
  EXPECT_EQ(HolderOf(keys, kOtherKey), "web");
}

TEST(ApiKeysTest, ARoleIsTheKeysAndNotTheNames) {
  ASSERT_OK_AND_ASSIGN(
      const ApiKeys keys,
      ApiKeys::Parse(absl::StrCat("web ", kOtherKey, "\nweb sha256:", kDigest, " \toperator \r\n"),
                     "keys"));
  EXPECT_EQ(HolderOf(keys, kOneKey), "web*");
  EXPECT_EQ(HolderOf(keys, kOtherKey), "web");
  EXPECT_EQ(HolderOf(keys, "operator"), "none");
}

TEST(ApiKeysTest, TheLineThatIsWrongIsNamedAndItsKeyIsNot) {
  const std::string good = absl::StrCat("web ", kOneKey, "\n");
  const std::string long_name(65, 'n'), long_key(513, 'k');
  for (const std::string& bad :
       {std::string("web"), std::string("web 0123456789secret more"),
        std::string("web 0123456789secret Operator"),
        std::string("web 0123456789secret operator more"), std::string("web short"),
        std::string("w/b 0123456789secret"), absl::StrCat(long_name, " 0123456789secret"),
        absl::StrCat("web ", long_key), std::string("web 0123456789secret\xc3\xa9"),
        std::string("web sha256:0123"), absl::StrCat("web sha256:", kDigest, "00"),
        absl::StrCat("other ", kOneKey), absl::StrCat("other sha256:", kDigest)}) {
    EXPECT_THAT(ApiKeys::Parse(good + "# and\n" + bad, "keys"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("keys: line 3: "), Not(HasSubstr("0123456789")))))
        << bad;
  }
}

TEST(ApiKeysTest, AFileWithoutAKeyIsAMistake) {
  EXPECT_THAT(ApiKeys::Parse("", "keys"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("keys: no key")));
  EXPECT_THAT(ApiKeys::Parse("# web 0123456789abcdef\n", "keys"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no key")));
}

}  // namespace
}  // namespace latentd::tls
