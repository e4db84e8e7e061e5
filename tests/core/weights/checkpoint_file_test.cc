#include "core/weights/checkpoint_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/weights/containers/safetensors.h"
#include "tests/support/in_place_edit.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_directory.h"

namespace latentd::weights {
namespace {

using device::Buffer;
using testing::EditInPlace;
using testing::FilledTensor;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::UntilItShows;

std::string FileOf(float value) {
  return testing::SafetensorsBytes({FilledTensor("a", {64}, value), FilledTensor("b", {64}, 2)});
}

class CheckpointFileTest : public ::testing::Test {
 protected:
  CheckpointFileTest() {
    testing::WriteFile(path_, FileOf(1));
    tensors_ = *ReadSafetensors(path_);
  }

  const CheckpointFile& file() const { return *tensors_.at("a").origin; }
  void MakeDigests() { digest_ = tensors_.at("a").digest->Get(); }

  void ExpectChanged() {
    const absl::Status status = file().CheckUnchanged();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(path_)));
    EXPECT_THAT(status.message(), HasSubstr("restart the server"));
    EXPECT_EQ(GetReason(status), kCheckpointChanged);
  }

  testing::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("model.safetensors");
  TensorMap tensors_;
  Digest digest_;
};

TEST_F(CheckpointFileTest, IsOneForAllTensors) {
  EXPECT_EQ(tensors_.at("a").origin, tensors_.at("b").origin);
  EXPECT_EQ(file().path(), path_);
  EXPECT_OK(file().CheckUnchanged());
  MakeDigests();
  EXPECT_OK(CheckUnchanged(tensors_.at("b")));
}

// So large that several threads read it, where there are several.
TEST_F(CheckpointFileTest, ALargeFilesDigestsAreThoseOfItsTensors) {
  std::vector<testing::TensorToWrite> many;
  for (int i = 0; i < 40; ++i) {
    many.push_back(FilledTensor(absl::StrCat("t", i), {(1 << 18) + i}, static_cast<float>(i)));
  }
  const std::string path = directory_.File("large.safetensors");
  testing::WriteFile(path, testing::SafetensorsBytes(many));
  const TensorMap tensors = *ReadSafetensors(path);
  ASSERT_EQ(tensors.size(), many.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(tensor.digest->Get(), ContentDigest(tensor.data).Get()) << name;
  }
}

TEST_F(CheckpointFileTest, SeesAnEditWithItsTimeKeptForEver) {
  MakeDigests();
  EditInPlace(path_, FileOf(5));
  ExpectChanged();
  EditInPlace(path_, FileOf(1));
  ExpectChanged();
  EXPECT_EQ(tensors_.at("a").digest->Get(), digest_);
}

TEST_F(CheckpointFileTest, SeesAnEditBeforeItsDigestsAreKnown) {
  EditInPlace(path_, FileOf(5));
  MakeDigests();
  ExpectChanged();
}

TEST_F(CheckpointFileTest, DoesNotReadWhatWasCutOff) {
  MakeDigests();
  ASSERT_EQ(truncate(path_.c_str(), 16), 0);
  ExpectChanged();
}

TEST_F(CheckpointFileTest, OtherModesTimesAndLinksChangeNothing) {
  MakeDigests();
  UntilItShows(path_, [&] { ASSERT_EQ(chmod(path_.c_str(), 0600), 0); });
  EXPECT_OK(file().CheckUnchanged());
  UntilItShows(path_, [&] {
    const timespec times[2] = {{0, UTIME_OMIT}, {1, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  });
  std::filesystem::create_hard_link(path_, directory_.File("link"));
  EXPECT_OK(file().CheckUnchanged());
  EditInPlace(path_, FileOf(5));
  ExpectChanged();
}

TEST_F(CheckpointFileTest, AReplacedFileIsTheOneThatWasOpened) {
  MakeDigests();
  EXPECT_FALSE(file().IsReplaced());
  testing::WriteFile(directory_.File("other"), FileOf(5));
  std::filesystem::rename(directory_.File("other"), path_);
  EXPECT_TRUE(file().IsReplaced());
  EXPECT_OK(file().CheckUnchanged());
  EXPECT_EQ(tensors_.at("a").data.as<float>()[0], 1);
  std::filesystem::remove(path_);
  EXPECT_TRUE(file().IsReplaced());
  EXPECT_OK(file().CheckUnchanged());
}

// Such as memory of a file whose times do not tell of all writes.
TEST_F(CheckpointFileTest, IsChangedOnceSomethingElseWasReadThanADigestNames) {
  const StoredTensor& tensor = tensors_.at("a");
  EXPECT_OK(CheckContent(tensor, tensor.data));
  EXPECT_FALSE(CheckContent(tensor, tensors_.at("b").data).ok());
  ExpectChanged();
}

TEST_F(CheckpointFileTest, ATensorInMemoryIsInNoFile) {
  const StoredTensor tensor = {Buffer::Allocate(device::DType::kF32, {4}), "memory"};
  EXPECT_OK(CheckUnchanged(tensor));
  EXPECT_OK(CheckContent(tensor, tensors_.at("b").data));
}

}  // namespace
}  // namespace latentd::weights
