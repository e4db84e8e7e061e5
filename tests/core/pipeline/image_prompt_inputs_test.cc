// Image prompts with scales by block, and with embeddings in the place of images.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/adapters/catalogue/adapter_folder.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/base/errors/error_details.h"
#include "core/image/encode.h"
#include "core/noise/noise_generator.h"
#include "core/pipeline/picture/run_graph.h"
#include "core/weights/containers/safetensors.h"
#include "tests/core/pipeline/ip_adapter_folder.h"
#include "tests/core/pipeline/rig.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temporary_directory.h"

namespace latentd::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr float kGrey = 128;
// IpAdapterFolder's encoder has them.
constexpr int64_t kFeatures = 24, kPatches = 5, kTokenWidth = 32;

std::string GreyImage() {
  constexpr int kSide = 40;
  image::Image image{kSide, kSide, {}};
  image.rgb.assign(size_t{3} * kSide * kSide, static_cast<uint8_t>(kGrey));
  return image::Encode(image, {}).value();
}

HostTensor TensorOf(std::vector<int64_t> shape, const std::vector<float>& values) {
  HostTensor tensor{.shape = std::move(shape)};
  tensor.data.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return tensor;
}

std::vector<float> Drawn(int64_t count, uint64_t seed) {
  const device::Buffer drawn = noise::NoiseGenerator(seed).Normal(device::Shape{count});
  const auto values = drawn.as<float>();
  return {values.begin(), values.end()};
}

std::vector<float> Joined(std::vector<float> a, const std::vector<float>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A checkpoint like the demo's, whose UNet is told the guidance and makes nothing of it.
void MakeToldCheckpoint(const std::string& path) {
  testing::MakeEditedCheckpoint(path, testing::kDemoBase, "unet/config.json", "time_cond_proj_dim",
                                "16");
  const std::string file = path + "/unet/diffusion_pytorch_model.safetensors";
  const weights::TensorMap own = weights::ReadSafetensors(file).value();
  std::vector<testing::TensorToWrite> tensors;
  for (const auto& [name, tensor] : own) {
    const device::ConstBuffer& data = tensor.data;
    tensors.push_back({name, data.dtype() == device::DType::kF32 ? "F32" : "F16",
                       data.shape().dims(),
                       std::string(static_cast<const char*>(data.data()), data.bytes())});
  }
  const int64_t features = IpAdapterFolder::Unet().blocks.front().channels;
  tensors.push_back(testing::FilledTensor("time_embedding.cond_proj.weight", {features, 16}, 0));
  std::filesystem::remove(file);
  testing::WriteSafetensors(file, tensors);
}

struct WithPrompt : Asked {
  WithPrompt() : Asked(SmallSpec()) {}

  WithPrompt Of(const std::string& name, std::optional<double> scale = {},
                std::vector<BlockScale> scales = {}) const {
    WithPrompt more = *this;
    more.ip_adapters.push_back({.name = name, .scale = scale, .scales = std::move(scales)});
    more.inputs.ip_adapter_images.push_back({GreyImage()});
    more.inputs.ip_adapter_embeds.emplace_back();
    return more;
  }
  // In place of the last adapter's image.
  WithPrompt Given(HostTensor embeds) const {
    WithPrompt more = *this;
    more.inputs.ip_adapter_images.back().clear();
    more.inputs.ip_adapter_embeds.back() = std::move(embeds);
    return more;
  }
  WithPrompt Unguided() const {
    WithPrompt more = *this;
    more.guidance_scale = 1;
    return more;
  }
};

class ImagePromptInputsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new IpAdapterFolder();
    folder_->AddEncoder();
    folder_->Add("faces", IpAdapterFolder::Base(), /*seed=*/1);
    folder_->Add("plus", IpAdapterFolder::Plus(), /*seed=*/4);
    catalogue_ = new adapters::Catalogue(adapters::FolderOnDisk(folder_->path()));
    rig_ = new Rig({.base = testing::kDemoBase, .adapters = catalogue_}, "",
                   backends::cpu::CpuBackend::Create().value());
  }
  static void TearDownTestSuite() {
    delete rig_;
    delete catalogue_;
    delete folder_;
  }

  static std::string Refusal(const Asked& asked) {
    const auto plan = rig_->Resolve(asked);
    const std::vector<FieldViolation> fields = GetFieldViolations(plan.status());
    return fields.empty() ? std::string(plan.status().message())
                          : fields.front().field + ": " + fields.front().description;
  }
  static std::vector<std::string> Warnings(const Asked& asked) {
    const auto plan = rig_->Resolve(asked);
    EXPECT_OK(plan);
    return plan.ok() ? (*plan)->warnings : std::vector<std::string>();
  }
  static bool HasEncoder(const Asked& asked) {
    const auto plan = rig_->Resolve(asked);
    EXPECT_OK(plan);
    return plan.ok() && absl::c_any_of((*plan)->graphs, [](const PlannedGraph& graph) {
             return graph.name.kind == GraphKind::kImageEncoder;
           });
  }
  // Returns what the adapter's encoder gives of an image whose normed pixels of each colour are
  // these.
  static std::vector<float> Encoded(const std::string& adapter, const std::vector<float>& colours) {
    const auto picture = rig_->Start(WithPrompt().Of(adapter));
    const ExecutablePointer& encoder = picture->request->image_prompts.front().encoder;
    const device::Buffer pixels =
        device::Buffer::Allocate(device::DType::kF32, encoder->inputs().front().shape);
    const auto values = pixels.as<float>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = colours[i / (values.size() / 3)];
    const auto stream = device::Host().NewStream(SystemClock()).value();
    PendingWork work;
    const auto outputs = EnqueueGraph(encoder, {{"pixels", pixels}}, {"image"}, *stream, work);
    EXPECT_OK(outputs);
    EXPECT_OK(stream->Synchronize());
    return ValuesOf(outputs->at("image"));
  }
  static std::vector<float> EncodedGrey(const std::string& adapter) {
    const auto normed = [](float mean, float deviation) {
      return (kGrey / 255 - mean) / deviation;
    };
    return Encoded(adapter, {normed(0.48145466F, 0.26862954F), normed(0.4578275F, 0.26130258F),
                             normed(0.40821073F, 0.27577711F)});
  }

  static inline IpAdapterFolder* folder_ = nullptr;
  static inline adapters::Catalogue* catalogue_ = nullptr;
  static inline Rig* rig_ = nullptr;
};

