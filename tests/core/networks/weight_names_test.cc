// The weights that a network's graph asks for are exactly the tensors that diffusers and
// transformers write for the same config, names and shapes, but for those that change nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "core/base/files/files.h"
#include "core/weights/containers/safetensors.h"
#include "tests/golden/network_case.h"
#include "tests/golden/network_graphs.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::networks {
namespace {

using Shapes = std::map<std::string, std::vector<int64_t>>;

const std::string kCases = ::latentd::testing::SourcePath("tests/golden");

nlohmann::json ReadJson(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, size_t{1} << 24);
  EXPECT_OK(text);
  return text.ok() ? nlohmann::json::parse(*text) : nlohmann::json();
}

std::vector<nlohmann::json> Cases() { return ReadJson(kCases + "/networks.json"); }

golden::InputShapes InputsOf(const std::string& name) {
  golden::InputShapes inputs;
  auto tensors = weights::ReadSafetensors(kCases + "/networks/" + name + ".safetensors");
  EXPECT_OK(tensors);
  if (!tensors.ok()) return inputs;
  for (const auto& [key, tensor] : *tensors) {
    if (absl::StartsWith(key, "in.")) inputs[key.substr(3)] = tensor.data.shape();
  }
  return inputs;
}

class WeightNames : public ::testing::TestWithParam<nlohmann::json> {};

TEST_P(WeightNames, AreThoseOfTheCheckpoint) {
  const nlohmann::json& golden_case = GetParam();
  const std::string name = golden_case["name"], class_name = golden_case["class"];
  ASSERT_OK_AND_ASSIGN(auto graphs, golden::BuildNetworkGraphs(
                                        class_name, golden_case["config"].dump(), InputsOf(name)));
  Shapes asked;
  for (const graph::Graph& graph : graphs) {
    for (graph::ValueId id : graph.Select(graph::Op::kWeight)) {
      const graph::Node& weight = graph.node(id);
      const absl::string_view on_disk =
          absl::StripPrefix(weight.name, std::string(golden::kComponent) + "/");
      asked[std::string(on_disk)] = weight.shape.dims();
    }
  }
  auto listed = ReadJson(kCases + "/networks/" + name + ".parameters.json").get<Shapes>();
  std::erase_if(listed,
                [&](const auto& entry) { return golden::IsUnread(class_name, entry.first); });
  EXPECT_EQ(asked, listed);
}

INSTANTIATE_TEST_SUITE_P(Golden, WeightNames, ::testing::ValuesIn(Cases()), [](const auto& info) {
  return info.param["name"].template get<std::string>();
});

}  // namespace
}  // namespace latentd::networks
