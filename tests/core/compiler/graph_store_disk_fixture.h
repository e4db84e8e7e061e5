// The graph store over a disk cache in which an earlier process has left a graph.
#pragma once

#include <filesystem>
#include <iterator>
#include <string>

#include "tests/core/compiler/graph_store_fixture.h"

namespace latentd::compiler {

class GraphStoreDiskTest : public GraphStoreFixture {
 protected:
  // Leaves the files of an earlier run of the program; returns the id.
  std::string CompileAndSave(int64_t size = 4) {
    Process process(backend, clock, directory.path());
    const GraphHandle graph = process->Declare(Wanted(SiluGraph(size)));
    EXPECT_OK(process->Get(graph));
    EXPECT_TRUE(process.warnings().empty());
    backend.plans = 0;
    backend.loads = 0;
    return GraphStore::IdOf(graph);
  }
  std::string PathOf(const std::string& id) {
    return directory.File("artifacts/" + id + ".latent");
  }
  size_t InQuarantine() {
    const auto files = std::filesystem::directory_iterator(directory.File("quarantine"));
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }
  // Puts an artifact in the place of that of SiluGraph(4), with every checksum right.
  void Replace(const std::string& payload) {
    Process process(backend, clock, directory.path());
    ASSERT_OK(process.disk().Write(cache::Kind::kArtifact, KeyText(), payload));
  }
  std::string KeyText() { return KeyOf(SiluGraph(4), backend, {}).ToText(); }
};

}  // namespace latentd::compiler
