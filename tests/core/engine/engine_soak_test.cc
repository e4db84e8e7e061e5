// Thousands of requests of all kinds, from several threads, through an engine on a device that
// works later than it is told and computes nothing; some are cancelled, some lose their caller,
// some units fail. Afterwards everything has come to its end, and nothing is left or has grown.
//
// LATENTD_SOAK_REQUESTS=100000 says how many, and has it print what it finds by tenths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "tests/core/engine/loop_rig.h"
#include "tests/support/sanitized.h"
#include "tests/support/separate_device.h"

#ifdef LATENTD_SANITIZED
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace latentd::engine {
namespace {

using ::latentd::testing::FakeClock;
using ::latentd::testing::kLongestWait;
using ::latentd::testing::SeparateDevice;
using ::testing::IsEmpty;

// And of how many units one fails, on the device or where it is enqueued, or finds no memory: so
// that of so many requests some fail for certain.
#ifdef LATENTD_SANITIZED
constexpr int kRequests = 300;
constexpr int64_t kFails = 401, kIsRefused = 211, kFindsNoMemory = 101;
#else
constexpr int kRequests = 1500;
constexpr int64_t kFails = 2003, kIsRefused = 1009, kFindsNoMemory = 503;
#endif
constexpr int kTenths = 10;
constexpr int kCallers = 4, kOpenRequests = 5;  // requests of each caller
// Noise of the heap: caches of threads that come and go, callers and refusals that are remembered.
constexpr int64_t kNoise = int64_t{256} << 10;
constexpr char kInjected[] = "injected";

// How a caller leaves before its request has ended.
enum class Leaves : uint8_t { kNever, kInTheLoop, kMeanwhile, kForGood };

struct Order {
  GenerateSpec spec;
  Leaves leaves = Leaves::kNever;
  int after = 0;  // so many events; or so many further requests of the same caller
};

// The order of that number: the same for all callers and times.
Order OrderOf(int number, absl::Time now) {
  std::mt19937 random(static_cast<uint32_t>(number));
  const auto below = [&](int end) { return static_cast<int>(random() % end); };
  const auto one_of = [&](const auto& choices) {
    return choices[below(static_cast<int>(std::size(choices)))];
  };
  Order order;
  order.spec = SmallSpec(/*steps=*/1 << below(5));
  order.spec.request_id = absl::StrCat("soak-", number);
  // Some come once and never again.
  order.spec.caller = absl::StrCat("caller-", below(16) == 0 ? number : below(16));
  order.spec.priority = below(4) == 0 ? below(7) + kMinPriority : 0;
  if (below(10) == 0) order.spec.deadline = now + absl::Seconds(10 + below(200));
  pipeline::PictureSpec& picture = order.spec.picture;
  picture.seed = random();
  picture.width = 64 + 32 * below(2);
  picture.height = 64 + 32 * below(2);
  if (below(100) == 0) picture.width = 72;  // no bucket
  picture.guidance_scale = 1 + 4 * below(2);
  if (below(10) == 0) picture.guidance_interval = {.start = 0.25, .stop = 0.75};
  picture.num_images_per_prompt = one_of(std::array{1, 1, 1, 2, 4});
  picture.scheduler.name =
      one_of(std::array<std::string, 4>{"euler", "euler_ancestral", "dpmpp_2m", "ddim"});
  picture.batch_invariant = below(10) == 0;
  picture.output_latents = below(20) == 0;
  if (below(5) == 0) picture.previews_every = 1 + below(3);
  const int leaving = below(100);
  if (leaving < 7) order.leaves = one_of(std::array{Leaves::kInTheLoop, Leaves::kMeanwhile});
  if (leaving < 2) order.leaves = Leaves::kForGood;
  order.after = below(order.leaves == Leaves::kInTheLoop ? 8 : kOpenRequests);
  return order;
}

// How requests ended, by themselves and all together. Thread-safe.
class Ends {
 public:
  void Add(const Order& order, const absl::Status& end, int images) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ++codes_[absl::StatusCodeToString(end.code())];
    if (!IsExplained(order, end, images)) {
      wrong_.push_back(absl::StrCat(order.spec.request_id, " ended with ", images, " images and ",
                                    end.ToString()));
    }
  }
  void AddRefusal(const Order& order, const absl::Status& refusal) ABSL_LOCKS_EXCLUDED(mutex_) {
    const std::string reason = GetReason(refusal);
    absl::MutexLock lock(&mutex_);
    ++codes_[reason];
    if (reason == "QUEUE_FULL" || reason == "PREDICTED_OVERRUN" || reason == "NO_SUCH_BUCKET")
      return;
    wrong_.push_back(absl::StrCat(order.spec.request_id, " refused: ", refusal.ToString()));
  }
  void AddWrong(std::string wrong) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    wrong_.push_back(std::move(wrong));
  }
  std::map<std::string, int> codes() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return codes_;
  }
  std::vector<std::string> wrong() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return wrong_;
  }

 private:
  static bool IsExplained(const Order& order, const absl::Status& end, int images) {
    switch (end.code()) {
      case absl::StatusCode::kOk:
        return images == *order.spec.picture.num_images_per_prompt;
      case absl::StatusCode::kCancelled:
        return order.leaves != Leaves::kNever;
      case absl::StatusCode::kDeadlineExceeded:
        return order.spec.deadline != absl::InfiniteFuture();
      default:
        return absl::StrContains(end.message(), kInjected);
    }
  }

  mutable absl::Mutex mutex_;
  std::map<std::string, int> codes_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> wrong_ ABSL_GUARDED_BY(mutex_);
};

