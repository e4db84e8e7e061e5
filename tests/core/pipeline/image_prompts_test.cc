// Pictures with images as prompts: what IP-Adapters change and what not, alone and beside others.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "core/adapters/catalogue/adapter_folder.h"
#include "core/adapters/catalogue/catalogue.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/base/errors/error_details.h"
#include "core/image/encode.h"
#include "core/image/png/png_write.h"
#include "core/pipeline/graphs/image_prompt_graph.h"
#include "tests/core/pipeline/ip_adapter_folder.h"
#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;

// A picture of which each pixel has another colour.
std::string Colours(int width, int height, int turn) {
  image::Image image{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (const int value : {x * turn, y * 3, x * y}) {
        image.rgb.push_back(static_cast<uint8_t>(value));
      }
    }
  }
  return image::Encode(image, {}).value();
}

// Latents that differ by rounding alone, and latents of other pictures, are so far apart.
constexpr double kNear = 2e-3, kFar = 1e-2;

double MostApart(const std::vector<float>& a, const std::vector<float>& b) {
  double most = a.size() == b.size() ? 0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
  }
  return most;
}

struct WithImage : Asked {
  explicit WithImage(uint64_t seed = 3) : Asked(SmallSpec()) { this->seed = seed; }

  WithImage Of(const std::string& name, double scale = 1, int turn = 2) const {
    WithImage more = *this;
    more.ip_adapters.push_back({.name = name, .scale = scale});
    more.inputs.ip_adapter_images.push_back({Colours(40, 90, turn)});
    return more;
  }
  // Adds an image to the last adapter.
  WithImage And(int turn) const {
    WithImage more = *this;
    more.inputs.ip_adapter_images.back().push_back(Colours(70, 50, turn));
    return more;
  }
};

class ImagePromptsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new IpAdapterFolder();
    folder_->AddEncoder();
    folder_->Add("faces", IpAdapterFolder::Base(), /*seed=*/1);
    folder_->Add("styles", IpAdapterFolder::Base(), /*seed=*/2);
    folder_->Add("silent", IpAdapterFolder::Base(), /*seed=*/3, /*gain=*/0);
    folder_->Add("plus", IpAdapterFolder::Plus(), /*seed=*/4);
    catalogue_ = new adapters::Catalogue(adapters::FolderOnDisk(folder_->path()));
    rig_ = new Rig({.base = testing::kDemoBase, .adapters = catalogue_, .row_counts = {2, 4, 8}},
                   "", backends::cpu::CpuBackend::Create().value());
    for (int rows : {4, 8}) KeepSteps(rows, {4});
  }
  static void TearDownTestSuite() {
    delete rig_;
    delete catalogue_;
    delete folder_;
  }

  // Makes steps of several pictures ready.
  static void KeepSteps(int rows, const ImageTokens& tokens) {
    const StepShape shape = {
        .rows = rows, .height = 72 / 8, .width = 64 / 8, .image_tokens = tokens};
    rig_->kept.push_back(rig_->pipeline->first().graphs().Find({.shape = shape}).value());
    ASSERT_OK(rig_->pipeline->first().graphs().Get(rig_->kept.back()));
  }

  // Reason for which a request is refused, by its first field.
  static std::string Refusal(const Asked& asked) {
    const auto plan = rig_->Resolve(asked);
    const std::vector<FieldViolation> fields = GetFieldViolations(plan.status());
    return fields.empty() ? std::string(plan.status().message())
                          : fields.front().field + ": " + fields.front().description;
  }

  // Draws them together, as far as each has steps.
  std::vector<std::vector<float>> DrawTogether(const std::vector<Asked>& asked) {
    std::vector<std::unique_ptr<Picture>> pictures;
    for (const Asked& one : asked) {
      pictures.push_back(rig_->Start(one));
      EXPECT_OK(testing::RunUnit(*pictures.back()));
    }
    for (;;) {
      std::vector<Picture*> stepping;
      for (const auto& picture : pictures) {
        if (picture->next == UnitKind::kStep) stepping.push_back(picture.get());
      }
      if (stepping.empty()) break;
      PendingUnit unit = EnqueueUnit(stepping, lanes_, *stream_).value();
      most_rows_ = std::max(most_rows_, unit.computed_rows);
      for (size_t i = 0; i < stepping.size(); ++i) {
        EXPECT_OK(CompleteUnit(unit, *stepping[i], unit.parts[i]));
      }
    }
    std::vector<std::vector<float>> latents;
    for (const auto& picture : pictures) latents.push_back(ValuesOf(picture->latents));
    return latents;
  }

  static inline IpAdapterFolder* folder_ = nullptr;
  static inline adapters::Catalogue* catalogue_ = nullptr;
  static inline Rig* rig_ = nullptr;
  Lanes lanes_;
  int most_rows_ = 0;
  std::unique_ptr<device::Stream> stream_ = device::Host().NewStream(SystemClock()).value();
};

