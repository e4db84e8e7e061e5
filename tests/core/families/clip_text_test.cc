#include "core/families/family/clip_text.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "core/pipeline/picture/run_graph.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/temporary_directory.h"

namespace latentd::families {
namespace {

using backends::NamedBuffers;
using device::Buffer;
using device::DType;
using pipeline::ExecutablePointer;
using pipeline::GraphKind;
using pipeline::GraphName;
using pipeline::LoadedModel;
using pipeline::ModelGraphs;
using pipeline::Pipeline;
using pipeline::Rig;
using ::testing::FloatNear;
using ::testing::Pointwise;
using ::testing::UnorderedElementsAre;

constexpr int64_t kTokens = 77;

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

// The state of the masked graph on 77 ids of 0, where each token attends to itself and those before
// it: that part of it in a mean with zeros.
std::vector<float> MaskedState(const Rig& rig, bool takes_vectors, int64_t layer, float share) {
  ModelGraphs& graphs = rig.pipeline->first().graphs();
  const GraphName name = {.kind = GraphKind::kMaskedText, .takes_vectors = takes_vectors};
  const int64_t features = rig.pipeline->first().text_encoders()[0].config.hidden_size;
  std::vector<float> mask(kTokens * kTokens);
  for (int64_t i = 0; i < kTokens * kTokens; ++i) mask[i] = i % kTokens > i / kTokens ? -1e30F : 0;
  std::vector<int64_t> rows(kTokens);
  std::iota(rows.begin(), rows.end(), int64_t{0});
  NamedBuffers inputs = {
      {"input_ids", Buffer::Allocate(DType::kI64, {1, kTokens})},
      {"pooled_position", Buffer::Allocate(DType::kI64, {1})},
      {"layer", Buffer::Wrap(&layer, DType::kI64, {1}, nullptr)},
      {"mask", Buffer::Wrap(mask.data(), DType::kF32, {1, kTokens, kTokens}, nullptr)},
      {"share", Buffer::Wrap(&share, DType::kF32, {1}, nullptr)},
      {kBlendedState, Buffer::Allocate(DType::kF32, {1, kTokens, features})}};
  if (takes_vectors) {
    inputs["given_vectors"] = Buffer::Allocate(DType::kF32, {kTokens * features});
    inputs["vector_rows"] = Buffer::Wrap(rows.data(), DType::kI64, {1, kTokens}, nullptr);
  }
  const auto outputs = testing::RunNamed(graphs.Get(graphs.Find(name).value()).value(), inputs,
                                         {"encoder_hidden_states.text_encoder", "finite"});
  EXPECT_OK(outputs);
  const Buffer state = outputs->at("encoder_hidden_states.text_encoder");
  return {state.as<float>().begin(), state.as<float>().end()};
}

TEST(ClipTextTest, OfAMaskThatHidesNothingGivesTheSameState) {
  const Rig rig;
  const int64_t layers = rig.pipeline->first().text_encoders()[0].config.num_hidden_layers;
  const std::vector<float> state = State(FirstEncoder(*rig.pipeline), layers);
  std::vector<float> half = state;
  for (float& value : half) value /= 2;
  for (const bool takes_vectors : {false, true}) {
    EXPECT_THAT(MaskedState(rig, takes_vectors, layers, 1), Pointwise(FloatNear(1e-3F), state));
    EXPECT_THAT(MaskedState(rig, takes_vectors, layers, 0.5), Pointwise(FloatNear(1e-3F), half));
  }
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
