// The thread that looks at the cache directory, its times, and the use of its findings.
#include "core/engine/models/cache_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "core/base/errors/error_details.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temporary_directory.h"

namespace latentd::engine {
namespace {

using ::testing::SizeIs;

double Seconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

class CacheWatchTest : public ::testing::Test {
 protected:
  // `look` is told how many there were with this one.
  void Watch(std::function<void(int)> look) {
    watch_ = std::make_unique<CacheWatch>(CacheWatch::Parts{
        .look = [this, look = std::move(look)] { look(Count()); },
        .changed = [this] { ++changes_; },
        .clock = clock_,
        .registry = registry_,
    });
  }
  bool WaitForLooks(int looks) {
    absl::MutexLock lock(&mutex_);
    const auto reached = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return looks_ >= looks; };
    return mutex_.AwaitWithTimeout(absl::Condition(&reached), testing::kLongestWait);
  }
  // Once all that was asked for has been done.
  int LooksInTheEnd() {
    watch_.reset();
    absl::MutexLock lock(&mutex_);
    return looks_;
  }
  double LastLook() { return MetricOf(registry_, metrics::kGraphCacheLastLook); }

  testing::FakeClock clock_;
  metrics::Registry registry_;
  Gate gate_;
  std::atomic<int> changes_ = 0;

 private:
  int Count() {
    absl::MutexLock lock(&mutex_);
    return ++looks_;
  }

  absl::Mutex mutex_;
  int looks_ ABSL_GUARDED_BY(mutex_) = 0;

 protected:
  std::unique_ptr<CacheWatch> watch_;  // last: its thread uses the others
};

TEST_F(CacheWatchTest, LooksAtOnceAndThenWhenItIsDue) {
  Watch([](int) {});
  for (int looks = 1; looks < 5; ++looks) {
    watch_->LookIfDue();
    EXPECT_TRUE(WaitForLooks(looks));
    clock_.Advance(CacheWatch::kPeriod);
  }
  EXPECT_EQ(LooksInTheEnd(), 4);
  EXPECT_EQ(changes_, 4);
}

TEST_F(CacheWatchTest, LooksNoSoonerThanItIsDue) {
  Watch([](int) {});
  watch_->LookIfDue();
  EXPECT_TRUE(WaitForLooks(1));
  clock_.Advance(CacheWatch::kPeriod - absl::Seconds(1));
  watch_->LookIfDue();
  EXPECT_EQ(LooksInTheEnd(), 1);
}

TEST_F(CacheWatchTest, LooksBeforeItIsDueForWhoAsks) {
  Watch([this](int) { gate_.Pass(); });
  gate_.Close();
  watch_->LookIfDue();
  gate_.WaitForSomebody();
  watch_->LookSoon();  // the other one may have missed what this one is about
  gate_.Open();
  EXPECT_EQ(LooksInTheEnd(), 2);
}

TEST_F(CacheWatchTest, WhoAsksDoesNotWaitForADiskThatHangs) {
  Watch([this](int) { gate_.Pass(); });
  gate_.Close();
  watch_->LookIfDue();
  gate_.WaitForSomebody();
  for (int more = 0; more < 100; ++more) {
    clock_.Advance(CacheWatch::kPeriod);
    watch_->LookIfDue();
    watch_->LookSoon();
  }
  EXPECT_EQ(LastLook(), 0);
  EXPECT_EQ(changes_, 0);
  gate_.Open();
  EXPECT_EQ(LooksInTheEnd(), 2);  // one was enough for all of them
}

TEST_F(CacheWatchTest, ShowsWhenTheLastLookBegan) {
  const absl::Time begun = clock_.Wall();
  Watch([this](int) { clock_.Advance(absl::Hours(1)); });
  EXPECT_EQ(LastLook(), 0);
  watch_->LookIfDue();
  EXPECT_EQ(LooksInTheEnd(), 1);
  EXPECT_EQ(LastLook(), Seconds(begun));
}

TEST_F(CacheWatchTest, ALookThatThereIsNoMemoryForIsNone) {
  Watch([this](int looks) {
    if (looks == 1) throw std::bad_alloc();
    gate_.Pass();
  });
  gate_.Close();
  watch_->LookSoon();
  EXPECT_TRUE(WaitForLooks(1));
  watch_->LookSoon();
  gate_.WaitForSomebody();
  EXPECT_EQ(LastLook(), 0);
  EXPECT_EQ(changes_, 0);
  gate_.Open();
  EXPECT_EQ(LooksInTheEnd(), 2);
  EXPECT_EQ(changes_, 1);
  EXPECT_EQ(LastLook(), Seconds(clock_.Wall()));
}

// Notices accesses to a directory and its files, reads and changes.
class Accesses {
 public:
  explicit Accesses(const std::string& directory) : file_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    EXPECT_GE(inotify_add_watch(file_, directory.c_str(), IN_ALL_EVENTS), 0);
  }
  ~Accesses() { close(file_); }

  // Since the last time.
  bool Any() {
    alignas(inotify_event) char events[4096];
    bool any = false;
    while (read(file_, events, sizeof(events)) > 0) any = true;
    return any;
  }

 private:
  const int file_;
};

