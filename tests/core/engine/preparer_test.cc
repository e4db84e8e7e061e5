// The order in which graphs are prepared for several clients, and how orders end.
#include "core/engine/prepare/preparer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/barrier.h"
#include "absl/synchronization/notification.h"
#include "core/base/errors/error_details.h"
#include "core/device/device_fault.h"
#include "core/weights/weight_store.h"
#include "tests/core/compiler/fake_backend.h"
#include "tests/core/engine/demo_engine.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace latentd::engine {
namespace {

using compiler::GraphHandle;
using ::latentd::testing::kLongestWait;
using ::latentd::testing::StatusIs;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using Ended = Preparer::Ended;
using Order = Preparer::Order;
using Priority = Preparer::Priority;

// Asks a test before it plans a graph, which the size of its output names.
class NumberedBackend : public compiler::FakeBackend {
 public:
  absl::StatusOr<backends::Plan> MakePlan(const graph::Graph& graph) const override {
    const int number = static_cast<int>(graph.node(graph.outputs()[0].value).shape.elements());
    if (absl::Status asked = ask(number); !asked.ok()) return asked;
    return FakeBackend::MakePlan(graph);
  }

  std::function<absl::Status(int number)> ask;
};

class PreparerTest : public ::testing::Test {
 protected:
  PreparerTest() {
    backend_.ask = [this](int number) {
      {
        absl::MutexLock lock(&mutex_);
        planned_.push_back(number);
      }
      if (number == kHeld) gate_.Pass();
      clock_.Advance(absl::Seconds(1));
      return on_plan_ ? on_plan_(number) : absl::OkStatus();
    };
  }
  ~PreparerTest() override {
    gate_.Open();
    preparer_.reset();
  }

  static constexpr int kHeld = 1;  // the graph that waits at the gate, where it is closed

  GraphHandle Graph(int number, const std::string& component = "part", int rows = 1) {
    return store_.Declare(
        {.label = {.model = "base", .component = component, .rows = rows},
         .graph = std::make_shared<const graph::Graph>(compiler::SiluGraph(number)),
         .weights = no_weights_});
  }
  GraphHandles Graphs(const std::vector<int>& numbers) {
    GraphHandles graphs;
    for (int number : numbers) graphs.push_back(Graph(number));
    return graphs;
  }
  Order OrderOf(Priority priority, const std::vector<int>& numbers) {
    return {.priority = priority, .graphs = Graphs(numbers)};
  }
  // An order of a request.
  Order Whole(const std::vector<int>& numbers, uint64_t key = 0) {
    return {.key = key, .whole = true, .graphs = Graphs(numbers)};
  }
  // The preparing thread stands at the gate, with graph kHeld of an order of that priority.
  void Hold(Priority priority = Priority::kSpare) {
    gate_.Close();
    preparer_->Submit(OrderOf(priority, {kHeld}));
    gate_.WaitForSomebody();
  }
  // Submits an order, and keeps what its `end` is given.
  std::shared_ptr<std::optional<Ended>> Submit(Order order) {
    auto ended = std::make_shared<std::optional<Ended>>();
    order.end = [ended](Ended given) { *ended = std::move(given); };
    preparer_->Submit(std::move(order));
    return ended;
  }
  void OpenAndFlush() {
    gate_.Open();
    preparer_->Flush();
  }
  std::vector<int> planned() {
    absl::MutexLock lock(&mutex_);
    return planned_;
  }