TEST_F(ImagePromptInputsTest, AtOneScaleEverywhereDrawWhatTheScaleDraws) {
  const std::vector<BlockScale> all = {{"down", {0.7}}, {"mid", {0.7}}, {"up", {0.7}}};
  const std::vector<float> wanted = rig_->Latents(WithPrompt().Of("faces", 0.7));
  EXPECT_EQ(rig_->Latents(WithPrompt().Of("faces", {}, all)), wanted);
  // Both factors count.
  EXPECT_EQ(rig_->Latents(
                WithPrompt().Of("faces", 0.5, {{"down", {1.5}}, {"mid", {1.5}}, {"up", {1.5}}})),
            rig_->Latents(WithPrompt().Of("faces", 0.75)));
}

TEST_F(ImagePromptInputsTest, AtScalesOfABlockDifferFromThoseOfAnother) {
  std::vector<std::vector<float>> drawn = {rig_->Latents(WithPrompt()),
                                           rig_->Latents(WithPrompt().Of("faces"))};
  for (const BlockScale& scale : std::vector<BlockScale>{
           {"up.block_0", {0, 1}}, {"up.block_0", {1, 0}}, {"down.block_2", {1}}, {"mid", {1}}}) {
    drawn.push_back(rig_->Latents(WithPrompt().Of("faces", {}, {scale})));
  }
  for (size_t i = 0; i < drawn.size(); ++i) {
    for (size_t other = 0; other < i; ++other)
      EXPECT_NE(drawn[i], drawn[other]) << i << " " << other;
  }
}

// Scales are data of a row: pictures with any share their steps.
TEST_F(ImagePromptInputsTest, OfAnyScalesHaveOneLaneAndItsGraphs) {
  const auto styled = WithPrompt().Of("faces", {}, {{"up.block_0", {0, 1}}});
  rig_->Latents(WithPrompt().Of("faces"));
  const int64_t before = rig_->compilations();
  EXPECT_EQ(rig_->Start(styled)->lane(), rig_->Start(WithPrompt().Of("faces"))->lane());
  EXPECT_EQ(rig_->compilations(), before);
}

