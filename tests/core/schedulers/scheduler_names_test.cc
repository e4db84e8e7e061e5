// Names as other programs write them.
#include "core/schedulers/scheduler_names.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/schedulers/config.h"
#include "tests/core/schedulers/parse_scheduler_config.h"
#include "tests/support/status_matchers.h"

namespace latentd::schedulers {
namespace {

using ::latentd::testing::IsOk;
using ::latentd::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr absl::StatusCode kRefused = absl::StatusCode::kInvalidArgument;

constexpr char kFile[] = R"({"_class_name": "EulerDiscreteScheduler", "beta_end": 0.012,
    "beta_schedule": "scaled_linear", "beta_start": 0.00085, "steps_offset": 1,
    "timestep_spacing": "leading", "use_karras_sigmas": true})";

// Our name for it, with the grid, or the error.
std::string NameOf(absl::string_view given) {
  const auto config = ParseSchedulerConfig(kFile, {.name = std::string(given)});
  return config.ok() ? config->full_name() : std::string(config.status().message());
}

TEST(SchedulerNamesTest, AutomaticsSamplersAreKnownByLabelAndAlias) {
  const std::pair<const char*, const char*> names[] = {
      {"Euler", "euler"},
      {"Euler a", "euler_a"},
      {"k_euler_a", "euler_a"},
      {"k_euler_ancestral", "euler_a"},
      {"Heun", "heun"},
      {"LMS", "lms"},
      {"LMS Karras", "lms_karras"},
      {"k_lms_ka", "lms_karras"},
      {"DPM2", "dpm2"},
      {"DPM2 a Karras", "dpm2_a_karras"},
      {"k_dpm_2_a", "dpm2_a"},
      {"DPM++ 2M", "dpmpp_2m"},
      {"DPM++ 2M Karras", "dpmpp_2m_karras"},
      {"k_dpmpp_2m_ka", "dpmpp_2m_karras"},
      {"DPM++ 2M SDE Karras", "dpmpp_2m_sde_karras"},
      {"DPM++ 2M SDE Exponential", "dpmpp_2m_sde_exponential"},
      {"DPM++ 2M SDE Heun", "dpmpp_2m_sde_heun"},
      {"DPM++ 2M SDE Heun Karras", "dpmpp_2m_sde_heun_karras"},
      {"DPM++ 3M SDE Exponential", "dpmpp_3m_sde_exponential"},
      {"DPM++ SDE Karras", "dpmpp_sde_karras"},
      {"DPM++ 2S a", "dpmpp_2s_a"},
      {"DPM++ 2S a Karras", "dpmpp_2s_a_karras"},
      {"DDIM", "ddim"},
      {"PLMS", "pndm"},
      {"UniPC", "unipc"},
      {"LCM", "lcm"},
      {"Euler SGM Uniform", "euler_sgm_uniform"},
      {"DPM++ 2M Align Your Steps", "dpmpp_2m_align_your_steps"},
      {"dpm++ 2m sde karras", "dpmpp_2m_sde_karras"},
      {"DPM++ 2M Automatic", "dpmpp_2m_karras"},
      {"DPM++ 3M SDE Automatic", "dpmpp_3m_sde_exponential"},
      {"Euler Automatic", "euler"},
      {"DPM++ 2M Uniform", "dpmpp_2m_normal"}};
  for (const auto& [given, name] : names) EXPECT_EQ(NameOf(given), name) << given;
}

