#include "core/compiler/finding_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "core/metrics/registry.h"
#include "tests/support/fake_clock.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::compiler {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using testing::StatusIs;

BuildKey Build(const std::string& fingerprint) {
  return {.options = "skip=", .sources = "s1", .backend = "cuda", .fingerprint = fingerprint};
}

class FindingFilesTest : public ::testing::Test {
 protected:
  FindingFiles FilesOf(const std::string& fingerprint) { return {*disk_, Build(fingerprint)}; }

  testing::TemporaryDirectory directory_;
  testing::FakeClock clock_;
  metrics::Registry registry_;
  const std::unique_ptr<cache::DiskCache> disk_ =
      cache::DiskCache::Open({.directory = directory_.path()}, clock_, registry_).value();
};

TEST_F(FindingFilesTest, ReadsWhatWasWritten) {
  const std::string choice("\0algorithm\n", 11);
  ASSERT_OK(FilesOf("gpu 1").Write("product 1x2x3", choice));
  EXPECT_EQ(FilesOf("gpu 1").Read("product 1x2x3").value(), choice);
  EXPECT_THAT(FilesOf("gpu 1").Read("product 1x2"), StatusIs(absl::StatusCode::kNotFound, _));
}

TEST_F(FindingFilesTest, KeepsWhatIsWrittenLast) {
  ASSERT_OK(FilesOf("gpu 1").Write("product", "7"));
  ASSERT_OK(FilesOf("gpu 1").Write("product", "8"));
  EXPECT_EQ(FilesOf("gpu 1").Read("product").value(), "8");
}

TEST_F(FindingFilesTest, GivesNobodyWhatAnotherBuildOrMachineFound) {
  ASSERT_OK(FilesOf("gpu 1").Write("product", "7"));
  EXPECT_THAT(FilesOf("gpu 2").Read("product"), StatusIs(absl::StatusCode::kNotFound, _));
  BuildKey newer = Build("gpu 1");
  newer.sources = "s2";
  EXPECT_THAT(FindingFiles(*disk_, newer).Read("product"),
              StatusIs(absl::StatusCode::kNotFound, _));
}

TEST_F(FindingFilesTest, SaysWhyThereIsNone) {
  EXPECT_EQ(FilesOf("gpu 2").WhyNone(), std::nullopt);
  ASSERT_OK(FilesOf("gpu 1").Write("product", "7"));
  EXPECT_EQ(FilesOf("gpu 2").WhyNone(), "fingerprint gpu 1, wanted gpu 2");
  ASSERT_OK(FilesOf("gpu 2").Write("attention", "8"));
  EXPECT_EQ(FilesOf("gpu 2").WhyNone(), std::nullopt);
}

TEST_F(FindingFilesTest, SaysNothingOfKeysThatItDoesNotKnow) {
  for (const char* key : {"", "noise", "shape product\nnoise\n"}) {
    ASSERT_OK(disk_->Write(cache::Kind::kFinding, key, "7"));
  }
  EXPECT_EQ(FilesOf("gpu 1").WhyNone(), std::nullopt);
}

TEST_F(FindingFilesTest, SetsADamagedOneAside) {
  ASSERT_OK(FilesOf("gpu 1").Write("product", "7"));
  for (const auto& file : std::filesystem::directory_iterator(directory_.File("findings"))) {
    testing::WriteFile(file.path(), "noise");
  }
  EXPECT_THAT(FilesOf("gpu 1").Read("product"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is damaged")));
  EXPECT_THAT(FilesOf("gpu 1").Read("product"), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_EQ(registry_.GetCounter(metrics::kGraphCacheLoadFailures, {"corrupt"}).Value(), 1);
}

}  // namespace
}  // namespace latentd::compiler
