#include "core/tls/authority.h"

#include "tests/core/tls/openssl_test.h"
#include "tests/support/certificates.h"
#include "tests/support/status_matchers.h"

namespace latentd::tls {
namespace {

using ::latentd::testing::StatusIs;
using ::latentd::testing::TestAuthority;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kDenied = absl::StatusCode::kPermissionDenied;

class AuthorityTest : public OpenSslTest {
 protected:
  absl::Status Check(const std::string& certificate, absl::Time now = absl::Now()) const {
    const auto authority = Authority::Parse(authority_.pem(), "ca.pem");
    return authority.ok() ? authority->CheckClient(certificate, "", now) : authority.status();
  }

  const TestAuthority authority_{"authority"};
};

TEST_F(AuthorityTest, WhatItSignedIsGood) {
  EXPECT_OK(Check(authority_.Issue({.name = "alice"}).certificate));
}

TEST_F(AuthorityTest, WhatAnotherOneSignedIsRefused) {
  const TestAuthority other("other");
  EXPECT_THAT(Check(other.Issue({.name = "mallory"}).certificate),
              StatusIs(kDenied, AllOf(HasSubstr("CN=mallory"), HasSubstr("issuer certificate"))));
}

TEST_F(AuthorityTest, AnotherOneOfTheSameNameIsAnother) {
  const TestAuthority other("authority");
  EXPECT_THAT(Check(other.Issue({.name = "mallory"}).certificate),
              StatusIs(kDenied, HasSubstr("CN=mallory")));
}

TEST_F(AuthorityTest, WhatSignedItselfIsRefused) {
  const TestAuthority self("mallory");
  EXPECT_THAT(Check(self.pem()), StatusIs(kDenied, HasSubstr("self-signed")));
}

TEST_F(AuthorityTest, AnExpiredCertificateIsRefused) {
  const absl::Time begin = absl::FromUnixSeconds(1'000'000'000);
  const std::string certificate =
      authority_.Issue({.name = "alice", .begin = begin, .end = begin + absl::Hours(1)})
          .certificate;
  EXPECT_OK(Check(certificate, begin + absl::Minutes(1)));
  EXPECT_THAT(Check(certificate), StatusIs(kDenied, HasSubstr("expired")));
}

TEST_F(AuthorityTest, ACertificateOfAServerIsRefused) {
  EXPECT_THAT(Check(authority_.Issue({.name = "server", .usage = "serverAuth"}).certificate),
              StatusIs(kDenied, HasSubstr("purpose")));
}

TEST_F(AuthorityTest, WhatIsSignedByWayOfOthersNeedsThem) {
  const TestAuthority between("between", &authority_);
  const std::string certificate = between.Issue({.name = "alice"}).certificate;
  ASSERT_OK_AND_ASSIGN(const Authority authority, Authority::Parse(authority_.pem(), "ca.pem"));
  EXPECT_OK(authority.CheckClient(certificate, between.pem(), absl::Now()));
  EXPECT_OK(authority.CheckClient(certificate, certificate + between.pem(), absl::Now()));
  EXPECT_THAT(authority.CheckClient(certificate, "", absl::Now()),
              StatusIs(kDenied, HasSubstr("issuer")));
}

TEST_F(AuthorityTest, AnAuthorityThatAnotherOneSignedIsBelievedAsItStands) {
  const TestAuthority between("between", &authority_);
  ASSERT_OK_AND_ASSIGN(const Authority authority, Authority::Parse(between.pem(), "ca.pem"));
  EXPECT_OK(authority.CheckClient(between.Issue({.name = "alice"}).certificate, "", absl::Now()));
}

TEST_F(AuthorityTest, SeveralAuthoritiesAreBelieved) {
  const TestAuthority second("second");
  ASSERT_OK_AND_ASSIGN(const Authority both,
                       Authority::Parse(authority_.pem() + second.pem(), "ca.pem"));
  for (const TestAuthority* signer : {&authority_, &second}) {
    EXPECT_OK(both.CheckClient(signer->Issue({.name = "alice"}).certificate, "", absl::Now()));
  }
}

TEST_F(AuthorityTest, AFileWithoutCertificatesIsNamed) {
  EXPECT_THAT(Authority::Parse("hello", "ca.pem"),
              StatusIs(kInvalid, HasSubstr("ca.pem: no certificate in it")));
}

}  // namespace
}  // namespace latentd::tls
