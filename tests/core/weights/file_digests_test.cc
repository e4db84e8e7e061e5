#include "core/weights/file_digests.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/clock.h"
#include "core/weights/containers/checkpoint.h"
#include "core/weights/containers/safetensors.h"
#include "tests/support/fake_clock.h"
#include "tests/support/in_place_edit.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/source_directory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::weights {
namespace {

using ::testing::ElementsAre;
using testing::FilledTensor;
using ::testing::HasSubstr;
using ::testing::Optional;

class FileDigestsTest : public ::testing::Test {
 protected:
  FileDigestsTest() {
    Write(path_, 1);
    clock_.Advance(absl::Now() + absl::Hours(1) - clock_.Wall());
  }

  static std::vector<testing::TensorToWrite> Tensors(float first) {
    return {FilledTensor("a", {4}, first),
            FilledTensor("b", {4}, 2),
            {"counter", "I32", {1}, std::string(4, '\0')}};
  }
  static void Write(const std::string& path, float first) {
    testing::WriteSafetensors(path, Tensors(first));
  }

  DigestArchive Archive() {
    return {[this](absl::string_view key) -> std::optional<std::string> {
              const auto entry = kept_.find(std::string(key));
              if (entry == kept_.end()) return std::nullopt;
              ++found_;
              return entry->second;
            },
            [this](absl::string_view key, absl::string_view digests) {
              kept_[std::string(key)] = std::string(digests);
            },
            &clock_};
  }

  Digest DigestFromFile(const std::string& name) {
    const absl::StatusOr<TensorMap> tensors = ReadSafetensors(path_, Archive());
    EXPECT_OK(tensors);
    return tensors->at(name).digest->Get();
  }
  Digest DigestAnew(const std::string& name) {
    return ReadSafetensors(path_)->at(name).digest->Get();
  }

  // Another time than the file has, as a later change would give it.
  void Touch() {
    const timespec times[2] = {{0, UTIME_OMIT}, {1'000'000, ++touches_}};
    ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  }

  absl::Time ChangeTime() const {
    struct stat info;
    EXPECT_EQ(stat(path_.c_str(), &info), 0);
    return absl::TimeFromTimespec(info.st_ctim);
  }

