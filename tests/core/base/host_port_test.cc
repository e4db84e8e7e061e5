#include "core/base/text/host_port.h"

#include <gtest/gtest.h>

namespace latentd {
namespace {

TEST(HostPortTest, TheHostIsWhatStandsBeforeThePort) {
  EXPECT_EQ(HostOf("localhost:50051"), "localhost");
  EXPECT_EQ(HostOf("127.0.0.1:0"), "127.0.0.1");
  EXPECT_EQ(HostOf("[::1]:50051"), "::1");
  EXPECT_EQ(HostOf("localhost"), "localhost");
}

TEST(HostPortTest, ThisMachineIsKnownByItsName) {
  for (const char* local : {"localhost:50051", "127.0.0.1:0", "127.1.2.3:80", "127.1:80",
                            "[::1]:50051", "[0:0:0:0:0:0:0:1]:80"}) {
    EXPECT_TRUE(IsLoopback(local)) << local;
  }
  for (const char* other :
       {"collector:4317", "192.0.2.1:80", "0.0.0.0:80", "[::]:80", "[2001:db8::1]:80",
        "localhost.example.com:80", "127.0.0.1.example.com:80", "unix:/run/latentd", ""}) {
    EXPECT_FALSE(IsLoopback(other)) << other;
  }
}

}  // namespace
}  // namespace latentd
