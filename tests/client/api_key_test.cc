#include "client/options/api_key.h"

#include <cstdlib>
#include <fstream>

#include "client/commands/command_options.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::client {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kWrong = absl::StatusCode::kInvalidArgument;

TEST(FirstKeyTest, IsTheOneOfTheFirstLineThatHasOne) {
  EXPECT_EQ(FirstKeyOf("the-key-alone", "keys").value_or("none"), "the-key-alone");
  EXPECT_EQ(FirstKeyOf("  the-key-alone\r\n\n", "keys").value_or("none"), "the-key-alone");
  EXPECT_THAT(FirstKeyOf("# of us\n\nweb  the-key\tof-web\n", "keys"),
              StatusIs(kWrong, AllOf(HasSubstr("keys: "), Not(HasSubstr("the-key")))));
  EXPECT_EQ(FirstKeyOf("# of us\n\nold sha256:00\nweb\tthe-key-of-web\nan other\n", "keys")
                .value_or("none"),
            "the-key-of-web");
  EXPECT_EQ(
      FirstKeyOf("admin sha256:00 operator\nadmin\tthe-key operator\n", "keys").value_or("none"),
      "the-key");
}

TEST(FirstKeyTest, AFileWithoutAKeyThatCanBeShownIsAnError) {
  EXPECT_THAT(FirstKeyOf("\n# nothing\n", "keys"), StatusIs(kWrong, "keys: no key"));
  EXPECT_THAT(FirstKeyOf("web sha256:00\n", "keys"),
              StatusIs(kWrong, HasSubstr("digests, and no key")));
  EXPECT_THAT(FirstKeyOf("admin the-key artist\n", "keys"),
              StatusIs(kWrong, AllOf(HasSubstr("a role"), Not(HasSubstr("the-key")))));
  EXPECT_THAT(FirstKeyOf("admin the-key operator more\n", "keys"),
              StatusIs(kWrong, HasSubstr("a role")));
  EXPECT_THAT(FirstKeyOf("web schl\xc3\xbcssel\n", "keys"),
              StatusIs(kWrong, Not(HasSubstr("schl"))));
}

class ApiKeyOptionTest : public ::testing::Test {
 protected:
  ApiKeyOptionTest() { unsetenv(kName); }
  ~ApiKeyOptionTest() override { unsetenv(kName); }

  absl::StatusOr<std::string> Parse(const std::vector<std::string>& arguments) {
    Connection connection;
    const std::vector<OptionGroup> groups = {{"Options", {ApiKeyOption(connection)}}};
    const auto words = ParseCommand(groups, arguments, connection);
    if (!words.ok()) return words.status();
    return connection.api_key;
  }

  static constexpr char kName[] = "LATENTD_API_KEY";
  const testing::TemporaryDirectory directory_;
};

TEST_F(ApiKeyOptionTest, TheFileGoesBeforeTheEnvironment) {
  std::ofstream(directory_.File("keys")) << "web the-key-of-the-file\n";
  EXPECT_EQ(Parse({}).value_or("none"), "");
  ASSERT_EQ(setenv(kName, "the-key-outside", 1), 0);
  EXPECT_EQ(Parse({}).value_or("none"), "the-key-outside");
  EXPECT_EQ(Parse({"--api-key-file", directory_.File("keys")}).value_or("none"),
            "the-key-of-the-file");
}

TEST_F(ApiKeyOptionTest, AKeyThatCannotBeSentIsNotTold) {
  ASSERT_EQ(setenv(kName, "two words", 1), 0);
  EXPECT_THAT(Parse({}),
              StatusIs(kWrong, AllOf(HasSubstr("$LATENTD_API_KEY"), Not(HasSubstr("words")))));
  EXPECT_THAT(Parse({"--api-key-file=/nowhere"}), StatusIs(kWrong, HasSubstr("--api-key-file")));
}

TEST(ExplainApiKeyTest, SaysWhatGivesTheKeyOnlyWhereOneIsWanted) {
  const auto refused = [](const char* text) {
    return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, text);
  };
  Connection connection;
  EXPECT_EQ(ExplainApiKey(refused("this port is for clients with a certificate"), connection), "");
  EXPECT_EQ(ExplainApiKey({grpc::StatusCode::INTERNAL, "an API key"}, connection), "");
  EXPECT_THAT(ExplainApiKey(refused("this server asks for an API key"), connection),
              HasSubstr("gives it"));
  connection.api_key = "the-key";
  EXPECT_THAT(ExplainApiKey(refused("the API key is none of this server's"), connection),
              AllOf(HasSubstr("it was that of"), Not(HasSubstr("the-key"))));
}

}  // namespace
}  // namespace latentd::client