TEST_F(ImagePromptInputsTest, AtScalesOfZeroAreThePictureWithout) {
  const auto silent = WithPrompt().Of("faces", {}, {{"up.block_0", {0, 0}}, {"mid", {0}}});
  EXPECT_EQ(rig_->Latents(silent), rig_->Latents(WithPrompt()));
  EXPECT_THAT(Warnings(silent),
              Contains("ip_adapters[0] has no effect: its scales are 0 for all attentions"));
  EXPECT_THAT(Warnings(WithPrompt().Of("faces", 0)), Not(Contains(HasSubstr("has no effect"))));
}

TEST_F(ImagePromptInputsTest, AtScalesOfNoBlockAreRefused) {
  const auto refusal = [](const BlockScale& scale) {
    return Refusal(WithPrompt().Of("plus").Of("faces", {}, {scale}));
  };
  EXPECT_THAT(refusal({"up_blocks.0", {1}}),
              HasSubstr("ip_adapters[1].scales[0].block: must be down, mid, up or such as"));
  EXPECT_THAT(refusal({"mid", {11}}),
              HasSubstr("ip_adapters[1].scales[0].values[0]: must be -10 to 10, is 11"));
  EXPECT_THAT(refusal({"mid", {NAN}}), HasSubstr("ip_adapters[1].scales[0].values[0]: must be"));
  const auto many = rig_->Resolve(WithPrompt().Of("faces", {}, {{"mid", {1, NAN, 11, 12}}}));
  const std::vector<FieldViolation> first = GetFieldViolations(many.status());
  ASSERT_EQ(first.size(), 1u);  // the first alone, of as many as there are
  EXPECT_EQ(first.front().field, "ip_adapters[0].scales[0].values[1]");
  EXPECT_THAT(refusal({"mid", {}}), HasSubstr("ip_adapters[1].scales[0].values: must be one"));
  EXPECT_THAT(
      refusal({"up.block_7", {1}}),
      HasSubstr("ip_adapters[1].scales[0].block: the model's UNet has no block up.block_7"));
  EXPECT_THAT(Refusal(WithPrompt().Of("faces", {}, {{"mid", {1}}, {"mid", {2}}})),
              HasSubstr("ip_adapters[0].scales[1].block: is there twice: mid"));
  EXPECT_THAT(Refusal(WithPrompt().Of("faces", {}, std::vector<BlockScale>(65, {"mid", {1}}))),
              HasSubstr("ip_adapters[0].scales: must be at most 64, are 65"));
}

// With guidance the negative row reads zeros beside the prompt's embeddings alone, with patches
// a black image.
TEST_F(ImagePromptInputsTest, OfEmbeddingsDrawWhatTheirImageDraws) {
  const std::vector<float> of_base = EncodedGrey("faces"), of_plus = EncodedGrey("plus");
  ASSERT_EQ(of_base.size(), static_cast<size_t>(kFeatures));
  ASSERT_EQ(of_plus.size(), static_cast<size_t>(kPatches * kTokenWidth));
  const std::vector<float> with_image = rig_->Latents(WithPrompt().Of("faces"));
  EXPECT_EQ(rig_->Latents(WithPrompt().Of("faces").Given(TensorOf({1, 1, kFeatures}, of_base))),
            with_image);
  const std::vector<float> zeros(of_base.size());
  EXPECT_EQ(rig_->Latents(WithPrompt().Of("faces").Given(
                TensorOf({2, 1, kFeatures}, Joined(zeros, of_base)))),
            with_image);
  const std::vector<float> plus = rig_->Latents(WithPrompt().Of("plus"));
  EXPECT_EQ(rig_->Latents(
                WithPrompt().Of("plus").Given(TensorOf({1, 1, kPatches, kTokenWidth}, of_plus))),
            plus);
  const std::vector<float> black = Encoded("plus", {0, 0, 0});
  EXPECT_EQ(rig_->Latents(WithPrompt().Of("plus").Given(
                TensorOf({2, 1, kPatches, kTokenWidth}, Joined(black, of_plus)))),
            plus);
}

TEST_F(ImagePromptInputsTest, OfEmbeddingsReadBothHalvesWithGuidanceAndOneWithout) {
  const std::vector<float> positive = Drawn(kFeatures, 7), negative = Drawn(kFeatures, 8);
  const auto both =
      WithPrompt().Of("faces").Given(TensorOf({2, 1, kFeatures}, Joined(negative, positive)));
  const auto alone = WithPrompt().Of("faces").Given(TensorOf({1, 1, kFeatures}, positive));
  EXPECT_NE(rig_->Latents(both), rig_->Latents(alone));
  EXPECT_EQ(rig_->Latents(both.Unguided()), rig_->Latents(alone.Unguided()));
  EXPECT_THAT(Warnings(both.Unguided()),
              Contains(HasSubstr("ip_adapters[0].image_embeds: its first half, of the negative")));
  EXPECT_THAT(Warnings(both), Not(Contains(HasSubstr("image_embeds"))));
}

