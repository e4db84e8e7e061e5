// A checkpoint that is edited, or replaced, under an engine that serves it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/base/errors/error_details.h"
#include "core/base/files/files.h"
#include "core/weights/checkpoint_file.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/support/in_place_edit.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/source_directory.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAreArray;

constexpr char kUnet[] = "/unet/diffusion_pytorch_model.safetensors";

// The same header, and the sign of every f16 turned.
std::string Negated(std::string file) {
  uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof(header));
  for (size_t i = sizeof(header) + header + 1; i < file.size(); i += 2) file[i] ^= '\x80';
  return file;
}

class CheckpointWatchTest : public ::testing::Test {
 protected:
  CheckpointWatchTest() {
    config_ = SmallConfig();
    std::filesystem::copy(config_.base, base_, std::filesystem::copy_options::recursive);
    config_.base = base_;
    config_.cache_dir = directory_.File("cache");
    config_.warn = [this](absl::string_view text) {
      absl::MutexLock lock(&mutex_);
      warnings_.emplace_back(text);
    };
  }

  // Edits any file: the same length, and other content.
  void EditText(const std::string& name) {
    std::string text = *ReadFile(base_ + name, size_t{1} << 20);
    text.back() = text.back() == ' ' ? '\n' : ' ';
    testing::EditInPlace(base_ + name, text);
  }
  // As mv does.
  void Replace(const std::string& name, const std::string& content) {
    testing::WriteFile(base_ + name + ".new", content);
    std::filesystem::rename(base_ + name + ".new", base_ + name);
  }

  void Edit() { testing::EditInPlace(unet_, Negated(*ReadFile(unet_, size_t{1} << 30))); }

  std::vector<std::string> Warnings() {
    absl::MutexLock lock(&mutex_);
    return warnings_;
  }
  void WaitForWarning() {
    absl::MutexLock lock(&mutex_);
    const auto warned = [this]()
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !warnings_.empty(); };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&warned), testing::kLongestWait));
  }
  void NoteStates(Engine& engine) {
    engine.OnStatusChange([this](const ServerStatus& status) {
      absl::MutexLock lock(&mutex_);
      degraded_ = degraded_ || status.state == State::kDegraded;
    });
  }
  void WaitUntilDegraded() {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&degraded_), testing::kLongestWait));
  }

  testing::TemporaryDirectory directory_;
  const std::string base_ = directory_.File("base");
  const std::string unet_ = base_ + kUnet;
  Config config_;
  absl::Mutex mutex_;
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(mutex_);
  bool degraded_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST_F(CheckpointWatchTest, AnEditIsSaidOnceAndNothingMoreIsLoaded) {
  {
    ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(config_, SystemClock()));
    ASSERT_OK(engine->Load());
    const std::string before = Only<Image>(RunOn(*engine, SmallSpec())).at(0).bytes;
    EXPECT_EQ(MetricOf(*engine, metrics::kCheckpointChangedFiles), 0);
    Edit();
    engine->CheckFiles();
    WaitForWarning();
    std::map<std::string, std::string> failures;
    const auto note = [&](const WarmProgress& progress) {
      if (!progress.entry.status.ok()) {
        failures[progress.entry.component] = GetReason(progress.entry.status);
      }
      return true;
    };
    ASSERT_OK(engine->graphs().Warm({.buckets = {{72, 64}}}, /*dry_run=*/false, note));
    EXPECT_THAT(failures, ElementsAre(Pair("unet", weights::kCheckpointChanged)));
    EXPECT_EQ(engine->state(), State::kDegraded);
    EXPECT_THAT(engine->status().reason, HasSubstr(unet_ + " was changed while it is in use"));
    EXPECT_EQ(MetricOf(*engine, metrics::kCheckpointChangedFiles, "edited"), 1);
    EXPECT_EQ(MetricOf(*engine, metrics::kCheckpointChangedFiles, "replaced"), 0);
    EXPECT_EQ(Only<Image>(RunOn(*engine, SmallSpec())).at(0).bytes, before);
    engine->CheckFiles();
  }
  EXPECT_THAT(Warnings(), ElementsAre(HasSubstr(unet_ + " was changed while it is in use")));
}

TEST_F(CheckpointWatchTest, AServerThatDoesNothingElseBecomesDegraded) {
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(config_, SystemClock()));
  NoteStates(*engine);
  ASSERT_OK(engine->Load());
  EXPECT_EQ(engine->state(), State::kReady);
  Edit();
  engine->CheckFiles();
  WaitUntilDegraded();
  engine->RefreshMetrics();
  EXPECT_EQ(engine->state(), State::kDegraded);
}

