#include "server/generation/caller.h"

#include <gtest/gtest.h>

namespace latentd::server::generation {
namespace {

TEST(CallerTest, AHostIsOneWhateverItsPorts) {
  EXPECT_EQ(HostOf("ipv4:192.0.2.1:50000"), "ipv4:192.0.2.1");
  EXPECT_EQ(HostOf("ipv4:192.0.2.1:50001"), HostOf("ipv4:192.0.2.1:50000"));
  EXPECT_NE(HostOf("ipv4:192.0.2.2:50000"), HostOf("ipv4:192.0.2.1:50000"));
}

TEST(CallerTest, ANetworkOfVersion6IsOneHost) {
  EXPECT_EQ(HostOf("ipv6:%5B2001:db8::1%5D:50000"), "ipv6:20010db800000000");
  EXPECT_EQ(HostOf("ipv6:[2001:db8::ffff:1]:50001"), "ipv6:20010db800000000");
  EXPECT_NE(HostOf("ipv6:%5B2001:db8:0:1::1%5D:50000"), "ipv6:20010db800000000");
}

TEST(CallerTest, OthersAreAsTheyAre) {
  EXPECT_EQ(HostOf("unix:"), "unix");
  EXPECT_EQ(HostOf("ipv6:nonsense:1"), "ipv6:nonsense");
  EXPECT_EQ(HostOf(""), "");
}

}  // namespace
}  // namespace latentd::server::generation