// The network reads guidance itself, in one row, which is the prompt's.
TEST_F(ImagePromptInputsTest, OfEmbeddingsReadNoFirstHalfWhereTheNetworkIsToldGuidance) {
  const testing::TemporaryDirectory directory;
  MakeToldCheckpoint(directory.File("told"));
  adapters::Catalogue catalogue(adapters::FolderOnDisk(folder_->path()));
  const Rig rig({.base = directory.File("told"), .adapters = &catalogue});
  auto asked = WithPrompt().Of("plus").Given(
      TensorOf({1, 1, kPatches, kTokenWidth}, Drawn(kPatches * kTokenWidth, 7)));
  asked.guidance_scale = 8;
  ASSERT_OK_AND_ASSIGN(const auto alone, rig.Resolve(asked));
  EXPECT_EQ(alone->rows, 1);
  EXPECT_FALSE(alone->image_prompts.front().encodes);
  EXPECT_THAT(alone->warnings, Not(Contains(HasSubstr("image_embeds"))));
  ASSERT_OK_AND_ASSIGN(const auto both,
                       rig.Resolve(asked.Given(TensorOf({2, 1, kPatches, kTokenWidth},
                                                        Drawn(2 * kPatches * kTokenWidth, 7)))));
  EXPECT_THAT(both->warnings,
              Contains(HasSubstr("ip_adapters[0].image_embeds: its first half, of the negative")));
}

// Two images' embeddings are one image's, twice; dimensions of 1 in front may be left out.
TEST_F(ImagePromptInputsTest, OfEmbeddingsHaveTheShapesOfTheirImages) {
  const std::vector<float> one = Drawn(kFeatures, 7), other = Drawn(kFeatures, 8);
  const auto given = [&](std::vector<int64_t> shape, const std::vector<float>& values) {
    return WithPrompt().Of("faces").Given(TensorOf(std::move(shape), values));
  };
  const auto plan = rig_->Resolve(given({1, 2, kFeatures}, Joined(one, other)));
  ASSERT_OK(plan);
  EXPECT_EQ((*plan)->image_tokens(), ImageTokens{8});
  const std::vector<float> drawn = rig_->Latents(given({1, 1, kFeatures}, one));
  EXPECT_EQ(rig_->Latents(given({kFeatures}, one)), drawn);
  EXPECT_EQ(rig_->Latents(given({1, kFeatures}, one)), drawn);
  EXPECT_NE(rig_->Latents(given({1, 2, kFeatures}, Joined(one, other))), drawn);
}

// One adapter with embeddings beside another with an image, and the same adapter with either.
TEST_F(ImagePromptInputsTest, OfEmbeddingsStandBesideImages) {
  const HostTensor embeds = TensorOf({1, 1, kFeatures}, EncodedGrey("faces"));
  const std::vector<float> images = rig_->Latents(WithPrompt().Of("plus", 0.5).Of("faces", 0.8));
  EXPECT_EQ(rig_->Latents(WithPrompt().Of("plus", 0.5).Of("faces", 0.8).Given(embeds)), images);
  EXPECT_EQ(rig_->Latents(WithPrompt().Of("faces", 0.8).Given(embeds).Of("plus", 0.5)), images);
  EXPECT_EQ(rig_->Latents(WithPrompt().Of("faces", 0.8).Given(embeds).Of("faces", 0.3)),
            rig_->Latents(WithPrompt().Of("faces", 0.8).Of("faces", 0.3)));
}

// Bytes that are other numbers in another type.
TEST_F(ImagePromptInputsTest, OfEmbeddingsHaveOneOrderHoweverTheRequestHasThem) {
  using Type = HostTensor::Type;
  const auto first = [](Type a, Type b) {
    HostTensor tensor{.type = a, .shape = {1, 1, kFeatures}};
    for (int64_t i = 0; i < kFeatures; ++i) tensor.data += std::string("\0\x3c", 2);
    WithPrompt asked = WithPrompt().Of("faces").Given(tensor);
    tensor.type = b;
    const auto plan = rig_->Resolve(asked.Of("faces").Given(tensor)).value();
    return plan->image_prompts.front().index == 0 ? a : b;
  };
  EXPECT_EQ(first(Type::kFloat16, Type::kBFloat16), first(Type::kBFloat16, Type::kFloat16));
}