TEST_F(CheckpointWatchTest, AReplacedFileIsSaidAndServedAsItWasOpened) {
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(config_, SystemClock()));
  ASSERT_OK(engine->Load());
  testing::WriteFile(unet_ + ".new", Negated(*ReadFile(unet_, size_t{1} << 30)));
  std::filesystem::rename(unet_ + ".new", unet_);
  engine->CheckFiles();
  WaitForWarning();
  EXPECT_THAT(Warnings(), ElementsAre(HasSubstr(unet_ + " was replaced or removed")));
  EXPECT_EQ(MetricOf(*engine, metrics::kCheckpointChangedFiles, "replaced"), 1);
  ASSERT_OK(engine->graphs().Warm({.buckets = {{72, 64}}}, /*dry_run=*/false,
                                  [](const WarmProgress& progress) {
                                    EXPECT_OK(progress.entry.status);
                                    return true;
                                  }));
  EXPECT_EQ(engine->state(), State::kReady);
  EXPECT_EQ(MetricOf(*engine, metrics::kCheckpointChangedFiles, "edited"), 0);
}

// Every file that is read beside tensors.
constexpr const char* kRead[] = {"/model_index.json",
                                 "/scheduler/scheduler_config.json",
                                 "/text_encoder/config.json",
                                 "/text_encoder_2/config.json",
                                 "/tokenizer/merges.txt",
                                 "/tokenizer/special_tokens_map.json",
                                 "/tokenizer/tokenizer_config.json",
                                 "/tokenizer/vocab.json",
                                 "/tokenizer_2/tokenizer.json",
                                 "/unet/config.json",
                                 "/vae/config.json"};

TEST_F(CheckpointWatchTest, AnEditOfEachFileThatWasReadIsSaid) {
  std::filesystem::copy(testing::SourcePath("tests/core/tokenizer/saved/tokenizer_2.json"),
                        base_ + "/tokenizer_2/tokenizer.json");
  std::vector<std::string> expected;
  {
    ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(config_, SystemClock()));
    NoteStates(*engine);
    ASSERT_OK(engine->Load());
    const std::string before = Only<Image>(RunOn(*engine, SmallSpec())).at(0).bytes;
    for (const char* name : kRead) {
      EditText(name);
      expected.push_back(base_ + name + " was changed while it is in use; what was loaded");
    }
    engine->CheckFiles();
    WaitUntilDegraded();
    EXPECT_EQ(Only<Image>(RunOn(*engine, SmallSpec())).at(0).bytes, before);
  }  // waits until all files have been looked at
  std::vector<::testing::Matcher<std::string>> words(expected.begin(), expected.end());
  for (size_t i = 0; i < words.size(); ++i) words[i] = HasSubstr(expected[i]);
  EXPECT_THAT(Warnings(), UnorderedElementsAreArray(words));
}

TEST_F(CheckpointWatchTest, AReplacedFileThatWasReadIsSaidUnlessItIsTheSame) {
  {
    ASSERT_OK_AND_ASSIGN(const auto engine, Engine::Create(config_, SystemClock()));
    ASSERT_OK(engine->Load());
    for (const std::string name : kRead) {
      if (!std::filesystem::exists(base_ + name)) continue;
      Replace(name, *ReadFile(base_ + name, size_t{1} << 20));
    }
    Replace("/vae/config.json", "{}");
    engine->CheckFiles();
    WaitForWarning();
    EXPECT_EQ(MetricOf(*engine, metrics::kCheckpointChangedFiles, "replaced"), 1);
    EXPECT_EQ(MetricOf(*engine, metrics::kCheckpointChangedFiles, "edited"), 0);
    EXPECT_EQ(engine->state(), State::kReady);
  }
  EXPECT_THAT(Warnings(), ElementsAre(HasSubstr(base_ + "/vae/config.json was replaced")));
}

TEST_F(CheckpointWatchTest, LoadFailsIfItIsEditedMeanwhile) {
  std::atomic<bool> edited = false;
  const auto edit_once = [&](const graph::Graph&) {
    if (!edited.exchange(true)) Edit();
    return absl::OkStatus();
  };
  LocalEngine engine(config_, WatchedBackend::Create(edit_once), SystemClock());
  engine.CheckFiles();  // there are none yet
  const absl::Status loaded = engine.Load();
  EXPECT_EQ(GetReason(loaded), weights::kCheckpointChanged) << loaded;
  EXPECT_EQ(engine.state(), State::kFailed);
  EXPECT_THAT(engine.status().reason, HasSubstr(unet_));
}

}  // namespace
}  // namespace latentd::engine