TEST_F(ImagePromptsTest, ThatAddZerosLeaveThePictureAsItIs) {
  const std::vector<float> plain = rig_->Latents(WithImage());
  EXPECT_LT(MostApart(rig_->Latents(WithImage().Of("silent")), plain), kNear);
  EXPECT_GT(MostApart(rig_->Latents(WithImage().Of("faces")), plain), kFar);
  EXPECT_GT(MostApart(rig_->Latents(WithImage().Of("plus")), plain), kFar);
}

// A scale of 0 is no image at all: the picture's graphs are those without.
TEST_F(ImagePromptsTest, WithoutScaleGiveTheBytesOfThePictureWithout) {
  EXPECT_EQ(rig_->Latents(WithImage().Of("faces", /*scale=*/0)), rig_->Latents(WithImage()));
}

TEST_F(ImagePromptsTest, FollowScaleImageAndAdapter) {
  for (const char* name : {"faces", "plus"}) {
    const std::vector<float> drawn = rig_->Latents(WithImage().Of(name));
    EXPECT_GT(MostApart(rig_->Latents(WithImage().Of(name, 0.3)), drawn), kFar) << name;
    EXPECT_GT(MostApart(rig_->Latents(WithImage().Of(name, 1, /*turn=*/7)), drawn), kFar) << name;
    EXPECT_EQ(rig_->Latents(WithImage().Of(name)), drawn) << name;
  }
  EXPECT_GT(
      MostApart(rig_->Latents(WithImage().Of("styles")), rig_->Latents(WithImage().Of("faces"))),
      kFar);
}

// The others have other adapters, rows and lengths, and one has more tokens.
TEST_F(ImagePromptsTest, GivePicturesWhatTheyGetAlone) {
  WithImage unguided = WithImage(7).Of("styles", 0.8);
  unguided.guidance_scale = 1;
  WithImage longer = WithImage(8).Of("faces", -0.5);
  longer.num_inference_steps = 6;
  WithImage partly = WithImage(9).Of("styles", 1, /*turn=*/5);
  partly.guidance_interval = GuidanceInterval{0.25, 0.75};
  const std::vector<Asked> asked = {WithImage(6).Of("faces", 0.9), unguided, longer, partly};
  const auto together = DrawTogether(asked);
  EXPECT_EQ(most_rows_, 8);
  for (size_t i = 0; i < asked.size(); ++i) {
    EXPECT_LT(MostApart(together[i], rig_->Latents(asked[i])), kNear) << i;
  }
}

// Two equal images are read as one is: attention to tokens that are there twice.
TEST_F(ImagePromptsTest, OfSeveralImagesAreReadTogether) {
  for (const char* name : {"faces", "plus"}) {
    const std::vector<float> one = rig_->Latents(WithImage().Of(name));
    WithImage twice = WithImage().Of(name);
    twice.inputs.ip_adapter_images.back().push_back(twice.inputs.ip_adapter_images.back().front());
    EXPECT_LT(MostApart(rig_->Latents(twice), one), kNear) << name;
    const std::vector<float> both = rig_->Latents(WithImage().Of(name).And(7));
    EXPECT_GT(MostApart(both, one), kFar) << name;
    // These two images are more alike.
    EXPECT_GT(MostApart(both, rig_->Latents(WithImage().Of(name, 1, 7))), kNear) << name;
  }
}

