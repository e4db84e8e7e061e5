#include "server/calls/trace_parent.h"

#include <gtest/gtest.h>

namespace latentd::server::calls {
namespace {

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";

// The examples of the standard.
TEST(TraceParentTest, IsTheTraceOfAHeaderThatTheStandardAllows) {
  EXPECT_EQ(TraceIdOf("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), kTrace);
  EXPECT_EQ(TraceIdOf("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"), kTrace);
  EXPECT_EQ(TraceIdOf("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future"),
            kTrace);
}

TEST(TraceParentTest, OfAnythingElseIsNone) {
  for (const char* header : {"", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
                             "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
                             "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                             "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                             "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                             "00-4bf92f3577b34da6a3ce929d0e0e47366-00f067aa0ba902b7-01",
                             "00-4bf92f3577b34da6a3ce929d0e0e473\n-00f067aa0ba902b7-01"}) {
    EXPECT_EQ(TraceIdOf(header), "") << header;
  }
}

}  // namespace
}  // namespace latentd::server::calls
