#include "server/http/page/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files/files.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::server::http {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;
using ::testing::Pair;
using ::testing::SizeIs;

// All that it is made of, over a slow line.
constexpr size_t kMostBytes = 40 << 10;

std::set<std::string> MatchesOf(const std::string& pattern, absl::string_view text) {
  const std::regex regex(pattern);
  const std::string whole(text);
  std::set<std::string> found;
  for (std::sregex_iterator i(whole.begin(), whole.end(), regex), end; i != end; ++i) {
    found.insert((*i)[1]);
  }
  return found;
}

std::string TextOf(absl::string_view name) {
  for (const PageFile& file : PageFiles()) {
    if (file.name == name) return std::string(file.text);
  }
  return "";
}

std::string BodyOf(Answer answer) {
  std::string body;
  while (!answer.body.empty()) body += answer.body.Take();
  return body;
}

TEST(PageTest, ItIsSmall) {
  size_t bytes = 0;
  for (const PageFile& file : PageFiles()) bytes += file.text.size();
  EXPECT_LT(bytes, kMostBytes);
}

TEST(PageTest, FilesAreThoseOfTheTree) {
  for (const PageFile& file : PageFiles()) {
    const std::string path = absl::StrCat("server/http/page/", file.name);
    ASSERT_OK_AND_ASSIGN(const std::string text,
                         ReadFile(latentd::testing::SourcePath(path), kMostBytes));
    EXPECT_EQ(file.text, text) << path;
  }
}

TEST(PageTest, WhatItNamesIsServed) {
  std::set<std::string> paths,
      named = MatchesOf("(?:src|href)=\"(page/[^\"]*)\"", TextOf("index.html"));
  EXPECT_THAT(named, SizeIs(2));
  for (const PageFile& file : PageFiles()) {
    paths.insert(PathOf(file).substr(1));
    for (const std::string& name : MatchesOf("from \"\\./([^\"]*)\"", file.text)) {
      named.insert("page/" + name);
    }
  }
  EXPECT_THAT(named, IsSubsetOf(paths));
  EXPECT_THAT(paths, Contains(""));
}

TEST(PageTest, EveryElementThatScriptsNameIsThere) {
  const std::set<std::string> ids = MatchesOf("\\bid=\"([^\"]*)\"", TextOf("index.html"));
  for (const PageFile& file : PageFiles()) {
    EXPECT_THAT(MatchesOf("\\$\\(\"([^\"]*)\"\\)", file.text), IsSubsetOf(ids)) << file.name;
  }
}

// The policy forbids what is below; a browser would tell only who looks at its console.
TEST(PageTest, NoTextBecomesElementsOrScript) {
  const std::regex forbidden(
      "innerHTML|outerHTML|insertAdjacentHTML|document\\.write|\\beval\\b|new Function|"
      "<script(?! type=\"module\" src=)|<style|\\sstyle=|\\son[a-z]+=|https?://(?!www\\.w3\\.org)");
  for (const PageFile& file : PageFiles()) {
    EXPECT_FALSE(std::regex_search(std::string(file.text), forbidden)) << file.name;
  }
}

TEST(PageTest, EveryFileComesWithItsTypeAndThePolicy) {
  for (const PageFile& file : PageFiles()) {
    const Answer answer = ShowPageFile(file, {});
    EXPECT_EQ(answer.code, 200);
    EXPECT_EQ(answer.content_type, absl::EndsWith(file.name, ".html") ? "text/html; charset=utf-8"
                                   : absl::EndsWith(file.name, ".css")
                                       ? "text/css; charset=utf-8"
                                       : "text/javascript; charset=utf-8");
    EXPECT_THAT(answer.headers,
                Contains(Pair("Content-Security-Policy", HasSubstr("default-src 'none'"))));
    EXPECT_EQ(BodyOf(answer), file.text);
  }
}

TEST(PageTest, AFileThatTheClientHasIsNotSentAgain) {
  const PageFile& file = PageFiles().front();
  Request request;
  request.headers = {{"If-None-Match", absl::StrCat("\"other\", W/\"", file.digest, "\"")}};
  const Answer same = ShowPageFile(file, request);
  EXPECT_EQ(same.code, 304);
  EXPECT_TRUE(same.body.empty());
  EXPECT_THAT(same.headers, Contains(Pair("ETag", absl::StrCat("\"", file.digest, "\""))));
  request.headers = {{"If-None-Match", "\"other\""}};
  EXPECT_EQ(ShowPageFile(file, request).code, 200);
}

}  // namespace
}  // namespace latentd::server::http