// One adapter twice adds what one adds with the sum of their scales, and one that adds zeros
// nothing, wherever it stands.
TEST_F(ImagePromptsTest, OfSeveralAdaptersAddUp) {
  const std::vector<float> whole = rig_->Latents(WithImage().Of("faces", 0.9));
  EXPECT_LT(MostApart(rig_->Latents(WithImage().Of("faces", 0.6).Of("faces", 0.3)), whole), kNear);
  EXPECT_LT(MostApart(rig_->Latents(WithImage().Of("silent").Of("faces", 0.9)), whole), kNear);
  const std::vector<float> both = rig_->Latents(WithImage().Of("plus", 0.5).Of("faces", 0.9));
  EXPECT_GT(MostApart(both, whole), kFar);
  EXPECT_GT(MostApart(both, rig_->Latents(WithImage().Of("plus", 0.5))), kFar);
  // Adapters of fewer tokens are read first, whatever the request's order.
  EXPECT_EQ(rig_->Latents(WithImage().Of("faces", 0.9).Of("plus", 0.5)), both);
  EXPECT_EQ(rig_->Latents(WithImage().Of("plus", 0).Of("faces", 0.9)), whole);
}

// Adapters of as many tokens are told apart by name, scale and image: sums depend on the order.
TEST_F(ImagePromptsTest, HaveNoOrderAmongAdapters) {
  const auto both = [&](const std::string& a, double a_scale, int a_turn, const std::string& b,
                        double b_scale, int b_turn) {
    return rig_->Latents(WithImage().Of(a, a_scale, a_turn).Of(b, b_scale, b_turn));
  };
  EXPECT_EQ(both("faces", 0.9, 2, "styles", 0.4, 2), both("styles", 0.4, 2, "faces", 0.9, 2));
  EXPECT_EQ(both("faces", 0.9, 2, "faces", 0.3, 2), both("faces", 0.3, 2, "faces", 0.9, 2));
  EXPECT_EQ(both("faces", 0.7, 2, "faces", 0.7, 7), both("faces", 0.7, 7, "faces", 0.7, 2));
}

TEST_F(ImagePromptsTest, OfSeveralAdaptersGivePicturesWhatTheyGetAlone) {
  KeepSteps(8, {4, 8});
  WithImage unguided = WithImage(7).Of("styles", 0.8).Of("faces", -0.4).And(5);
  unguided.guidance_scale = 1;
  const std::vector<Asked> asked = {WithImage(6).Of("faces", 0.9).And(3).Of("styles", 0.2),
                                    unguided, WithImage(8).Of("faces").Of("styles").And(3)};
  const auto together = DrawTogether(asked);
  EXPECT_EQ(most_rows_, 8);
  for (size_t i = 0; i < asked.size(); ++i) {
    EXPECT_LT(MostApart(together[i], rig_->Latents(asked[i])), kNear) << i;
  }
}

TEST_F(ImagePromptsTest, ShareLanesWithThoseOfAsManyTokensAlone) {
  const auto lane = [](const Asked& asked) { return rig_->Start(asked)->lane(); };
  EXPECT_EQ(lane(WithImage().Of("faces")), lane(WithImage().Of("styles")));
  EXPECT_NE(lane(WithImage().Of("faces")), lane(WithImage().Of("plus")));
  EXPECT_NE(lane(WithImage().Of("faces")), lane(WithImage()));
  EXPECT_EQ(lane(WithImage().Of("faces", 0)), lane(WithImage()));
  const Lane both = lane(WithImage().Of("faces").Of("plus"));
  EXPECT_EQ(lane(WithImage().Of("plus").Of("silent", 0).Of("styles")), both);
  EXPECT_NE(lane(WithImage().Of("faces").And(1).Of("plus")), both);
  EXPECT_NE(lane(WithImage().Of("faces").And(1)), lane(WithImage().Of("faces").Of("styles")));
  // As many tokens in all: 4 and 12, 8 and 8.
  EXPECT_NE(lane(WithImage().Of("faces").Of("styles").And(1).And(1)),
            lane(WithImage().Of("faces").And(1).Of("styles").And(1)));
}

