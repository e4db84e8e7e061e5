// Components that are off, or not compiled.
#include "core/pipeline/spec/models/components.h"

#include <set>
#include <string>

#include "core/base/errors/error_details.h"
#include "core/image/encode.h"
#include "tests/core/pipeline/rig.h"

namespace latentd::pipeline {
namespace {

using ::latentd::testing::IsOk;
using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

LoadOptions Off(const std::string& component) {
  LoadOptions options = Demo();
  options.components[component] = ComponentMode::kOff;
  return options;
}

Asked WithImage() {
  Asked spec = SmallSpec();
  spec.inputs.image = image::Encode({1, 1, {9, 9, 9}}, {}).value();
  spec.strength = 0.5;
  return spec;
}

// "field: description" of every violation.
std::vector<std::string> Violations(const Rig& rig, const Asked& spec) {
  std::vector<std::string> found;
  for (const FieldViolation& violation : GetFieldViolations(rig.Resolve(spec).status())) {
    found.push_back(violation.field + ": " + violation.description);
  }
  return found;
}

std::set<std::string> DeclaredComponents(const Rig& rig) {
  std::set<std::string> components;
  for (const compiler::GraphStatus& info : rig.graphs.List())
    components.insert(info.label.component);
  return components;
}

absl::Status Load(const LoadOptions& options) {
  Rig rig;
  return LoadPipeline(options, rig.weights, rig.graphs).status();
}

TEST(ComponentsTest, DrawsWithoutAnEncoderAndRefusesInitImages) {
  const Rig rig(Off("vae_encoder"));
  EXPECT_THAT(Violations(rig, WithImage()),
              ElementsAre(AllOf(HasSubstr("image: "), HasSubstr("vae_encoder"))));
  ASSERT_OK_AND_ASSIGN(const auto graphs, rig.pipeline->GraphsOf({}, {64, 72}, 2));
  rig.Finish(SmallSpec());
  EXPECT_THAT(DeclaredComponents(rig), Not(Contains("vae_encoder")));
}

TEST(ComponentsTest, LeavesOutTheRefinersWeightsWithItsUnet) {
  const Rig rig(Off("unet_refiner"));
  const Rig alone({.base = testing::kDemoBase});
  rig.Finish(SmallSpec());
  alone.Finish(SmallSpec());
  EXPECT_EQ(rig.weights.bytes_held(), alone.weights.bytes_held());
  Asked spec = SmallSpec();
  spec.refine = true;
  EXPECT_THAT(Violations(rig, spec),
              ElementsAre(AllOf(HasSubstr("refine: "), HasSubstr("unet_refiner"))));
  spec = WithImage();
  spec.model = "refiner";
  EXPECT_THAT(Violations(rig, spec),
              ElementsAre(AllOf(HasSubstr("model: "), HasSubstr("unet_refiner"))));
}

TEST(ComponentsTest, DrawsWithTheRefinerAlone) {
  LoadOptions options = Off("unet_base");
  options.components["text_encoder"] = ComponentMode::kOff;  // only the base has it
  const Rig rig(options);
  EXPECT_THAT(Violations(rig, SmallSpec()),
              ElementsAre(AllOf(HasSubstr("model: "), HasSubstr("unet_base"))));
  Asked spec = WithImage();
  spec.model = "refiner";
  rig.Finish(spec);
  ASSERT_OK_AND_ASSIGN(const auto graphs, rig.pipeline->GraphsOf({}, {64, 72}, 2));
  EXPECT_THAT(DeclaredComponents(rig),
              ElementsAre("text_encoder_2", "unet", "vae_decoder", "vae_encoder"));
}

TEST(ComponentsTest, RefusesToSwitchOffWhatEveryPictureNeeds) {
  for (const std::string component : {"text_encoder", "text_encoder_2", "vae_decoder"}) {
    EXPECT_THAT(Load(Off(component)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(component + " is off")));
  }
}

TEST(ComponentsTest, RefusesToDrawNothing) {
  LoadOptions options = Off("unet_base");
  options.components["vae_encoder"] = ComponentMode::kOff;
  EXPECT_THAT(Load(options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unet_base")));
  options = Off("unet_base");
  options.refiner.clear();
  EXPECT_THAT(Load(options), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unet_base")));
}

TEST(ComponentsTest, NamesTheComponentsThatThereAre) {
  EXPECT_THAT(Load(Off("unet")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("no component \"unet\""), HasSubstr("unet_base"))));
}

// Another backend than the store's, which tells of itself.
class OtherBackend : public backends::reference::ReferenceBackend {
 public:
  std::string Fingerprint() const override { return "other"; }
};

TEST(ComponentsTest, RunsAComponentOnTheBackendThatIsGivenForIt) {
  OtherBackend other;
  LoadOptions options = Demo();
  options.components["vae_decoder"] = ComponentMode::kReference;
  options.reference = &other;
  const Rig rig(options);
  const Rig plain;
  EXPECT_EQ(rig.Finish(SmallSpec())->pixels, plain.Finish(SmallSpec())->pixels);
  for (const compiler::GraphStatus& info : rig.graphs.List()) {
    EXPECT_EQ(info.key.build.fingerprint == "other", info.label.component == "vae_decoder")
        << info.label.ToText();
  }
}

}  // namespace
}  // namespace latentd::pipeline
