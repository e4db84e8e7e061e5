// Steps: the state block of a stage, and one evaluation at a time.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/pipeline/finite.h"
#include "core/pipeline/units.h"

namespace latentd::pipeline {
namespace {

using backends::Port;
using device::Buffer;

int PortIndex(const backends::Executable& executable, absl::string_view name) {
  const std::vector<Port>& ports = executable.inputs();
  const auto found =
      std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.name == name; });
  return static_cast<int>(found - ports.begin());
}

// Fills one row of a [rows, ...] buffer.
void FillRow(const Buffer& buffer, int row, absl::Span<const float> values) {
  std::copy(values.begin(), values.end(), buffer.Rows(row, row + 1).as<float>().begin());
}

// Row r of the guidance matrix says what r's output becomes of all rows' outputs. Both rows of a
// picture get the same guided output, so that both carry the same latents.
void FillGuidance(StateBlock& block, const PictureSpec& spec, int rows) {
  Buffer& guidance = block.inputs[PortIndex(*block.executable, "guidance")];
  Buffer& text_rows = block.inputs[PortIndex(*block.executable, "text_rows")];
  Buffer& rescale = block.inputs[PortIndex(*block.executable, "guidance_rescale")];
  const auto g = static_cast<float>(*spec.guidance_scale);
  for (int row = 0; row < rows; ++row) {
    if (rows == 1) FillRow(guidance, row, {1.0f});
    if (rows == 2) FillRow(guidance, row, {1.0f - g, g});
    text_rows.Rows(row, row + 1).as<float>()[rows - 1] = 1;
    rescale.as<float>()[row] = rows == 2 ? static_cast<float>(*spec.guidance_rescale) : 0.0f;
  }
}

StateBlock MakeBlock(const Picture& picture) {
  const Request& request = *picture.request;
  const NamedBuffers& conditioning = request.conditioning[picture.stage_index]->request;
  StateBlock block;
  block.executable = picture.stage().step;
  for (const Port& port : block.executable->inputs()) {
    const auto shared = conditioning.find(port.name);
    block.inputs.push_back(shared != conditioning.end() ? shared->second
                                                        : Buffer::Allocate(port.dtype, port.shape));
  }
  const Port& state = block.executable->outputs().front();
  block.outputs.push_back(Buffer::Allocate(state.dtype, state.shape));
  block.at = {PortIndex(*block.executable, "state"), PortIndex(*block.executable, "input_scale"),
              PortIndex(*block.executable, "timestep"), PortIndex(*block.executable, "matrix"),
              PortIndex(*block.executable, "noise")};
  FillGuidance(block, request.spec, request.rows);
  return block;
}

// Text-to-image starts from noise; everything else has latents already.
void MakeFirstLatents(Picture& picture) {
  if (picture.latents.has_memory()) return;
  const Request& request = *picture.request;
  picture.latents = picture.generator.Normal(
      {1, picture.stage().model->latent_channels(), request.latent_height, request.latent_width});
  const auto scale = static_cast<float>(picture.stage().schedule.initial_noise_scale);
  for (float& x : picture.latents.as<float>()) x *= scale;
}

// x is the first of the four parts of each row's state.
void JoinBlock(Picture& picture, StateBlock& block) {
  const absl::Span<const float> x = picture.latents.as<float>();
  for (int row = 0; row < picture.rows(); ++row) FillRow(block.inputs[block.at.state], row, x);
}

void LeaveBlock(Picture& picture) {
  const Buffer& state = picture.block->inputs[picture.block->at.state];
  std::memcpy(picture.latents.data(), state.data(), picture.latents.bytes());
  picture.block.reset();
}

// From the end of one stage to the next, which draws from a generator of its own, seeded alike.
absl::Status EndStage(Picture& picture) {
  const std::string model = NameOf(picture.model());
  RETURN_IF_ERROR(CheckFinite(picture.latents, absl::StrCat("latents of the ", model, "'s steps"),
                              absl::StrCat("the ", model, "'s unet")));
  picture.evaluation = 0;
  if (picture.stage_index + 1 == picture.request->stages.size()) {
    picture.next = UnitKind::kDecode;
    return absl::OkStatus();
  }
  picture.handed_over = Buffer::Allocate(device::DType::kF32, picture.latents.shape());
  std::memcpy(picture.handed_over.data(), picture.latents.data(), picture.latents.bytes());
  ++picture.stage_index;
  picture.generator = noise::NoiseGenerator(picture.seed);
  picture.next = UnitKind::kText;
  return absl::OkStatus();
}

void DrawNoise(Picture& picture, StateBlock& block) {
  Buffer& noise = block.inputs[block.at.noise];
  Buffer first = noise.Rows(0, 1);
  picture.generator.Fill(first);
  for (int row = 1; row < picture.rows(); ++row) FillRow(noise, row, first.as<float>());
}

void FillCoefficients(Picture& picture, StateBlock& block,
                      const schedulers::StepCoefficients& step) {
  for (int row = 0; row < picture.rows(); ++row) {
    block.inputs[block.at.input_scale].as<float>()[row] = step.input_scale;
    block.inputs[block.at.timestep].as<float>()[row] = static_cast<float>(step.timestep);
    FillRow(block.inputs[block.at.matrix], row, step.matrix);
  }
  if (step.draws_noise) DrawNoise(picture, block);
}

}  // namespace

absl::Status BeginSteps(Picture& picture) {
  MakeFirstLatents(picture);
  if (picture.stage().schedule.steps.empty()) return EndStage(picture);
  picture.block = MakeBlock(picture);
  JoinBlock(picture, *picture.block);
  picture.next = UnitKind::kStep;
  return absl::OkStatus();
}

absl::Status RunStep(Picture& picture) {
  StateBlock& block = *picture.block;
  const auto& steps = picture.stage().schedule.steps;
  const schedulers::StepCoefficients& step = steps[picture.evaluation];
  FillCoefficients(picture, block, step);
  RETURN_IF_ERROR(block.executable->Run(block.inputs, absl::MakeSpan(block.outputs)));
  std::swap(block.inputs[block.at.state], block.outputs.front());
  picture.steps_done =
      picture.request->steps_before(picture.stage_index) + step.denoising_index + 1;
  if (++picture.evaluation < steps.size()) return absl::OkStatus();
  LeaveBlock(picture);
  return EndStage(picture);
}

}  // namespace latentd::pipeline
