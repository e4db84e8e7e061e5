// In a lesser precision latentd loses no more than so many times what diffusers does, and its
// pictures look alike.
#include "tests/golden/losses.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/reference/reference_backend.h"
#include "tests/golden/likeness.h"
#include "tests/golden/network_cases.h"
#include "tests/golden/picture_cases.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"

namespace latentd::golden {
namespace {

using device::DType;

Options In(DType precision) {
  return {.cases = ::latentd::testing::SourcePath("tests/golden"),
          .checkpoint = ::latentd::testing::SourcePath("deploy/demo-model"),
          .precision = precision};
}

class LossesTest : public ::testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  LossesTest() {
    if (std::get<0>(GetParam()) == "cpu") {
      backend_ = backends::cpu::CpuBackend::Create().value();
    } else {
      backend_ = std::make_unique<backends::reference::ReferenceBackend>();
    }
  }

  std::unique_ptr<backends::Backend> backend_;
  Options options_ = In(std::get<1>(GetParam()));
  Report report_;
};

INSTANTIATE_TEST_SUITE_P(On, LossesTest,
                         ::testing::Combine(::testing::Values("reference", "cpu"),
                                            ::testing::Values(DType::kBF16, DType::kF16)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "_",
                                               device::Name(std::get<1>(info.param)));
                         });

TEST_P(LossesTest, AreNotMuchMoreThanDiffusersOfNetworks) {
  RunNetworkCases(options_, *backend_, report_);
  EXPECT_TRUE(report_.Finish());
}

// Losses in likeness.json, over several seeds.
TEST_P(LossesTest, AreNotMuchMoreThanDiffusersOfPictures) {
  for (const char* name : {"star", "zero_snr", "ensemble_clip_skip"}) {
    options_.case_name = name;
    RunPictureCases(options_, *backend_, report_);
  }
  EXPECT_TRUE(report_.Finish());
}

TEST(Losses, OfTf32AreThoseOfFp16) {
  Options tf32 = In(DType::kF32);
  tf32.tf32 = true;
  ASSERT_OK_AND_ASSIGN(const Losses rounded, Losses::Read(tf32));
  ASSERT_OK_AND_ASSIGN(const Losses half, Losses::Read(In(DType::kF16)));
  EXPECT_EQ(rounded.Of("star", "latents"), half.Of("star", "latents"));
}

TEST(Losses, AreKnownForEverySmallNetwork) {
  ASSERT_OK_AND_ASSIGN(const Losses losses, Losses::Read(In(DType::kBF16)));
  EXPECT_TRUE(losses.Of("unet_sdxl_base_small", "outputs").has_value());
  EXPECT_FALSE(losses.Of("unet_sdxl_base_small", "latents").has_value());
  EXPECT_FALSE(losses.Of("nothing", "outputs").has_value());
}

// As those of more seeds do: likeness_test.cc.
TEST(Losses, LeaveDiffusersPicturesAsAlikeAsLatentdsHaveToBe) {
  for (const DType precision : {DType::kBF16, DType::kF16}) {
    ASSERT_OK_AND_ASSIGN(const Losses losses, Losses::Read(In(precision)));
    for (const char* name : {"star", "two_shapes_wide", "ensemble", "image_to_image"}) {
      EXPECT_GE(losses.Of(name, "ssim").value_or(0), kLeastMedianSimilarity) << name;
    }
  }
}

}  // namespace
}  // namespace latentd::golden
