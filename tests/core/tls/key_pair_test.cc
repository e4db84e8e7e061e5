#include "core/tls/key_pair.h"

#include "absl/strings/str_cat.h"
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
constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;

class KeyPairTest : public OpenSslTest {
 protected:
  static absl::Status Check(const KeyPair& pair, absl::Time now = absl::Now()) {
    return CheckKeyPair(pair, "cert.pem", "key.pem", now);
  }

  const TestAuthority authority_{"authority"};
  const KeyPair pair_ = authority_.Issue({.name = "server"});
};

TEST_F(KeyPairTest, APairThatFitsIsGood) { EXPECT_OK(Check(pair_)); }

TEST_F(KeyPairTest, TheFirstCertificateCounts) {
  const std::string authority = authority_.pem();
  EXPECT_OK(Check({pair_.certificate + authority, pair_.key}));
  EXPECT_THAT(Check({authority + pair_.certificate, pair_.key}),
              StatusIs(kInvalid, HasSubstr("first")));
}

TEST_F(KeyPairTest, AKeyOfAnotherCertificateIsNamed) {
  EXPECT_THAT(Check({pair_.certificate, authority_.Issue({.name = "other"}).key}),
              StatusIs(kInvalid,
                       AllOf(HasSubstr("key.pem: the key is not that of"), HasSubstr("cert.pem"))));
}

TEST_F(KeyPairTest, TextsThatAreNothingOfTheKindAreNamed) {
  for (const std::string& text : {std::string(), std::string("hello\n"), pair_.key}) {
    EXPECT_THAT(Check({text, pair_.key}),
                StatusIs(kInvalid, HasSubstr("cert.pem: no certificate in it")));
  }
  for (const std::string& text : {std::string(), std::string("hello\n"), pair_.certificate}) {
    EXPECT_THAT(Check({pair_.certificate, text}),
                StatusIs(kInvalid, HasSubstr("key.pem: no private key in it")));
  }
}

TEST_F(KeyPairTest, HalfAFileIsDamaged) {
  const std::string half = pair_.certificate.substr(0, pair_.certificate.size() / 2);
  EXPECT_THAT(Check({half, pair_.key}), StatusIs(kInvalid, HasSubstr("cert.pem")));
  EXPECT_THAT(Check({pair_.certificate + half, pair_.key}),
              StatusIs(kInvalid, HasSubstr("certificate 2 in it is damaged")));
  EXPECT_THAT(Check({pair_.certificate, pair_.key.substr(0, pair_.key.size() / 2)}),
              StatusIs(kInvalid, HasSubstr("key.pem")));
}

TEST_F(KeyPairTest, AKeyThatIsTooShortIsRefusedWithTheReason) {
  EXPECT_THAT(Check(authority_.Issue({.name = "weak", .rsa_bits = 512})),
              StatusIs(kPrecondition, AllOf(HasSubstr("cert.pem: OpenSSL takes no such"),
                                            HasSubstr("key too small"), HasSubstr("RSA-2048"))));
  EXPECT_OK(Check(authority_.Issue({.name = "strong", .rsa_bits = 2048})));
}

TEST_F(KeyPairTest, AnEncryptedKeyIsRefusedWithoutAskingForItsPassphrase) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  BIO* text = BIO_new(BIO_s_mem());
  std::string passphrase = "secret";
  PEM_write_bio_PrivateKey(text, key.get(), EVP_aes_128_cbc(),
                           reinterpret_cast<const unsigned char*>(passphrase.data()),
                           static_cast<int>(passphrase.size()), nullptr, nullptr);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(text, &bytes);
  EXPECT_THAT(Check({pair_.certificate, std::string(bytes, static_cast<size_t>(size))}),
              StatusIs(kInvalid, HasSubstr("passphrase")));
  BIO_free_all(text);
}

TEST_F(KeyPairTest, OutsideOfItsTimeItIsRefusedWithTheTime) {
  const absl::Time begin = absl::FromUnixSeconds(1'000'000'000);
  const KeyPair pair =
      authority_.Issue({.name = "server", .begin = begin, .end = begin + absl::Hours(1)});
  EXPECT_OK(Check(pair, begin + absl::Minutes(30)));
  EXPECT_THAT(Check(pair, begin - absl::Seconds(1)),
              StatusIs(kPrecondition, HasSubstr("not valid before 2001-09-09T01:46:40")));
  EXPECT_THAT(Check(pair, begin + absl::Hours(2)),
              StatusIs(kPrecondition,
                       AllOf(HasSubstr("cert.pem"), HasSubstr("expired at 2001-09-09T02:46:40"))));
}

}  // namespace
}  // namespace latentd::tls