TEST_F(ImagePromptInputsTest, OfEmbeddingsRunNoEncoderThatTheyNeedNot) {
  const HostTensor base = TensorOf({1, 1, kFeatures}, Drawn(kFeatures, 7));
  const HostTensor plus = TensorOf({1, 1, kPatches, kTokenWidth}, Drawn(kPatches * kTokenWidth, 7));
  const HostTensor whole =
      TensorOf({2, 1, kPatches, kTokenWidth}, Drawn(2 * kPatches * kTokenWidth, 7));
  EXPECT_TRUE(HasEncoder(WithPrompt().Of("faces")));
  EXPECT_FALSE(HasEncoder(WithPrompt().Of("faces").Given(base)));
  EXPECT_TRUE(HasEncoder(WithPrompt().Of("plus").Given(plus)));  // for the black image
  EXPECT_FALSE(HasEncoder(WithPrompt().Of("plus").Given(plus).Unguided()));
  EXPECT_FALSE(HasEncoder(WithPrompt().Of("plus").Given(whole)));
}

TEST_F(ImagePromptInputsTest, OfEmbeddingsAreRefusedByField) {
  const auto refusal = [](const std::string& name, std::vector<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t side : shape) count *= side;
    return Refusal(WithPrompt().Of(name).Given(TensorOf(std::move(shape), Drawn(count, 7))));
  };
  EXPECT_THAT(
      refusal("faces", {2, 1, 30}),
      AllOf(HasSubstr("ip_adapters[0].image_embeds: must have the shape [2, n, 24]"),
            HasSubstr("the image encoder of faces gives 24 numbers an image; has [2, 1, 30]")));
  EXPECT_THAT(refusal("plus", {2, 1, 24}), HasSubstr("must have the shape [2, n, 5, 32]"));
  EXPECT_THAT(refusal("plus", {2, 1, 4, 32}), HasSubstr("gives 5 x 32 numbers an image"));
  EXPECT_THAT(refusal("faces", {3, 1, 24}), HasSubstr("has [3, 1, 24]"));
  EXPECT_THAT(refusal("faces", {1, 17, 24}), HasSubstr("n images, from 1 to 16"));
  EXPECT_THAT(refusal("faces", {2, 24}), HasSubstr("has [2, 24]"));  // two images, or two halves
  EXPECT_THAT(refusal("faces", {1, 1, 1, 24}), HasSubstr("has [1, 1, 1, 24]"));
  EXPECT_THAT(refusal("faces", {}), HasSubstr("has []"));
  EXPECT_THAT(refusal("faces", {0, 1, 24}), HasSubstr("has [0, 1, 24]"));
  EXPECT_THAT(refusal("faces", {1, 0, 24}), HasSubstr("has [1, 0, 24]"));
  HostTensor tensor = TensorOf({1, 1, kFeatures}, Drawn(kFeatures, 7));
  tensor.data.pop_back();
  EXPECT_THAT(
      Refusal(WithPrompt().Of("faces").Given(tensor)),
      HasSubstr("ip_adapters[0].image_embeds: [1, 1, 24] of float32 takes 96 bytes of data, "
                "there are 95"));
  std::vector<float> values = Drawn(kFeatures, 7);
  values[3] = INFINITY;
  EXPECT_THAT(
      Refusal(WithPrompt().Of("faces").Given(TensorOf({1, 1, kFeatures}, values))),
      HasSubstr("ip_adapters[0].image_embeds: all numbers must be finite, number 3 is inf"));
  WithPrompt both = WithPrompt().Of("faces");
  both.inputs.ip_adapter_embeds.back() = TensorOf({1, 1, kFeatures}, Drawn(kFeatures, 7));
  EXPECT_THAT(Refusal(both), HasSubstr("ip_adapters[0].image_embeds: stand in place of image"));
  WithPrompt many = WithPrompt();
  for (int i = 0; i < 3; ++i) {
    many = many.Of("plus").Given(
        TensorOf({1, 16, kPatches, kTokenWidth}, Drawn(16 * kPatches * kTokenWidth, 7)));
  }
  EXPECT_THAT(Refusal(many), HasSubstr("ip_adapters: their images become 288 tokens together"));
}

}  // namespace
}  // namespace latentd::pipeline
