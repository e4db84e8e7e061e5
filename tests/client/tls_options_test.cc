#include "client/options/tls_options.h"

#include <fstream>

#include "client/commands/command_options.h"
#include "tests/support/certificates.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::client {
namespace {

using ::latentd::testing::StatusIs;
using ::latentd::testing::TestAuthority;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class TlsOptionsTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::optional<Tls>> Parse(const std::vector<std::string>& arguments) {
    Connection connection;
    const auto words = ParseCommand({TlsOptions(connection)}, arguments, connection);
    if (!words.ok()) return words.status();
    return connection.tls;
  }

  std::string File(const std::string& name, const std::string& content) const {
    std::ofstream(directory_.File(name)) << content;
    return directory_.File(name);
  }

  const testing::TemporaryDirectory directory_;
  const TestAuthority authority_{"authority"};
  const tls::KeyPair pair_ = authority_.Issue({.name = "client"});
  const std::string ca_ = File("ca.pem", authority_.pem());
  const std::string cert_ = File("cert.pem", pair_.certificate);
  const std::string key_ = File("key.pem", pair_.key);
};

TEST_F(TlsOptionsTest, NoneIsPlainText) {
  ASSERT_OK_AND_ASSIGN(const auto tls, Parse({}));
  EXPECT_FALSE(tls.has_value());
}

TEST_F(TlsOptionsTest, TheSwitchAloneBelievesTheSystem) {
  ASSERT_OK_AND_ASSIGN(const auto tls, Parse({"--tls"}));
  ASSERT_TRUE(tls.has_value());
  EXPECT_EQ(tls->authorities, "");
}

TEST_F(TlsOptionsTest, AnyOptionSwitchesItOnAndFilesAreRead) {
  ASSERT_OK_AND_ASSIGN(const auto named, Parse({"--tls-server-name=example.org"}));
  ASSERT_TRUE(named.has_value());
  EXPECT_EQ(named->server_name, "example.org");
  ASSERT_OK_AND_ASSIGN(const auto tls,
                       Parse({"--tls-ca", ca_, "--tls-cert", cert_, "--tls-key", key_}));
  ASSERT_TRUE(tls.has_value());
  EXPECT_EQ(tls->authorities, authority_.pem());
  EXPECT_EQ(tls->certificate, pair_.certificate);
  EXPECT_EQ(tls->key, pair_.key);
}

TEST_F(TlsOptionsTest, HalfAPairNamesTheOtherHalf) {
  EXPECT_THAT(Parse({"--tls-cert", cert_}), StatusIs(kInvalid, HasSubstr("needs --tls-key")));
  EXPECT_THAT(Parse({"--tls-key", key_}), StatusIs(kInvalid, HasSubstr("needs --tls-cert")));
}

TEST_F(TlsOptionsTest, AKeyOfAnotherCertificateIsRefused) {
  const std::string other = File("other.pem", authority_.Issue({.name = "other"}).key);
  EXPECT_THAT(Parse({"--tls-cert", cert_, "--tls-key", other}),
              StatusIs(kInvalid, AllOf(HasSubstr("--tls-key"), HasSubstr("--tls-cert"))));
}

TEST_F(TlsOptionsTest, AnAuthorityWithoutCertificatesIsRefused) {
  EXPECT_THAT(Parse({"--tls-ca", key_}), StatusIs(kInvalid, HasSubstr("no certificate")));
  EXPECT_FALSE(Parse({"--tls-ca", "/no/such/file"}).ok());
}

}  // namespace
}  // namespace latentd::client
