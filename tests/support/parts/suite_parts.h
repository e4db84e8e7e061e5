// Parts of a test program that run side by side, each of whole suites: what a suite makes for its
// tests (SetUpTestSuite) is made by one part alone. GoogleTest's own shards share out the tests of
// each suite instead.
//
// Thread-safe: free functions without state.
#pragma once

#include <string>
#include <vector>

namespace latentd::testing {

struct Suite {
  std::string name;
  int tests = 0;
};

// The suites of part `part` of `parts`, counted from 1: each suite is in one part, and the parts
// have about as much to do. REQUIRES: 1 <= part <= parts.
std::vector<std::string> SuitesOfPart(std::vector<Suite> suites, int part, int parts);

// Reads a part as cmake writes it: "2/4". False: it is none.
bool ReadPart(const std::string& text, int& part, int& parts);

// GoogleTest's filter for these suites but what `filter`, which may be empty, leaves out. `filter`
// itself where it chooses tests: one that is asked for by its name runs in any part.
std::string FilterOf(const std::vector<std::string>& suites, const std::string& filter);

}  // namespace latentd::testing
