#include "core/compiler/graph_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/compiler/fake_backend.h"

namespace latentd::compiler {
namespace {

using ::testing::HasSubstr;

using device::DType;

TEST(GraphKey, IsEqualForTheSameGraphBuiltTwice) {
  FakeBackend backend;
  EXPECT_EQ(KeyOf(SiluGraph(4), backend, {}), KeyOf(SiluGraph(4), backend, {}));
}

TEST(GraphKey, DiffersWithGraphOptionsBackendAndFingerprint) {
  FakeBackend backend, newer;
  newer.fingerprint = "fake 2";
  const GraphKey key = KeyOf(SiluGraph(4), backend, {});
  EXPECT_NE(key.ToDigest(), KeyOf(SiluGraph(5), backend, {}).ToDigest());
  EXPECT_NE(key.ToDigest(), KeyOf(SiluGraph(4), backend, {{"epilogues"}}).ToDigest());
  EXPECT_NE(key.ToDigest(), KeyOf(SiluGraph(4), newer, {}).ToDigest());
  GraphKey rebuilt = key;
  rebuilt.build.sources = "of another build";
  EXPECT_NE(key.ToDigest(), rebuilt.ToDigest());
}

TEST(GraphKey, SpellsEverythingOut) {
  FakeBackend backend;
  const std::string text = KeyOf(SiluGraph(4), backend, {{"epilogues", "dead_code"}}).ToText();
  EXPECT_THAT(text, HasSubstr("\noptions skip=dead_code,epilogues\n"));
  EXPECT_THAT(text, HasSubstr("\nbackend fake\n"));
  EXPECT_THAT(text, HasSubstr("\nfingerprint fake 1\n"));
  EXPECT_THAT(text, HasSubstr("\nsources none\n"));  // the fake one is no directory of backends/
}

TEST(GraphKey, ReadsItsOwnText) {
  FakeBackend backend;
  const GraphKey key = KeyOf(SiluGraph(4), backend, {{"epilogues"}});
  EXPECT_EQ(GraphKey::FromText(key.ToText()), key);
}

TEST(GraphKey, ReadsNothingElse) {
  FakeBackend backend;
  const std::string text = KeyOf(SiluGraph(4), backend, {}).ToText();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(GraphKey::FromText(text.substr(0, size)).other_form, text.substr(0, size));
  }
  for (const std::string& other : {text + "\n", "options \n" + text, "graph 0\n" + text}) {
    const GraphKey key = GraphKey::FromText(other);
    EXPECT_EQ(key.other_form, other);
    EXPECT_EQ(key.ToText(), other);
  }
}

TEST(GraphKey, SaysWhichFieldDiffers) {
  FakeBackend backend;
  const GraphKey wanted = KeyOf(SiluGraph(4), backend, {});
  GraphKey found = wanted;
  found.build.sources = "older";
  EXPECT_EQ(Difference(found, wanted), "sources older, wanted " + wanted.build.sources);
  EXPECT_EQ(Difference(GraphKey::FromText("noise"), wanted), "a key of another form");
  found.build.sources = std::string(1000, 'x');
  EXPECT_LT(Difference(found, wanted).size(), 300u);
  found.graph.low ^= 1;
  EXPECT_THAT(Difference(found, wanted), HasSubstr("graph " + found.graph.ToString()));
}

}  // namespace
}  // namespace latentd::compiler
