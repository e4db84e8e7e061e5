// A check at the end of every test of core/tls.
#pragma once

#include <gtest/gtest.h>
#include <openssl/err.h>

namespace latentd::tls {

class OpenSslTest : public ::testing::Test {
 protected:
  // OpenSSL's errors must not stay behind in the thread.
  ~OpenSslTest() override { EXPECT_EQ(ERR_peek_error(), 0u) << "gRPC would take it for its own"; }
};

}  // namespace latentd::tls
