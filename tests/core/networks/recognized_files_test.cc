// The configuration that is derived from a published file's names and shapes makes a network that
// wants exactly the file's tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/strip.h"
#include "core/weights/containers/single_file.h"
#include "tests/core/weights/containers/published_file.h"
#include "tests/golden/network_graphs.h"
#include "tests/support/status_matchers.h"

namespace latentd::networks {
namespace {

using ::latentd::testing::ListInFile;
using ::latentd::testing::PublishedFile;
using nlohmann::json;
using Shapes = std::map<std::string, std::vector<int64_t>>;

golden::InputShapes UnetInputs(const json& config) {
  const int64_t added = config.value("projection_class_embeddings_input_dim", int64_t{0});
  const int64_t ids = added == 2560 ? 5 : 6;
  return {{"sample", {1, 4, 8, 8}},
          {"timestep", {1}},
          {"encoder_hidden_states", {1, 77, config["cross_attention_dim"].get<int64_t>()}},
          {"time_ids", {1, ids}},
          {"text_embeds", {1, added - 256 * ids}}};
}

golden::InputShapes InputsOf(const std::string& class_name, const json& config) {
  if (class_name == "UNet2DConditionModel") return UnetInputs(config);
  return {{"image", {1, 3, 64, 64}}, {"latents", {1, 4, 8, 8}}, {"input_ids", {1, 77}}};
}

// Weights that the networks of a component ask for.
Shapes AskedFor(const weights::FilePart& part) {
  EXPECT_OK(part.config);
  if (!part.config.ok()) return {};
  const json config = json::parse(*part.config);
  const std::string& class_name = part.component.class_name;
  const auto graphs =
      golden::BuildNetworkGraphs(class_name, *part.config, InputsOf(class_name, config));
  EXPECT_OK(graphs);
  Shapes asked;
  if (!graphs.ok()) return asked;
  for (const graph::Graph& graph : *graphs) {
    for (const graph::ValueId id : graph.Select(graph::Op::kWeight)) {
      const graph::Node& weight = graph.node(id);
      const absl::string_view name =
          absl::StripPrefix(weight.name, std::string(golden::kComponent) + "/");
      asked[std::string(name)] = weight.shape.dims();
    }
  }
  return asked;
}

void ExpectWanted(const weights::FilePart& part) {
  Shapes found;
  for (const auto& [name, source] : part.sources) found[name] = source.shape().dims();
  EXPECT_EQ(AskedFor(part), found);
}

struct ListCase {
  std::string list, component;
};

class RecognizedFiles : public ::testing::TestWithParam<ListCase> {};

TEST_P(RecognizedFiles, HaveWhatTheirNetworksWant) {
  const auto& [list, component] = GetParam();
  const PublishedFile published(std::vector<ListInFile>{{list, "", component}});
  ASSERT_OK_AND_ASSIGN(const weights::FilePart part,
                       weights::RecognizePart(list, component, published.tensors));
  ExpectWanted(part);
}

INSTANTIATE_TEST_SUITE_P(
    Published, RecognizedFiles,
    ::testing::Values(ListCase{"unet_sd15", "unet"}, ListCase{"unet_sd21", "unet"},
                      ListCase{"unet_sdxl", "unet"}, ListCase{"unet_sdxl_refiner", "unet"},
                      ListCase{"unet_ssd_1b", "unet"}, ListCase{"unet_vega", "unet"},
                      ListCase{"unet_koala_700m", "unet"}, ListCase{"unet_koala_1b", "unet"},
                      ListCase{"vae", "vae"}, ListCase{"clip_l", "text_encoder"},
                      ListCase{"open_clip_h", "text_encoder"},
                      ListCase{"open_clip_g", "text_encoder_2"}, ListCase{"taesd", "vae_tiny"}),
    [](const auto& info) { return info.param.list; });

}  // namespace
}  // namespace latentd::networks