TEST_F(ImagePromptsTest, AreRefusedByField) {
  EXPECT_THAT(Refusal(WithImage().Of("fases")),
              HasSubstr("ip_adapters[0].name: there is no adapter fases"));
  EXPECT_THAT(Refusal(WithImage().Of("fases")), HasSubstr("the nearest is faces"));
  EXPECT_THAT(Refusal(WithImage().Of("faces", 11)),
              HasSubstr("ip_adapters[0].scale: must be -10 to 10"));
  WithImage five = WithImage();
  for (int i = 0; i < 5; ++i) five = five.Of("faces");
  EXPECT_THAT(Refusal(five), HasSubstr("ip_adapters: must be at most 4, are 5"));
  WithImage many = WithImage().Of("faces").Of("plus");
  for (int i = 1; i < 16; ++i) many = many.And(i);
  EXPECT_OK(rig_->Resolve(many));  // 4 + 16 * 6
  EXPECT_THAT(Refusal(many.And(1)),
              HasSubstr("ip_adapters[1].more_images: with image must be at most 16, are 17"));
  WithImage too_many = many.Of("plus");
  for (int i = 1; i < 16; ++i) too_many = too_many.And(i);
  EXPECT_OK(rig_->Resolve(too_many));  // 4 + 2 * 96
  too_many = too_many.Of("plus");
  for (int i = 1; i < 11; ++i) too_many = too_many.And(i);
  EXPECT_THAT(Refusal(too_many),
              HasSubstr("ip_adapters: their images become 262 tokens together, and at most 256"));
  too_many.ip_adapters.front().scale = 0;  // 4 less are read
  EXPECT_THAT(Refusal(too_many), HasSubstr("become 258 tokens together"));
  too_many.ip_adapters.back().scale = 0;
  EXPECT_OK(rig_->Resolve(too_many));
  WithImage broken = WithImage().Of("faces").And(2);
  broken.inputs.ip_adapter_images[0][1] = "no picture";
  EXPECT_THAT(Refusal(broken), HasSubstr("ip_adapters[0].more_images[0]: "));
  Asked without = WithImage().Of("faces");
  without.inputs.ip_adapter_images.clear();
  EXPECT_THAT(Refusal(without), HasSubstr("ip_adapters[0].image: is the image"));
  without.inputs.ip_adapter_images.push_back({"no picture"});
  EXPECT_THAT(Refusal(without), HasSubstr("ip_adapters[0].image: "));
  Asked as_control = WithImage();
  as_control.controls = {{.name = "faces"}};
  as_control.inputs.control_images = {Colours(8, 8, 1)};
  EXPECT_THAT(Refusal(as_control),
              HasSubstr("controls[0].name: faces is no ControlNet but of the kind IP-Adapter"));
}

// Pixels of images are counted before any is decoded: these have none behind their headers.
TEST_F(ImagePromptsTest, HaveSoManyPixelsOfARequest) {
  const auto picture = [](int side) {
    std::string png(image::kPngSignature);
    image::AppendPngHeader(side, side, png);
    image::AppendPngChunk("IDAT", absl::string_view("none"), png);
    image::AppendPngChunk("IEND", absl::string_view(), png);
    return png;
  };
  WithImage large = WithImage().Of("faces").Of("styles");
  large.inputs.ip_adapter_images = {{picture(4096)}, {picture(4096)}};
  EXPECT_OK(rig_->Resolve(large));
  large.inputs.ip_adapter_images.back().push_back(picture(8));
  EXPECT_THAT(Refusal(large), HasSubstr("ip_adapters: their images have 33554496 pixels together, "
                                        "and at most 33554432 are read"));
  large.ip_adapters.front().scale = 0;
  EXPECT_OK(rig_->Resolve(large));
}

