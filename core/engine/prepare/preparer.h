// A Preparer compiles and loads graphs on a thread of its own. Its clients submit orders: graphs
// that are to be ready, for a purpose and with a priority. It prepares one graph at a time, so that
// an order waits for one graph of a lower priority at most.
//
// Thread-safe. It calls an order's functions one at a time and without a lock of the queue: they
// may submit and withdraw orders, and wait for none.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "core/compiler/graph_store.h"
#include "core/engine/api/graph_admin.h"
#include "core/engine/models/bucket_graphs.h"

namespace latentd::engine {

class Preparer {
 public:
  // The first with an order is served. Orders of one priority take turns, in the order in which
  // they came.
  enum class Priority : uint8_t {
    kStart,   // graphs that the server needs before it serves
    kWanted,  // requests and operators wait for them
    kSpare,   // graphs that the server does without
  };

  // Graphs that failed: of several models that share one each has its own outcome.
  using Failures = std::map<compiler::GraphHandle, absl::Status>;

  struct Ended {
    // OK: all graphs were tried. CANCELLED: the Preparer stops, or `progress` returned false;
    // INTERNAL, reason DEVICE_FAULT: the device has failed. Else a task's error; or a graph's, if
    // the order is whole.
    absl::Status status;
    GraphHandles graphs;
    compiler::Purpose purpose;
    WarmOutcome counts;  // without a prediction
    Failures failures;
    std::vector<std::string> failure_texts;  // without refusals to compile and device faults
    std::vector<compiler::ExecutablePointer> executables;  // held for a whole order
  };

  struct Order;
  using Task = std::function<absl::Status(Order&)>;
  struct Order {
    Priority priority = Priority::kWanted;
    uint64_t key = 0;  // for Withdraw; 0: none
    // True: no other order gets a turn before it has ended, its executables are held until then, so
    // that none is evicted for another, it ends with the first failure, and goes on when the
    // Preparer stops. False: others get a turn after each task and graph, and a graph's failure is
    // its own.
    bool whole = false;
    // If it displaces_nothing, a graph that there is no memory for leaves out the next ones that
    // have its label but for the rows.
    compiler::Purpose purpose;
    // Graphs are compiled or found, and none is loaded: for models that are loaded on demand.
    bool compile_only = false;
    // Run before the first graph. They may change purpose and graphs; an error ends the order.
    std::vector<Task> tasks;
    // References to one entry count as one graph, which is ready when each of them is.
    GraphHandles graphs;
    // Called after each graph, while the order is locked; false: the order ends.
    std::function<bool(const WarmProgress&)> progress;
    // Called once, when nothing else holds what the order held. Must not throw.
    std::function<void(Ended)> end;
  };

  // All must outlive this; `begin` is run on the new thread. Once `stop` is true nothing is begun
  // any more but whole orders.
  Preparer(compiler::GraphStore& store, const std::atomic<bool>& stop, const Clock& clock,
           std::function<void()> begin);
  // Stops.
  ~Preparer() { Stop(); }

  // Adds the order and returns. Where there is no memory it throws std::bad_alloc and has added
  // nothing.
  void Submit(Order order) ABSL_LOCKS_EXCLUDED(mutex_);
  // Frees the order, whose `end` is not called, unless it has begun.
  void Withdraw(uint64_t key) ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds the order, which has no `end`, and waits for its end. One of kStart has no tasks: it is
  // prepared on the calling thread too, so that one graph is compiled or loaded while another has
  // its first run. REQUIRES: not called by an order's function.
  Ended Prepare(Order order) ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs the task as a whole order without graphs, and waits for it. REQUIRES: likewise.
  absl::Status Run(const std::function<absl::Status()>& task);
  // Waits until there is no order. REQUIRES: likewise.
  void Flush() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends all orders, and the thread. No other caller may add an order from now on. Does nothing the
  // second time.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Work;  // an order in the queue
  using Queue = std::list<std::shared_ptr<Work>>;
  struct Group;

  std::shared_ptr<Work> Add(Order order) ABSL_LOCKS_EXCLUDED(mutex_);
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Puts back the order in `turn`, if there is one, and takes the next; false: stopped.
  bool TakeNext(Queue& turn) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsIdle() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || HasOrder(); }
  bool HasOrder() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  // Runs the next task or prepares the next graph; false: nothing is left to begin.
  bool TakeTurn(Work& work);
  absl::Status RunTask(Work& work);
  absl::Status PrepareNext(Work& work);
  absl::Status Get(Work& work, const compiler::GraphHandle& graph,
                   const compiler::Purpose& purpose);
  void Finish(Work& work);

  compiler::GraphStore& store_;
  const std::atomic<bool>& stop_;
  const Clock& clock_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;            // an order has the thread
  std::array<Queue, 3> queues_ ABSL_GUARDED_BY(mutex_);  // by priority
  std::thread thread_;
};

}  // namespace latentd::engine
