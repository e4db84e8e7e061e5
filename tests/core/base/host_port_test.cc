#include "core/base/host_port.h"

#include <gtest/gtest.h>

namespace latentd {
namespace {

TEST(HostPortTest, TheHostIsWhatStandsBeforeThePort) {
  EXPECT_EQ(HostOf("localhost:50051"), "localhost");
  EXPECT_EQ(HostOf("127.0.0.1:0"), "127.0.0.1");
  EXPECT_EQ(HostOf("[::1]:50051"), "::1");
  EXPECT_EQ(HostOf("localhost"), "localhost");
}

}  // namespace
}  // namespace latentd
