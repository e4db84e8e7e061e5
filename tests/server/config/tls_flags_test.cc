#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/config/command_line.h"
#include "server/config/options.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::config {
namespace {

using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<Options> OptionsOf(const std::vector<std::string>& flags) {
  latent::v1::ServerConfig config = DefaultConfig();
  const auto line = ParseCommandLine(flags);
  if (!line.ok()) return line.status();
  config.MergeFrom(line->flags);
  return ToOptions(config);
}

const std::vector<std::string> kPair = {"--tls-cert=/c", "--tls-key=/k"};

TEST(TlsFlagsTest, NoneIsPlainText) {
  ASSERT_OK_AND_ASSIGN(const Options options, OptionsOf({}));
  EXPECT_EQ(options.tls_files.certificate, "");
  EXPECT_EQ(options.health_listen, "");
}

TEST(TlsFlagsTest, FilesAreTaken) {
  std::vector<std::string> flags = kPair;
  flags.insert(flags.end(), {"--tls-client-ca=/a", "--admin-tls-client-ca=/b",
                             "--admin-listen=127.0.0.1:1", "--health-listen=127.0.0.1:2"});
  ASSERT_OK_AND_ASSIGN(const Options options, OptionsOf(flags));
  EXPECT_EQ(options.tls_files.certificate, "/c");
  EXPECT_EQ(options.tls_files.key, "/k");
  EXPECT_EQ(options.tls_files.client_authority, "/a");
  EXPECT_EQ(options.tls_files.operator_authority, "/b");
  EXPECT_EQ(options.health_listen, "127.0.0.1:2");
}

TEST(TlsFlagsTest, HalfAPairNamesTheOtherHalf) {
  EXPECT_THAT(OptionsOf({"--tls-cert=/c"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--tls-cert=/c"), HasSubstr("--tls-key"))));
  EXPECT_THAT(OptionsOf({"--tls-key=/k"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--tls-cert")));
}

TEST(TlsFlagsTest, AuthoritiesNeedACertificate) {
  EXPECT_THAT(OptionsOf({"--tls-client-ca=/a"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--tls-cert")));
  EXPECT_THAT(OptionsOf({"--admin-listen=127.0.0.1:1", "--admin-tls-client-ca=/a"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--tls-cert")));
}

TEST(TlsFlagsTest, AnAuthorityOfOperatorsNeedsTheirPort) {
  for (const char* admin_listen : {"--admin-listen=", "--admin-listen=unix:/s"}) {
    std::vector<std::string> flags = kPair;
    flags.insert(flags.end(), {"--admin-tls-client-ca=/a", admin_listen});
    EXPECT_THAT(OptionsOf(flags), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("--admin-listen=HOST:PORT")));
  }
}

TEST(TlsFlagsTest, ThePortOfOperatorsNeedsAnAuthorityOfTheirOwn) {
  for (const std::vector<std::string>& given :
       {std::vector<std::string>{}, kPair,
        std::vector<std::string>{"--tls-cert=/c", "--tls-key=/k", "--tls-client-ca=/a"}}) {
    for (const char* address : {"127.0.0.1:1", "0.0.0.0:1"}) {
      std::vector<std::string> flags = given;
      flags.push_back(absl::StrCat("--admin-listen=", address));
      EXPECT_THAT(OptionsOf(flags),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           AllOf(HasSubstr(address), HasSubstr("--admin-tls-client-ca"))));
    }
  }
  EXPECT_OK(OptionsOf({"--admin-listen=unix:/s"}));
}

TEST(TlsFlagsTest, HealthIsForTcp) {
  EXPECT_THAT(OptionsOf({"--health-listen=unix:/h"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--health-listen")));
}

}  // namespace
}  // namespace latentd::server::config