// While images are encoded: 28x28 pixels of three colours of each, and its embedding of 24 numbers
// or its 5 patches of 32, for both rows; and what steps read of all.
TEST_F(ImagePromptsTest, CountInTheMemoryOfTheirRequest) {
  const auto added = [&](const Asked& asked) -> int64_t {
    const auto with = rig_->Resolve(asked), without = rig_->Resolve(WithImage());
    EXPECT_OK(with);
    EXPECT_OK(without);
    return with.ok() && without.ok() ? (*with)->state_bytes - (*without)->state_bytes : 0;
  };
  const auto rows = [](const ImageTokens& tokens) {
    int64_t bytes = 0;
    const device::DType dtype = rig_->pipeline->first().graphs().residual_dtype();
    for (const RowPort& port : ImagePromptPorts(IpAdapterFolder::Unet(), tokens, dtype)) {
      bytes += port.row_bytes();
    }
    return bytes;
  };
  constexpr int64_t kPixels = 3 * 28 * 28 * 4, kBase = kPixels + 24 * 4,
                    kPlus = kPixels + 5 * 32 * 4;
  EXPECT_EQ(added(WithImage().Of("faces")), 2 * (rows({4}) + kBase));
  EXPECT_EQ(added(WithImage().Of("plus").And(3).Of("faces")),
            2 * (rows({4, 12}) + kBase + 2 * kPlus));
  EXPECT_EQ(added(WithImage().Of("plus", /*scale=*/0)), 0);
}

TEST(IpAdapterFiles, AreServedOrSayWhyNot) {
  const IpAdapterFolder folder;
  folder.Add("alone", IpAdapterFolder::Base(), 1);
  folder.AddEncoder("models/image_encoder");
  networks::IpAdapterConfig wider = IpAdapterFolder::Base();
  wider.image_features = 30;
  folder.Add("models/faces", IpAdapterFolder::Base(), 1);
  folder.Add("sdxl/plus", IpAdapterFolder::Plus(), 2);
  folder.Add("wider", wider, 3);
  IpAdapterFolder::Tensors tensors = IpAdapterFolder::TensorsOf(IpAdapterFolder::Base(), 4);
  tensors.pop_back();
  testing::WriteSafetensors(folder.path() + "/broken.safetensors", tensors);
  adapters::Catalogue catalogue(adapters::FolderOnDisk(folder.path()));
  const Rig rig({.base = testing::kDemoBase, .adapters = &catalogue});
  const auto problem = [&](const std::string& name) {
    return std::string(catalogue.Find(name).status().message());
  };
  const auto plus = catalogue.Find("sdxl/plus");
  ASSERT_OK(plus);
  EXPECT_EQ(plus->kind, AdapterKind::kIpAdapter);
  EXPECT_EQ(plus->variant, "plus");
  EXPECT_EQ(plus->image_tokens, 6);
  EXPECT_OK(catalogue.Find("models/faces"));
  EXPECT_EQ(catalogue.Find("models/faces")->variant, "base");
  EXPECT_OK(catalogue.Find("alone"));  // h94's models/image_encoder lies below its own folder
  EXPECT_THAT(problem("wider"), HasSubstr("it reads embeddings of 30 features"));
  EXPECT_THAT(problem("wider"), HasSubstr("has 24"));
  EXPECT_THAT(problem("broken"), HasSubstr("it lacks "));
  // No encoder is an adapter.
  for (const AdapterFacts& facts : catalogue.List()) {
    EXPECT_THAT(facts.name, ::testing::Not(HasSubstr("image_encoder")));
  }
}

// A folder gets its encoder after its adapter.
TEST(IpAdapterFiles, AreServedOnceTheirEncoderIsThere) {
  const IpAdapterFolder folder;
  folder.Add("faces", IpAdapterFolder::Base(), 1);
  adapters::Catalogue catalogue(adapters::FolderOnDisk(folder.path()));
  const Rig rig({.base = testing::kDemoBase, .adapters = &catalogue});
  EXPECT_THAT(std::string(catalogue.Find("faces").status().message()),
              HasSubstr("no image encoder fits"));
  folder.AddEncoder();
  EXPECT_OK(catalogue.Find("faces"));
}