TEST(SchedulerNamesTest, ComfysSamplersAreKnownWithTheirSchedulers) {
  const std::pair<const char*, const char*> names[] = {
      {"euler", "euler"},
      {"euler_ancestral", "euler_a"},
      {"euler + normal", "euler_normal"},
      {"dpm_2", "dpm2"},
      {"dpm_2_ancestral karras", "dpm2_a_karras"},
      {"dpmpp_2s_ancestral", "dpmpp_2s_a"},
      {"dpmpp_sde_gpu", "dpmpp_sde"},
      {"dpmpp_2m_sde_gpu + exponential", "dpmpp_2m_sde_exponential"},
      {"dpmpp_2m_sde/karras", "dpmpp_2m_sde_karras"},
      {"dpmpp_2m_sde_heun_gpu", "dpmpp_2m_sde_heun"},
      {"dpmpp_3m_sde_gpu_karras", "dpmpp_3m_sde_karras"},
      {"uni_pc", "unipc_bh1"},
      {"uni_pc karras", "unipc_bh1_karras"},
      {"uni_pc_bh2", "unipc"},
      {"ddpm", "ddpm"},
      {"ipndm", "ipndm"},
      {"deis", "deis"},
      {"lcm_sgm_uniform", "lcm_sgm_uniform"},
      {"sa_solver (simple)", "sa_solver_simple"},
      {"dpmpp_2m, kl_optimal", "dpmpp_2m_kl_optimal"},
      {"euler_ddim_uniform", "euler_ddim_uniform"},
      {"dpmpp_3m_sde + linear_quadratic", "dpmpp_3m_sde_linear_quadratic"},
      {"euler-beta", "euler_beta"}};
  for (const auto& [given, name] : names) EXPECT_EQ(NameOf(given), name) << given;
}

TEST(SchedulerNamesTest, KDiffusionsFunctionsAndDiffusersClassesAreKnown) {
  const std::pair<const char*, const char*> names[] = {{"sample_dpmpp_2m_sde", "dpmpp_2m_sde"},
                                                       {"sample_dpm_2_ancestral", "dpm2_a"},
                                                       {"sample_euler", "euler"},
                                                       {"DPMSolverSinglestepScheduler", "dpmpp_2s"},
                                                       {"dpmsolversinglestepscheduler", "dpmpp_2s"},
                                                       {"DPMSolverSDEScheduler", "dpmpp_sde"},
                                                       {"SASolverScheduler", "sa_solver"},
                                                       {"DDPMScheduler", "ddpm"},
                                                       {"EulerDiscrete", "euler"}};
  for (const auto& [given, name] : names) EXPECT_EQ(NameOf(given), name) << given;
}

// A response says it, and a request with that draws the same.
TEST(SchedulerNamesTest, EveryNameWithEveryGridNamesItself) {
  for (const SchedulerNames& names : NamesOfSchedulers()) {
    for (const std::string& grid : names.grids) {
      const std::string full = absl::StrCat(names.name, "_", grid);
      EXPECT_EQ(NameOf(full), full);
    }
    for (const std::string& alias : names.aliases) EXPECT_EQ(NameOf(alias), names.name) << alias;
  }
}

TEST(SchedulerNamesTest, NoTwoSchedulersHaveTheSameName) {
  std::set<std::string> seen;
  for (const SchedulerRow& row : SchedulerTable()) {
    const std::string name(row.name);
    EXPECT_EQ(NormalName(name), name);
    EXPECT_TRUE(seen.insert(name).second) << name;
    for (const absl::string_view alias : absl::StrSplit(row.aliases, ' ', absl::SkipEmpty())) {
      EXPECT_EQ(NormalName(alias), alias);
      EXPECT_TRUE(seen.insert(std::string(alias)).second) << alias;
    }
  }
}

TEST(SchedulerNamesTest, AGridBehindANameTakesThePlaceOfTheFiles) {
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig own, ParseSchedulerConfig(kFile));
  EXPECT_TRUE(own.use_karras_sigmas);
  EXPECT_EQ(own.full_name(), "euler") << "the file's grid is no part of the name";
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig named,
                       ParseSchedulerConfig(kFile, {.name = "euler_simple"}));
  EXPECT_FALSE(named.use_karras_sigmas);
  EXPECT_THAT(ParseSchedulerConfig(kFile, {.name = "euler_simple", .use_karras_sigmas = true}),
              StatusIs(kRefused, HasSubstr("use_karras_sigmas")));
  EXPECT_THAT(ParseSchedulerConfig(kFile, {.name = "euler_simple", .use_karras_sigmas = false}),
              IsOk());
}

