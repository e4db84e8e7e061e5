#include "server/process/log.h"

#include <gtest/gtest.h>

namespace latentd::server::process {
namespace {

TEST(LogTest, TextLinesHaveKeysAndValues) {
  EXPECT_EQ(FormatText("request", {{"id", "a1"}, {"steps", 20}, {"code", "OK"}}),
            "request id=a1 steps=20 code=OK");
}

TEST(LogTest, TextLinesStayOneLine) {
  EXPECT_EQ(FormatText("a\nb", {{"peer", "x y\n\"z\""}, {"empty", ""}}),
            R"(a b peer="x y\n'z'" empty="")");
}

TEST(LogTest, TextIsForPeopleAndForgesNoField) {
  EXPECT_EQ(FormatText("request", {{"reason", R"(bucket "64x64" is at C:\x)"}}),
            R"(request reason="bucket '64x64' is at C:\x")");
  EXPECT_EQ(FormatText("request", {{"peer", R"(x" code="OK)"}}), R"(request peer="x' code='OK")");
  EXPECT_EQ(FormatText("request", {{"peer", R"(\" code=OK)"}}), R"(request peer="\' code=OK")");
}

TEST(LogTest, JsonLinesAreTheMembersOfAnObject) {
  const std::string line = FormatJson("say \"hi\"", {{"steps", 20}, {"peer", "a\nb\xFF"}});
  const auto object = nlohmann::json::parse("{" + line + "}");
  EXPECT_EQ(object["message"], "say \"hi\"");
  EXPECT_EQ(object["steps"], 20);
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace latentd::server::process