// Stamps and digests are those of what a request reads.
TEST(IpAdapterFiles, AreEditedWhenTheirEncoderIs) {
  const IpAdapterFolder folder;
  folder.Add("nets/faces", IpAdapterFolder::Base(), 1);
  folder.AddEncoder();
  adapters::Catalogue catalogue(adapters::FolderOnDisk(folder.path()));
  const Rig rig({.base = testing::kDemoBase, .adapters = &catalogue});
  const auto look = [&] {
    EXPECT_OK(catalogue.Look());
    catalogue.ReadDigests(int64_t{1} << 30);
    return catalogue.Find("nets/faces").value();
  };
  const AdapterFacts first = look();
  EXPECT_EQ(look().stamp, first.stamp);
  // A farther one is not read.
  folder.AddEncoder("models/image_encoder", /*seed=*/11);
  EXPECT_EQ(look().stamp, first.stamp);
  EXPECT_OK(catalogue.LoadIpAdapter("nets/faces", first.stamp, "base"));
  folder.AddEncoder("image_encoder", /*seed=*/10);
  EXPECT_NE(catalogue.Find("nets/faces")->stamp, first.stamp);
  EXPECT_THAT(catalogue.LoadIpAdapter("nets/faces", first.stamp, "base"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("was edited")));
  const AdapterFacts second = look();
  EXPECT_NE(second.digest, first.digest);
  // Its tensors are as they were, and read in another way.
  testing::WriteFile(
      folder.path() + "/image_encoder/config.json",
      absl::StrReplaceAll(IpAdapterFolder::kEncoderConfig,
                          {{"\"hidden_size\"", "\"hidden_act\": \"gelu\", \"hidden_size\""}}));
  const AdapterFacts in_another_way = look();
  EXPECT_NE(in_another_way.stamp, second.stamp);
  EXPECT_NE(in_another_way.digest, second.digest);
  EXPECT_FALSE(in_another_way.digest.empty());
  // A nearer one counts before it, whatever is in the other's.
  folder.AddEncoder("nets/image_encoder", /*seed=*/9);
  const AdapterFacts third = look();
  EXPECT_NE(third.stamp, second.stamp);
  EXPECT_EQ(third.digest, first.digest);
}

// However many adapters read it: the archive here has forgotten all that it is asked for.
TEST(IpAdapterFiles, HashTheirEncoderOnce) {
  const IpAdapterFolder folder;
  folder.AddEncoder();
  for (const char* name : {"a", "b", "nets/c"}) folder.Add(name, IpAdapterFolder::Base(), 1);
  int hashed = 0;
  const weights::DigestArchive archive{.find = [&](absl::string_view key) {
    hashed += absl::StrContains(key, "image_encoder");
    return std::optional<std::string>();
  }};
  adapters::Catalogue catalogue(adapters::FolderOnDisk(folder.path(), archive));
  const Rig rig({.base = testing::kDemoBase, .adapters = &catalogue});
  catalogue.ReadDigests(int64_t{1} << 30);
  EXPECT_EQ(hashed, 1);
  EXPECT_FALSE(catalogue.Find("nets/c")->digest.empty());
  EXPECT_EQ(catalogue.Find("a")->digest, catalogue.Find("nets/c")->digest);
}

