#include "core/families/family/clip_text.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/pipeline/units/run_graph.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/temporary_directory.h"

namespace latentd::families {
namespace {

using backends::NamedBuffers;
using device::Buffer;
using device::DType;
using pipeline::ExecutablePointer;
using pipeline::GraphKind;
using pipeline::LoadedModel;
using pipeline::ModelGraphs;
using pipeline::Pipeline;
using pipeline::Rig;
using ::testing::UnorderedElementsAre;

// Runs the graph on 77 ids of 0: returns its state of that layer.
NamedBuffers Encode(const ExecutablePointer& text, int64_t layer) {
  const auto outputs =
      testing::RunNamed(text,
                        {{"input_ids", Buffer::Allocate(DType::kI64, {1, 77})},
                         {"pooled_position", Buffer::Allocate(DType::kI64, {1})},
                         {"layer", Buffer::Wrap(&layer, DType::kI64, {1}, nullptr)}},
                        {"encoder_hidden_states.text_encoder", "finite"});
  EXPECT_OK(outputs);
  return outputs.value();
}

ExecutablePointer FirstEncoder(const Pipeline& pipeline) {
  ModelGraphs& graphs = pipeline.first().graphs();
  return graphs.Get(graphs.Find({.kind = GraphKind::kText}).value()).value();
}

std::vector<float> State(const ExecutablePointer& text, int64_t layer) {
  const Buffer state = Encode(text, layer).at("encoder_hidden_states.text_encoder");
  return {state.as<float>().begin(), state.as<float>().end()};
}

TEST(ClipTextTest, GivesTheStateOfEachLayer) {
  const Rig rig;
  const ExecutablePointer text = FirstEncoder(*rig.pipeline);
  const int64_t layers = rig.pipeline->first().text_encoders()[0].config.num_hidden_layers;
  std::vector<std::vector<float>> states;
  for (int64_t layer = 0; layer <= layers; ++layer) {
    states.push_back(State(text, layer));
    EXPECT_EQ(std::count(states.begin(), states.end(), states.back()), 1) << layer;
  }
  // No number of a layer makes a run fail.
  EXPECT_EQ(State(text, -1), states.front());
  EXPECT_EQ(State(text, layers + 1), states.back());
}

TEST(ClipTextTest, SaysWhetherTheStateIsFinite) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("doctored");
  testing::MakeDoctoredCheckpoint(path, "text_encoder", "text_model.encoder.layers.0.mlp.fc1.bias",
                                  std::numeric_limits<float>::infinity());
  const Rig rig({.base = path});
  const ExecutablePointer text = FirstEncoder(*rig.pipeline);
  EXPECT_EQ(Encode(text, 0).at("finite").as<uint8_t>()[0], 1);
  EXPECT_EQ(Encode(text, 1).at("finite").as<uint8_t>()[0], 0);
}

TEST(RequestGraphTest, ReadsEachEncodersStateByItself) {
  const Rig rig;
  const LoadedModel& model = rig.pipeline->first();
  const ExecutablePointer request =
      model.graphs().Get(model.graphs().Find({.kind = GraphKind::kRequest}).value()).value();
  std::vector<std::string> names;
  for (const backends::Port& port : request->inputs()) {
    names.push_back(port.name);
    for (const TextEncoder& encoder : model.text_encoders()) {
      if (port.name != HiddenStatesInput(encoder.component)) continue;
      EXPECT_EQ(port.shape[2], encoder.config.hidden_size);
    }
  }
  EXPECT_THAT(names, UnorderedElementsAre("encoder_hidden_states.text_encoder",
                                          "encoder_hidden_states.text_encoder_2",
                                          "emphasis_origin.text_encoder",
                                          "emphasis_origin.text_encoder_2", "emphasis.text_encoder",
                                          "emphasis.text_encoder_2", "text_embeds", "time_ids"));
}

}  // namespace
}  // namespace latentd::families