// An engine whose graphs are in the cache directory and not in memory.
class EngineCacheTest : public ::testing::Test {
 protected:
  EngineCacheTest() {
    config_.cache_dir = directory_.File("cache");
    engine_ = *Engine::Create(config_, clock_);
    engine_->OnStatusChange([this](const ServerStatus& status) {
      absl::MutexLock lock(&mutex_);
      state_ = status.state;
    });
    EXPECT_OK(engine_->Load());
    EXPECT_OK(engine_->graphs().Save({.all = true}));
    EXPECT_OK(engine_->graphs().Evict({.all = true}, CacheTier::kMemory, /*force=*/false));
  }

  bool WaitFor(State state) {
    absl::MutexLock lock(&mutex_);
    const auto reached = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return state_ == state; };
    return mutex_.AwaitWithTimeout(absl::Condition(&reached), testing::kLongestWait);
  }
  // As a server that ticks, when a look is due.
  void Tick() {
    clock_.Advance(CacheWatch::kPeriod);
    engine_->CheckFiles();
  }
  double Scrape(const char* state) {
    engine_->RefreshMetrics();
    return MetricOf(*engine_, metrics::kGraphCacheEntries, state);
  }
  double LastLook() { return MetricOf(*engine_, metrics::kGraphCacheLastLook); }

  // As another process may do to a cache that is shared.
  void TakeAwayOne() {
    taken_ = std::filesystem::directory_iterator(artifacts_)->path();
    std::filesystem::rename(taken_, directory_.File("taken"));
  }
  void PutBack() { std::filesystem::rename(directory_.File("taken"), taken_); }

  testing::TemporaryDirectory directory_;
  const std::string artifacts_ = directory_.File("cache/artifacts");
  std::filesystem::path taken_;
  testing::FakeClock clock_;
  Config config_ = SmallConfig();
  absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kLoading;
  std::unique_ptr<Engine> engine_;  // last: tells the others of changes
};

TEST_F(EngineCacheTest, AScrapeAsksNoDiskAndShowsWhatTheLastLookFound) {
  const double all = Scrape("compiled");
  ASSERT_GT(all, 1);
  TakeAwayOne();
  Accesses accesses(artifacts_);
  EXPECT_EQ(Scrape("compiled"), all);
  EXPECT_EQ(Scrape("cold"), 0);
  EXPECT_FALSE(accesses.Any());
  EXPECT_EQ(engine_->state(), State::kReady);
  EXPECT_EQ(LastLook(), 0);

  Tick();
  EXPECT_TRUE(WaitFor(State::kDegraded));
  EXPECT_TRUE(accesses.Any());
  EXPECT_EQ(Scrape("compiled"), all - 1);
  EXPECT_EQ(Scrape("cold"), 1);
  EXPECT_EQ(LastLook(), Seconds(clock_.Wall()));
  EXPECT_FALSE(accesses.Any());

  PutBack();
  Tick();
  EXPECT_TRUE(WaitFor(State::kReady));
  EXPECT_EQ(Scrape("compiled"), all);
}

// As while the disk does not answer.
TEST_F(EngineCacheTest, ATickShowsWhatIsKnownBeforeALookIsDue) {
  TakeAwayOne();
  Tick();
  ASSERT_TRUE(WaitFor(State::kDegraded));
  PutBack();
  ASSERT_OK(engine_->graphs().List({.all = true}));  // finds it
  EXPECT_EQ(engine_->state(), State::kDegraded);
  engine_->CheckFiles();
  EXPECT_EQ(engine_->state(), State::kReady);
}

// Known losses are refused at once, and unknown ones are found by the preparing thread.
TEST_F(EngineCacheTest, AScrapeChangesNothingForRequests) {
  std::filesystem::remove_all(config_.cache_dir);
  engine_->RefreshMetrics();
  EXPECT_OK(SubmitTo(*engine_, SmallSpec()));
  EXPECT_TRUE(WaitFor(State::kDegraded));
  EXPECT_EQ(GetReason(SubmitTo(*engine_, SmallSpec())), "BUCKET_COLD");
}

TEST_F(EngineCacheTest, ARefusalLooksForWhatAnotherProcessCompiled) {
  ASSERT_OK(engine_->graphs().Evict({.all = true}, CacheTier::kBoth, /*force=*/false));
  ASSERT_TRUE(WaitFor(State::kDegraded));
  const auto other = Engine::Create(config_, clock_).value();
  ASSERT_OK(other->Load());  // compiles it anew
  EXPECT_EQ(GetReason(SubmitTo(*engine_, SmallSpec())), "BUCKET_COLD");
  EXPECT_TRUE(WaitFor(State::kReady));
  EXPECT_THAT(Only<Completed>(RunOn(*engine_, SmallSpec())), SizeIs(1));
}

TEST_F(EngineCacheTest, ATickWithoutACacheLooksAtNone) {
  Config config = config_;
  config.cache_dir.clear();
  const auto engine = Engine::Create(config, clock_).value();
  ASSERT_OK(engine->Load());
  engine->CheckFiles();
  engine->CheckFiles();
  EXPECT_EQ(engine->state(), State::kReady);
  EXPECT_EQ(MetricOf(*engine, metrics::kGraphCacheLastLook), 0);
}

}  // namespace
}  // namespace latentd::engine
