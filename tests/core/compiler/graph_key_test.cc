#include "core/compiler/graph_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/compiler/fake_backend.h"

namespace latentd::compiler {
namespace {

using ::testing::HasSubstr;

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
  rebuilt.sources = "of another build";
  EXPECT_NE(key.ToDigest(), rebuilt.ToDigest());
}

TEST(GraphKey, SpellsEverythingOut) {
  FakeBackend backend;
  const std::string text = KeyOf(SiluGraph(4), backend, {{"epilogues", "dead_code"}}).ToText();
  EXPECT_THAT(text, HasSubstr("\noptions skip=dead_code,epilogues\n"));
  EXPECT_THAT(text, HasSubstr("\nbackend fake\n"));
  EXPECT_THAT(text, HasSubstr("\nfingerprint fake 1\n"));
  EXPECT_EQ(KeyOf(SiluGraph(4), backend, {}).sources.size(), 64u);
}

}  // namespace
}  // namespace latentd::compiler