// A caller's end of one request. It keeps the pictures until it goes, as a client that has not read
// them.
class Reader : public EventSink {
 public:
  Reader(Engine& engine, Ends& ends, Order order)
      : engine_(engine), ends_(ends), order_(std::move(order)) {}
  ~Reader() override {
    if (accepted_ && !ended_) ends_.AddWrong(order_.spec.request_id + " never ended");
  }

  void Accepted(uint64_t handle) {
    handle_ = handle;
    accepted_ = true;
    if (order_.leaves == Leaves::kInTheLoop && events_ > order_.after) Leave();
  }
  void Leave() const { engine_.Cancel(handle_); }

  void OnEvent(Event event) override {
    if (ended_) ends_.AddWrong(order_.spec.request_id + " was told of something after its end");
    if (auto* image = std::get_if<Image>(&event)) images_.push_back(std::move(*image));
    if (const auto* failed = std::get_if<Failed>(&event)) End(failed->status);
    if (std::holds_alternative<Completed>(event)) End(absl::OkStatus());
    if (++events_ > order_.after && order_.leaves == Leaves::kInTheLoop && accepted_) Leave();
  }

  void WaitForEnd() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&told_), kLongestWait);
  }

 private:
  void End(const absl::Status& end) ABSL_LOCKS_EXCLUDED(mutex_) {
    ended_ = true;
    ends_.Add(order_, end, static_cast<int>(images_.size()));
    absl::MutexLock lock(&mutex_);
    told_ = true;
  }

  Engine& engine_;
  Ends& ends_;
  const Order order_;
  std::atomic<uint64_t> handle_ = 0;
  std::atomic<bool> accepted_ = false, ended_ = false;
  std::atomic<int> events_ = 0;
  std::vector<Image> images_;
  mutable absl::Mutex mutex_;
  bool told_ ABSL_GUARDED_BY(mutex_) = false;
};

// Values of one scrape.
class Counts {
 public:
  explicit Counts(const metrics::Registry& registry) {
    for (const prometheus::MetricFamily& family : registry.Collect()) {
      double& sum = sums_[family.name];
      for (const auto& series : family.metric) sum += series.counter.value + series.gauge.value;
    }
  }
  double Of(const metrics::Family& family) const { return sums_.at(family.name); }
  bool AddUp() const {
    return Of(metrics::kRequestsReceived) ==
           Of(metrics::kRequestsRejected) + Of(metrics::kRequestsInFlight) +
               Of(metrics::kRequestsFinished) + Of(metrics::kRequestsCancelled) +
               Of(metrics::kDeadlineMisses);
  }

 private:
  std::map<std::string, double> sums_;
};

class EngineSoakTest : public ::testing::Test {
 protected:
  EngineSoakTest() {
    Config config = SmallConfig();
    config.allow_cold_requests = false;
    config.buckets = {{64, 64}, {96, 64}, {64, 96}, {96, 96}};
    config.rows = {1, 2, 4};
    config.queue_capacity = 64;
    config.priorities.everyone = kMaxPriority;
    config.load_waits_for_shared_steps = true;
    on_run_.computes = false;
    on_run_.work = [this] { return RunUnit(); };
    engine_ =
        std::make_unique<LocalEngine>(config, std::make_unique<RunWatch>(on_run_, device_), clock_);
    EXPECT_OK(engine_->Load());
    allocations_ = device_.allocations();
    on_run_.refuse = [this] { return RefuseSome(); };
    fails_ = true;
  }