TEST(IpAdapterFiles, HaveNoDigestOfAnEncoderThatIsReplacedMeanwhile) {
  const IpAdapterFolder folder;
  folder.AddEncoder();
  folder.Add("faces", IpAdapterFolder::Base(), 1);
  bool is_replaced = false;
  const weights::DigestArchive archive{.find = [&](absl::string_view key) {
    if (absl::StrContains(key, "image_encoder") && !std::exchange(is_replaced, true)) {
      folder.AddEncoder("image_encoder", /*seed=*/10);
    }
    return std::optional<std::string>();
  }};
  adapters::Catalogue catalogue(adapters::FolderOnDisk(folder.path(), archive));
  const Rig rig({.base = testing::kDemoBase, .adapters = &catalogue});
  catalogue.ReadDigests(int64_t{1} << 30);
  EXPECT_TRUE(is_replaced);
  EXPECT_EQ(catalogue.List().front().digest, "");
  EXPECT_OK(catalogue.Look());
  catalogue.ReadDigests(int64_t{1} << 30);
  adapters::Catalogue anew(adapters::FolderOnDisk(folder.path()));
  const Rig other({.base = testing::kDemoBase, .adapters = &anew});
  anew.ReadDigests(int64_t{1} << 30);
  EXPECT_NE(catalogue.Find("faces")->digest, "");
  EXPECT_EQ(catalogue.Find("faces")->digest, anew.Find("faces")->digest);
}

TEST(IpAdapterFiles, HashEachEncoderThatHasNoStamp) {
  const IpAdapterFolder folder;
  folder.AddEncoder();
  folder.AddEncoder("nets/image_encoder", /*seed=*/10);
  for (const char* name : {"a", "nets/a"}) folder.Add(name, IpAdapterFolder::Base(), 1);
  adapters::AdapterFolder without_stamps = adapters::FolderOnDisk(folder.path());
  without_stamps.image_encoders = [all = without_stamps.image_encoders](const std::string& path) {
    std::vector<adapters::ImageEncoderFile> encoders = all(path);
    for (adapters::ImageEncoderFile& encoder : encoders) encoder.stamp.clear();
    return encoders;
  };
  adapters::Catalogue catalogue(without_stamps);
  const Rig rig({.base = testing::kDemoBase, .adapters = &catalogue});
  catalogue.ReadDigests(int64_t{1} << 30);
  EXPECT_FALSE(catalogue.Find("a")->digest.empty());
  EXPECT_NE(catalogue.Find("a")->digest, catalogue.Find("nets/a")->digest);
}

TEST(IpAdapterFiles, AreUnusableWithABrokenEncoder) {
  const IpAdapterFolder folder;
  folder.Add("faces", IpAdapterFolder::Base(), 1);
  const std::string tensors = folder.path() + "/image_encoder/model.safetensors";
  folder.AddEncoder("image_encoder", /*seed=*/9, /*most=*/5);
  adapters::Catalogue catalogue(adapters::FolderOnDisk(folder.path()));
  const Rig rig({.base = testing::kDemoBase, .adapters = &catalogue});
  const auto refusal = [&] {
    EXPECT_OK(catalogue.Look());
    EXPECT_FALSE(catalogue.List().front().is_served());
    const auto plan = rig.Resolve(WithImage().Of("faces"));
    EXPECT_EQ(GetReason(plan.status()), adapters::kAdapterUnusable);
    return std::string(plan.status().message());
  };
  EXPECT_THAT(refusal(), HasSubstr("that of image_encoder/model.safetensors: "));
  testing::WriteFile(tensors, "no tensors");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("image_encoder/model.safetensors"),
                               ::testing::Not(HasSubstr(folder.path()))));
  folder.AddEncoder();
  EXPECT_OK(rig.Resolve(WithImage().Of("faces")));
}

// Names and number of adapters change nothing of what is made at the start.
TEST(IpAdapterFiles, HaveGraphsForEachShapeAtTheStart) {
  const IpAdapterFolder folder;
  folder.AddEncoder();
  for (int i = 0; i < 9; ++i) folder.Add(absl::StrCat("a", i), IpAdapterFolder::Base(), 1);
  folder.Add("plus", IpAdapterFolder::Plus(), 2);
  adapters::Catalogue catalogue(adapters::FolderOnDisk(folder.path()));
  const Rig rig({.base = testing::kDemoBase, .adapters = &catalogue});
  EXPECT_EQ(rig.pipeline->ControlNetGraphsOf(rig.pipeline->first().row().id, {}).size(), 4);
}

}  // namespace
}  // namespace latentd::pipeline