  ::latentd::testing::FakeClock clock_;
  Gate gate_;
  absl::Mutex mutex_;
  std::vector<int> planned_ ABSL_GUARDED_BY(mutex_);
  std::function<absl::Status(int number)> on_plan_;  // set while nothing is prepared
  NumberedBackend backend_;
  weights::WeightStore weights_{backend_};
  const std::shared_ptr<const weights::WeightSet> no_weights_ =
      std::make_shared<const weights::WeightSet>(&weights_);
  metrics::Registry registry_;
  compiler::GraphStore store_{backend_, clock_, registry_, nullptr, {.run_once = true}};
  std::atomic<bool> stop_ = false;
  std::unique_ptr<Preparer> preparer_ = std::make_unique<Preparer>(store_, stop_, clock_, [] {});
};

TEST_F(PreparerTest, AnOrderOfAHigherPriorityWaitsForOneGraph) {
  gate_.Close();
  preparer_->Submit(OrderOf(Priority::kSpare, {kHeld, 2, 3}));
  gate_.WaitForSomebody();
  preparer_->Submit(OrderOf(Priority::kWanted, {10, 11}));
  preparer_->Submit(OrderOf(Priority::kStart, {20, 21}));
  OpenAndFlush();
  EXPECT_THAT(planned(), ElementsAre(kHeld, 20, 21, 10, 11, 2, 3));
}

TEST_F(PreparerTest, OrdersOfOnePriorityTakeTurnsAndAWholeOneKeepsItsTurn) {
  Hold();
  preparer_->Submit(OrderOf(Priority::kWanted, {10, 11, 12}));
  preparer_->Submit(Whole({20, 21}));
  preparer_->Submit(OrderOf(Priority::kWanted, {30, 31}));
  preparer_->Submit(Whole({40}));
  OpenAndFlush();
  EXPECT_THAT(planned(), ElementsAre(kHeld, 10, 20, 21, 30, 40, 11, 31, 12));
}

TEST_F(PreparerTest, TasksDeclareGraphsBeforeTheFirstIsPrepared) {
  std::vector<std::string> turns;  // the preparing thread's
  const auto declare = [&](int number) {
    return [&, number](Order& order) {
      turns.push_back(absl::StrCat("declare ", number));
      order.graphs.push_back(Graph(number));
      order.purpose.reason = compiler::Reason::kWarm;
      return absl::OkStatus();
    };
  };
  Hold();
  Order lazy = {.priority = Priority::kSpare, .tasks = {declare(2), declare(3)}};
  lazy.progress = [&](const WarmProgress& prepared) {
    turns.push_back(absl::StrCat("prepared ", prepared.done, " of ", prepared.total));
    return true;
  };
  const auto ended = Submit(std::move(lazy));
  preparer_->Submit({.priority = Priority::kSpare, .tasks = {[&](Order&) {
                                                     turns.emplace_back("another");
                                                     return absl::OkStatus();
                                                   }}});
  OpenAndFlush();
  EXPECT_THAT(turns, ElementsAre("declare 2", "another", "declare 3", "prepared 1 of 2",
                                 "prepared 2 of 2"));
  EXPECT_OK((*ended)->status);
  EXPECT_EQ((*ended)->purpose.reason, compiler::Reason::kWarm);
  EXPECT_EQ(MetricOf(registry_, metrics::kGraphCompilations, "warm"), 2);
}

TEST_F(PreparerTest, ATaskThatFailsEndsItsOrder) {
  bool later = false;
  Order order = OrderOf(Priority::kSpare, {2});
  order.tasks = {[](Order&) { return absl::ResourceExhaustedError("no room"); },
                 [&](Order&) {
                   later = true;
                   return absl::OkStatus();
                 }};
  const auto ended = Submit(std::move(order));
  preparer_->Flush();
  EXPECT_THAT((*ended)->status, StatusIs(absl::StatusCode::kResourceExhausted, "no room"));
  EXPECT_FALSE(later);
  EXPECT_THAT(planned(), IsEmpty());
}

TEST_F(PreparerTest, MemoryThatATaskDoesNotFindEndsItsOrder) {
  const absl::Status run = preparer_->Run([]() -> absl::Status { throw std::bad_alloc(); });
  EXPECT_EQ(GetReason(run), "OUT_OF_MEMORY");
  EXPECT_OK(preparer_->Run([] { return absl::OkStatus(); }));
}

TEST_F(PreparerTest, AGraphOfTwoOrdersIsCompiledOnce) {
  Hold();
  const auto first = Submit(OrderOf(Priority::kWanted, {2, 3}));
  const auto second = Submit(OrderOf(Priority::kWanted, {3, 2}));
  OpenAndFlush();
  EXPECT_THAT(planned(), ElementsAre(kHeld, 2, 3));
  const WarmOutcome one = (*first)->counts, other = (*second)->counts;
  EXPECT_EQ(one.compiled + other.compiled, 2);
  EXPECT_EQ(one.ready_before + other.ready_before, 2);
}

TEST_F(PreparerTest, CountsEachGraphOnceAndTimesIt) {
  std::vector<absl::Duration> took;
  on_plan_ = [](int number) {
    return number == 3 ? absl::InternalError("no kernel today") : absl::OkStatus();
  };
  const GraphHandle ready = Graph(4);
  ASSERT_OK(store_.Get(ready));
  Order order = OrderOf(Priority::kWanted, {2, 2, 3, 4});
  order.progress = [&](const WarmProgress& prepared) {
    took.push_back(prepared.duration);
    return true;
  };
  const Ended ended = preparer_->Prepare(std::move(order));
  EXPECT_OK(ended.status);
  EXPECT_EQ(ended.counts.compiled, 1);
  EXPECT_EQ(ended.counts.failed, 1);
  EXPECT_EQ(ended.counts.ready_before, 1);
  EXPECT_EQ(ended.counts.loaded, 0);
  EXPECT_THAT(took, ElementsAre(absl::Seconds(1), absl::Seconds(1), absl::ZeroDuration()));
  EXPECT_THAT(ended.failures, SizeIs(1));
  EXPECT_THAT(ended.failure_texts, ElementsAre("base part rows 1: no kernel today"));
}

// Else the second would wait at the barrier for ever.
TEST_F(PreparerTest, AStartIsPreparedOnTwoThreads) {
  auto* const both = new absl::Barrier(2);  // deletes itself
  std::atomic<int> plans = 0;
  on_plan_ = [&](int) {
    if (++plans <= 2 && both->Block()) delete both;
    return absl::OkStatus();
  };
  std::vector<int> done;
  Order order = OrderOf(Priority::kStart, {2, 3, 4, 5});
  order.progress = [&](const WarmProgress& prepared) {
    done.push_back(prepared.done);
    return true;
  };
  const Ended ended = preparer_->Prepare(std::move(order));
  EXPECT_OK(ended.status);
  EXPECT_EQ(ended.counts.compiled, 4);
  EXPECT_THAT(done, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(planned(), UnorderedElementsAre(2, 3, 4, 5));
}

TEST_F(PreparerTest, ProgressThatSaysNoEndsAnOrder) {
  Order order = OrderOf(Priority::kWanted, {2, 3});
  order.progress = [](const WarmProgress&) { return false; };
  const Ended ended = preparer_->Prepare(std::move(order));
  EXPECT_THAT(ended.status, StatusIs(absl::StatusCode::kCancelled, _));
  EXPECT_EQ(ended.counts.compiled, 1);
  EXPECT_THAT(planned(), ElementsAre(2));
}

TEST_F(PreparerTest, AFaultEndsItsOrder) {
  on_plan_ = [](int number) {
    return number == 3 ? device::FaultError("it fell off the bus") : absl::OkStatus();
  };
  const Ended ended = preparer_->Prepare(OrderOf(Priority::kWanted, {2, 3, 4}));
  EXPECT_TRUE(device::IsFault(ended.status)) << ended.status;
  EXPECT_THAT(ended.failure_texts, IsEmpty());
  EXPECT_THAT(planned(), ElementsAre(2, 3));
}

TEST_F(PreparerTest, AWholeOrderEndsWithItsFirstFailureAndOthersGoOn) {
  on_plan_ = [](int number) {
    return number == 3 ? absl::InternalError("no kernel today") : absl::OkStatus();
  };
  const Ended whole = preparer_->Prepare(Whole({2, 3, 4}));
  EXPECT_THAT(whole.status, StatusIs(absl::StatusCode::kInternal, "no kernel today"));
  EXPECT_THAT(whole.executables, SizeIs(1));
  const Ended other = preparer_->Prepare(OrderOf(Priority::kWanted, {2, 3, 4}));
  EXPECT_OK(other.status);
  EXPECT_EQ(other.counts.failed, 1);
  EXPECT_EQ(other.counts.compiled, 1);
  EXPECT_THAT(other.executables, IsEmpty());
}

TEST_F(PreparerTest, WithoutMemoryForAGraphItsLanesFurtherRowsAreLeftOut) {
  on_plan_ = [](int number) {
    return number == 4 ? absl::ResourceExhaustedError("no room") : absl::OkStatus();
  };
  const auto order_with = [&](bool displaces_nothing) {
    return Order{.priority = Priority::kSpare,
                 .purpose = {.displaces_nothing = displaces_nothing},
                 .graphs = {Graph(4, "unet", 4), Graph(5, "other", 4), Graph(8, "unet", 8),
                            Graph(9, "other", 8)}};
  };
  const Ended spare = preparer_->Prepare(order_with(true));
  EXPECT_OK(spare.status);
  EXPECT_EQ(spare.counts.compiled, 2);
  EXPECT_THAT(spare.failure_texts, ElementsAre("base unet rows 4: no room"));
  EXPECT_THAT(planned(), ElementsAre(4, 5, 9));
  // For other purposes each graph is tried.
  EXPECT_EQ(preparer_->Prepare(order_with(false)).counts.compiled, 1);
}

TEST_F(PreparerTest, AnOrderThatIsWithdrawnIsFreedAtOnceUnlessItHasBegun) {
  const auto held = std::make_shared<int>();
  const auto submit = [&](const std::vector<int>& numbers, uint64_t key) {
    Order order = Whole(numbers, key);
    order.progress = [held](const WarmProgress&) { return true; };
    return Submit(std::move(order));
  };
  gate_.Close();
  const auto begun = submit({kHeld, 2}, 7);
  gate_.WaitForSomebody();
  const auto kept = submit({3}, 8);
  const auto withdrawn = submit({4}, 9);
  EXPECT_EQ(held.use_count(), 4);
  preparer_->Withdraw(9);
  EXPECT_EQ(held.use_count(), 3);
  preparer_->Withdraw(9);
  preparer_->Withdraw(7);
  EXPECT_EQ(held.use_count(), 3);
  OpenAndFlush();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_TRUE(begun->has_value());
  EXPECT_TRUE(kept->has_value());
  EXPECT_FALSE(withdrawn->has_value());
  EXPECT_THAT(planned(), ElementsAre(kHeld, 2, 3));
}

// A client drops graphs that only its order named.
TEST_F(PreparerTest, NothingHoldsAnOrdersGraphsOnceItHasEnded) {
  std::optional<Ended> ended = preparer_->Prepare(OrderOf(Priority::kWanted, {2, 3}));
  ended.reset();
  store_.DropUnused();
  EXPECT_THAT(store_.Declared(), IsEmpty());
  size_t left = 1;
  Order order = Whole({4});
  order.end = [&](Ended given) {
    given = {};
    store_.DropUnused();
    left = store_.Declared().size();
  };
  preparer_->Submit(std::move(order));
  preparer_->Flush();
  EXPECT_EQ(left, 0);
}

TEST_F(PreparerTest, StoppingEndsAllButWholeOrders) {
  Hold();
  const auto spare = Submit(OrderOf(Priority::kSpare, {2}));
  const auto whole = Submit(Whole({3}));
  absl::Status warmed;
  std::thread operators(
      [&] { warmed = preparer_->Prepare(OrderOf(Priority::kWanted, {4})).status; });
  stop_ = true;
  gate_.Open();
  operators.join();
  preparer_->Stop();
  EXPECT_THAT(warmed, StatusIs(absl::StatusCode::kCancelled, HasSubstr("stopped")));
  EXPECT_THAT((*spare)->status, StatusIs(absl::StatusCode::kCancelled, HasSubstr("stopped")));
  EXPECT_OK((*whole)->status);
  EXPECT_THAT(planned(), ElementsAre(kHeld, 3));
  preparer_->Stop();
}

TEST_F(PreparerTest, AnOrdersFunctionsMaySubmitAnother) {
  std::shared_ptr<std::optional<Ended>> second;
  Order first = OrderOf(Priority::kSpare, {2});
  first.end = [&](Ended) { second = Submit(OrderOf(Priority::kSpare, {3})); };
  preparer_->Submit(std::move(first));
  preparer_->Flush();
  ASSERT_NE(second, nullptr);
  EXPECT_OK((*second)->status);
}

// Requests come and go from several threads while an operator warms and the server prepares more:
// each order that is not withdrawn ends once, and nothing is left.
TEST_F(PreparerTest, EveryOrderEndsOnce) {
  constexpr int kCallers = 4, kOrders = 50;
  std::atomic<int> ended = 0;
  const auto held = std::make_shared<int>();
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < kOrders; ++i) {
        const int number = 2 + (caller + i) % 7;
        if (caller == 0) {
          EXPECT_OK(preparer_->Prepare(OrderOf(Priority::kWanted, {number, number + 1})).status);
          ++ended;
          continue;
        }
        const uint64_t key = static_cast<uint64_t>(1 + caller * kOrders + i);
        Order order = caller == 1 ? OrderOf(Priority::kSpare, {number}) : Whole({number}, key);
        order.end = [&ended, held](const Ended&) { ++ended; };
        preparer_->Submit(std::move(order));
        if (caller == 3) preparer_->Withdraw(key);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  preparer_->Flush();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_GE(ended, (kCallers - 1) * kOrders);
  EXPECT_LE(ended, kCallers * kOrders);
}

}  // namespace
}  // namespace latentd::engine