  absl::Status RunUnit() {
    clock_.Advance(absl::Seconds(1));
    const bool fails = fails_ && ++runs_ % kFails == 0;
    return fails ? absl::InternalError(absl::StrCat(kInjected, ": on the device"))
                 : absl::OkStatus();
  }
  absl::Status RefuseSome() {
    const int64_t run = ++enqueued_;
    if (run % kIsRefused == 0)
      return absl::InternalError(absl::StrCat(kInjected, ": not enqueued"));
    if (run % kFindsNoMemory != 0) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(kInjected, ": no memory"));
  }

  // One of several threads' share of the requests from `begin` to before `end`.
  void Ask(int thread, int begin, int end) {
    std::deque<std::pair<Order, std::shared_ptr<Reader>>> open;
    for (int number = begin + thread; number < end; number += kCallers) {
      Submit(OrderOf(number, clock_.Monotonic()), open);
      LeaveSome(open);
      while (open.size() >= kOpenRequests) Finish(open);
      if (number % 50 == 0 && !Counts(engine_->metrics()).AddUp()) ++wrong_sums_;
    }
    while (!open.empty()) Finish(open);
  }
  void Submit(Order order, std::deque<std::pair<Order, std::shared_ptr<Reader>>>& open) {
    auto reader = std::make_shared<Reader>(*engine_, ends_, order);
    const auto handle = engine_->Submit(order.spec, reader);
    ++asked_;
    if (!handle.ok()) {
      ++refused_;
      ends_.AddRefusal(order, handle.status());
      return;
    }
    reader->Accepted(*handle);
    open.emplace_back(std::move(order), std::move(reader));
  }
  void LeaveSome(std::deque<std::pair<Order, std::shared_ptr<Reader>>>& open) {
    for (auto request = open.begin(); request != open.end();) {
      auto& [order, reader] = *request;
      const bool leaves = order.leaves == Leaves::kMeanwhile || order.leaves == Leaves::kForGood;
      const bool now = leaves && order.after-- == 0;
      if (now) reader->Leave();
      request = now && order.leaves == Leaves::kForGood ? open.erase(request) : request + 1;
    }
  }
  static void Finish(std::deque<std::pair<Order, std::shared_ptr<Reader>>>& open) {
    auto [order, reader] = std::move(open.front());
    open.pop_front();
    if (order.leaves == Leaves::kForGood) return reader->Leave();
    reader->WaitForEnd();
  }

  void AskTenth(int begin, int end) {
    std::vector<std::thread> callers;
    for (int i = 0; i < kCallers; ++i) {
      callers.emplace_back([this, i, begin, end] { Ask(i, begin, end); });
    }
    for (std::thread& caller : callers) caller.join();
  }

  // A caller that leaves does not wait; its request is gone at the loop's next turn.
  bool NothingIsLeft() {
    engine_->RefreshMetrics();
    const Counts counts(engine_->metrics());
    const MemoryReport memory = engine_->memory();
    return counts.Of(metrics::kRequestsInFlight) == 0 && counts.Of(metrics::kQueueDepth) == 0 &&
           counts.Of(metrics::kLanes) == 0 && counts.Of(metrics::kLaneBytes) == 0 &&
           memory.state_bytes == 0 && memory.result_bytes == 0 &&
           device_.allocations() == allocations_;
  }
  void WaitUntilNothingIsLeft() {
    const absl::Time last = absl::Now() + kLongestWait;
    while (!NothingIsLeft() && absl::Now() < last) std::this_thread::yield();
    EXPECT_TRUE(NothingIsLeft());
  }

  int64_t HeapBytes() {
#ifdef LATENTD_SANITIZED  // sanitizers report nothing to malloc's counters
    return static_cast<int64_t>(__sanitizer_get_current_allocated_bytes());
#else
    const MemoryReport memory = engine_->memory();
    return memory.allocator_bytes - memory.allocator_free_bytes;
#endif
  }

  std::string Found() {
    std::string found = absl::StrCat(asked_.load(), " requests, ", refused_.load(), " refused");
    for (const auto& [code, count] : ends_.codes()) absl::StrAppend(&found, ", ", count, " ", code);
    return absl::StrCat(found, "; heap ", HeapBytes(), " bytes, resident ",
                        engine_->memory().resident_bytes);
  }

  OnRun on_run_;
  SeparateDevice device_;
  FakeClock clock_;
  std::atomic<bool> fails_ = false;
  std::atomic<int64_t> runs_ = 0, enqueued_ = 0;
  std::atomic<int> asked_ = 0, refused_ = 0, wrong_sums_ = 0;
  Ends ends_;
  size_t allocations_ = 0;
  std::unique_ptr<LocalEngine> engine_;
};

TEST_F(EngineSoakTest, EverythingEndsAndNothingIsLeftOrGrows) {
  int requests = kRequests;
  const char* given = std::getenv("LATENTD_SOAK_REQUESTS");
  ASSERT_TRUE(given == nullptr || absl::SimpleAtoi(given, &requests));
  const int64_t compilations = CompilationsOf(*engine_);
  std::vector<int64_t> heap;
  for (int tenth = 0; tenth < kTenths && !HasFailure(); ++tenth) {
    AskTenth(requests * tenth / kTenths, requests * (tenth + 1) / kTenths);
    WaitUntilNothingIsLeft();
    heap.push_back(HeapBytes());
    if (given != nullptr) std::cout << Found() << std::endl;
  }
  EXPECT_THAT(ends_.wrong(), IsEmpty());
  EXPECT_EQ(wrong_sums_, 0);
  const Counts counts(engine_->metrics());
  EXPECT_TRUE(counts.AddUp());
  EXPECT_EQ(counts.Of(metrics::kRequestsReceived), requests);
  EXPECT_EQ(counts.Of(metrics::kRequestsRejected), refused_);
  EXPECT_EQ(CompilationsOf(*engine_), compilations);
  EXPECT_LT(heap.back() - heap.front(), kNoise);
  std::map<std::string, int> codes = ends_.codes();
  for (const char* code : {"OK", "CANCELLED", "INTERNAL"}) {
    EXPECT_GT(codes[code], 0) << code;
  }
  EXPECT_GT(refused_, 0);
  engine_.reset();
  EXPECT_EQ(device_.allocations(), 0u);
}

}  // namespace
}  // namespace latentd::engine