TEST(SchedulerNamesTest, AClassSaysNothingOfTheSettingsThatANameMakes) {
  const std::string file = R"({"_class_name": "UniPCMultistepScheduler", "solver_type": "bh1"})";
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig by_class,
                       ParseSchedulerConfig(file, {.name = "UniPCMultistepScheduler"}));
  EXPECT_EQ(by_class.solver_type, SolverType::kBh1);
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig by_name,
                       ParseSchedulerConfig(file, {.name = "unipc"}));
  EXPECT_EQ(by_name.solver_type, SolverType::kMidpoint);
  ASSERT_OK_AND_ASSIGN(const SchedulerConfig third,
                       ParseSchedulerConfig(file, {.name = "dpmpp_3m"}));
  EXPECT_EQ(third.solver_order, 3);
  EXPECT_EQ(third.name(), "dpmpp_3m");
}

TEST(SchedulerNamesTest, ASchedulerWithAGridOfItsOwnTakesNoOther) {
  for (const char* name : {"ddim karras", "pndm_simple", "edm_euler_karras"}) {
    EXPECT_THAT(CheckSchedulerName(name), StatusIs(kRefused, HasSubstr("a grid of its own")));
  }
  EXPECT_OK(CheckSchedulerName("DDIM Automatic"));
}

TEST(SchedulerNamesTest, AnUnknownNameIsAnsweredWithTheNearestOnes) {
  const std::pair<const char*, const char*> names[] = {
      {"dpmpp2m", "did you mean dpmpp_2m"},
      {"DPM++2M Karras", "did you mean dpmpp_2m_karras"},
      {"eular", "did you mean euler"},
      {"dpmpp_2m_sed", "did you mean dpmpp_2m_sde"},
      {"EulerDiscreteSchedular", "did you mean euler"}};
  for (const auto& [given, suggestion] : names) {
    EXPECT_THAT(NameOf(given), AllOf(HasSubstr("unknown scheduler"), HasSubstr(suggestion),
                                     HasSubstr("supported are euler, euler_a")))
        << given;
  }
  EXPECT_THAT(NameOf("a completely different thing"), Not(HasSubstr("did you mean")));
}

TEST(SchedulerNamesTest, KnownNamesThatAreNotSupportedSayWhy) {
  const std::pair<const char*, const char*> names[] = {
      {"DPM adaptive", "depend on the latents"},
      {"dpm_adaptive karras", "depend on the latents"},
      {"k_dpm_ad", "depend on the latents"},
      {"euler_cfg_pp", "CFG++"},
      {"DDIM CFG++", "CFG++"},
      {"Restart", "does not have it"},
      {"IPNDMScheduler", "ipndm is its method"},
      {"FlowMatchEulerDiscreteScheduler", "flow matching"},
      {"CosineDPMSolverMultistepScheduler", "sound"},
      {"DPM++ 2M Align Your Steps GITS", "no such table"}};
  for (const auto& [given, why] : names) {
    EXPECT_THAT(NameOf(given), AllOf(HasSubstr("there is no scheduler"), HasSubstr(why),
                                     Not(HasSubstr("did you mean"))))
        << given;
  }
}

TEST(SchedulerNamesTest, LongAndStrangeNamesAreOnlyUnknown) {
  for (const std::string& name :
       {std::string(100'000, '_'), std::string(5'000, 'x'), std::string("\xff\xfe"),
        std::string("_"), std::string("euler__"), std::string("karras"), std::string("_karras")}) {
    const absl::Status status = CheckSchedulerName(name);
    if (name == "euler__") continue;  // a name with nothing behind it
    EXPECT_THAT(status, StatusIs(kRefused, HasSubstr("unknown scheduler")));
    EXPECT_LT(status.message().size(), 2000u);
  }
}

TEST(SchedulerNamesTest, EveryClassIsAmongTheNamesOnce) {
  std::multiset<std::string> all;
  for (const SchedulerNames& names : NamesOfSchedulers()) {
    all.insert(names.aliases.begin(), names.aliases.end());
  }
  for (const std::string& name : SupportedSchedulerClasses())
    EXPECT_EQ(all.count(name), 1u) << name;
  for (const SchedulerNames& names : NamesOfSchedulers()) {
    const bool own = names.name == "ddim" || names.name == "pndm" || names.name == "edm_euler" ||
                     names.name == "edm_dpmpp_2m" || names.name == "edm_dpmpp_2m_sde";
    EXPECT_EQ(names.grids.empty(), own) << names.name;
    if (own) continue;
    EXPECT_THAT(names.grids, Contains("karras"));
  }
}

}  // namespace
}  // namespace latentd::schedulers