  testing::FakeClock clock_;  // an hour after the file was written
  testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("model.safetensors");
  std::map<std::string, std::string> kept_;
  int found_ = 0, touches_ = 0;
};

TEST_F(FileDigestsTest, KeepsOneEntryForAllTensorsOfAFile) {
  EXPECT_EQ(DigestFromFile("a"), DigestAnew("a"));
  ASSERT_EQ(kept_.size(), 1u);
  EXPECT_THAT(kept_.begin()->first, HasSubstr(path_));
  EXPECT_EQ(kept_.begin()->second.size(), 2 * 16u);
  EXPECT_EQ(DigestFromFile("b"), DigestAnew("b"));
  EXPECT_EQ(found_, 1);
}

TEST_F(FileDigestsTest, BelievesTheArchiveWithoutReadingTheFile) {
  const Digest a = DigestFromFile("a"), b = DigestFromFile("b");
  std::string& bytes = kept_.begin()->second;
  bytes = bytes.substr(16) + bytes.substr(0, 16);
  EXPECT_EQ(DigestFromFile("a"), b);
  EXPECT_EQ(DigestFromFile("b"), a);
}

TEST_F(FileDigestsTest, ReadsAFileAnewThatWasWrittenTo) {
  DigestFromFile("a");
  Write(path_, 5);
  Touch();
  EXPECT_EQ(DigestFromFile("a"), DigestAnew("a"));
  EXPECT_EQ(found_, 0);
  EXPECT_EQ(kept_.size(), 2u);
}

TEST_F(FileDigestsTest, ReadsAFileAnewThatWasReplacedByOneOfTheSameSizeAndTime) {
  Touch();
  DigestFromFile("a");
  struct stat before;
  ASSERT_EQ(stat(path_.c_str(), &before), 0);
  Write(directory_.File("other"), 5);
  std::filesystem::rename(directory_.File("other"), path_);
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  EXPECT_EQ(DigestFromFile("a"), DigestAnew("a"));
  EXPECT_EQ(found_, 0);
}

TEST_F(FileDigestsTest, ReadsAFileAnewThatWasEditedInPlaceWithItsTimeKept) {
  const Digest before = DigestFromFile("a");
  testing::EditInPlace(path_, testing::SafetensorsBytes(Tensors(5)));
  EXPECT_NE(DigestFromFile("a"), before);
  EXPECT_EQ(DigestFromFile("a"), DigestAnew("a"));
  EXPECT_EQ(kept_.size(), 2u);
}

// The next write might leave the change time as it is.
TEST_F(FileDigestsTest, KeepsNothingOfAFileThatWasJustWritten) {
  clock_.Advance(ChangeTime() + kSettled - absl::Nanoseconds(1) - clock_.Wall());
  EXPECT_EQ(DigestFromFile("a"), DigestAnew("a"));
  EXPECT_TRUE(kept_.empty());
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(DigestFromFile("a"), DigestAnew("a"));
  EXPECT_EQ(kept_.size(), 1u);
}

TEST_F(FileDigestsTest, AllOfAnIdentityIsInTheKey) {
  const FileIdentity identity{.device = 1,
                              .inode = 2,
                              .bytes = 3,
                              .modified = absl::FromUnixNanos(4),
                              .changed = absl::FromUnixNanos(5)};
  std::vector<FileIdentity> others(5, identity);
  others[0].device = others[1].inode = 9;
  others[2].bytes = 9;
  others[3].modified = others[4].changed = absl::FromUnixNanos(9);
  KeepDigests(Archive(), path_, identity, std::vector<Digest>{{1, 2}});
  for (const FileIdentity& other : others) {
    EXPECT_NE(other, identity);
    EXPECT_EQ(FindDigests(Archive(), path_, other, 1), std::nullopt) << other.ToText();
  }
  EXPECT_EQ(FindDigests(Archive(), directory_.File("other"), identity, 1), std::nullopt);
  EXPECT_THAT(FindDigests(Archive(), path_, identity, 1), Optional(ElementsAre(Digest{1, 2})));
}

TEST_F(FileDigestsTest, MakesAnewWhatIsKeptForAnotherNumberOfTensors) {
  const Digest a = DigestFromFile("a");
  for (const size_t size : {0, 16, 31, 33, 48}) {
    kept_.begin()->second = std::string(size, 'x');
    EXPECT_EQ(DigestFromFile("a"), a);
    EXPECT_EQ(kept_.begin()->second.size(), 32u);
  }
}

TEST_F(FileDigestsTest, KeepsNothingOfAFileThatChangedSinceItWasOpened) {
  ASSERT_OK_AND_ASSIGN(const TensorMap tensors, ReadSafetensors(path_, Archive()));
  Touch();
  EXPECT_EQ(tensors.at("a").digest->Get(), DigestAnew("a"));
  EXPECT_TRUE(kept_.empty());
}

TEST_F(FileDigestsTest, AreThoseOfACheckpointsFilesToo) {
  const std::string base = ::latentd::testing::SourcePath("deploy/demo-model/base");
  ASSERT_OK_AND_ASSIGN(const Checkpoint plain, Checkpoint::Open({base}));
  for (int start = 0; start < 2; ++start) {
    ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open({base}, Archive()));
    for (const std::string component : {"vae", "text_encoder"}) {
      ASSERT_OK_AND_ASSIGN(const SourceMap sources, checkpoint.LoadWeights(component));
      ASSERT_OK_AND_ASSIGN(const SourceMap anew, plain.LoadWeights(component));
      for (const auto& [name, source] : sources) {
        EXPECT_EQ(source.Content(), anew.at(name).Content()) << name;
      }
    }
  }
  EXPECT_EQ(kept_.size(), 2u);
  EXPECT_EQ(found_, 2);
}

}  // namespace
}  // namespace latentd::weights
