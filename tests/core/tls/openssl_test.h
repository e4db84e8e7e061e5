// What every test of core/tls checks at its end.
#pragma once

#include <gtest/gtest.h>
#include <openssl/err.h>

namespace latentd::tls {

class OpenSslTest : public ::testing::Test {
 protected:
  // What OpenSSL complained of must not stay behind in the thread.
  ~OpenSslTest() override { EXPECT_EQ(ERR_peek_error(), 0u) << "gRPC would take it for its own"; }
};

}  // namespace latentd::tls
