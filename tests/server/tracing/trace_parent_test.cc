#include "server/tracing/trace_parent.h"

#include <gtest/gtest.h>

namespace latentd::server::tracing {
namespace {

// The examples of the standard.
TEST(TraceParentTest, IsTheTraceOfAHeaderThatTheStandardAllows) {
  for (const char* header : {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
                             "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-next"}) {
    const auto parent = ParseTraceParent(header);
    ASSERT_TRUE(parent) << header;
    EXPECT_EQ(parent->trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(parent->parent_id, "00f067aa0ba902b7");
  }
}

TEST(TraceParentTest, OneFlagSaysWhetherItIsRecorded) {
  const std::string ids = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-";
  for (const char* flags : {"01", "03", "ff"}) {
    EXPECT_TRUE(ParseTraceParent(ids + flags)->sampled) << flags;
  }
  for (const char* flags : {"00", "02", "10", "fe"}) {
    EXPECT_FALSE(ParseTraceParent(ids + flags)->sampled) << flags;
  }
}

TEST(TraceParentTest, OfAnythingElseIsNone) {
  for (const char* header : {"", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
                             "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
                             "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                             "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                             "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                             "00-4bf92f3577b34da6a3ce929d0e0e47366-00f067aa0ba902b7-01",
                             "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
                             "00-4bf92f3577b34da6a3ce929d0e0e473\n-00f067aa0ba902b7-01"}) {
    EXPECT_FALSE(ParseTraceParent(header)) << header;
  }
}

}  // namespace
}  // namespace latentd::server::tracing
