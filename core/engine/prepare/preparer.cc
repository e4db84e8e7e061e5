#include "core/engine/prepare/preparer.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/threads/threads.h"
#include "core/device/device_fault.h"

namespace latentd::engine {
namespace {

using compiler::GetMode;
using compiler::GraphStore;

absl::Status StoppedError() { return absl::CancelledError("stopped while preparing graphs"); }

// The graph's lane: its label, but for the rows.
compiler::GraphLabel LaneOf(compiler::GraphLabel lane) {
  lane.rows = 0;
  return lane;
}

std::string FailureText(const compiler::GraphLabel& label, const absl::Status& failure) {
  const std::string name = label.ToText(), message(failure.message());
  return absl::StartsWith(message, name) ? message : absl::StrCat(name, ": ", message);
}

}  // namespace

// Uses of one entry.
struct Preparer::Group {
  const compiler::GraphLabel& label() const { return GraphStore::LabelOf(uses.front()); }

  std::string id;
  GraphHandles uses;
};

struct Preparer::Work {
  explicit Work(Order ordered) : order(std::move(ordered)) {
    if (!HasTask()) Arrange();
  }

  bool HasTask() const { return tasks_begun < order.tasks.size(); }
  // Each reference once, by id.
  void Arrange() ABSL_LOCKS_EXCLUDED(mutex);
  // Null: nothing is left to begin.
  const Group* Begin() ABSL_LOCKS_EXCLUDED(mutex);
  void NoteFailure(const compiler::GraphHandle& graph, const absl::Status& failure)
      ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    ended.failures.emplace(graph, failure);
  }
  // An error ends the order.
  absl::Status Note(const Group& group, WarmProgress done, int WarmOutcome::*count)
      ABSL_LOCKS_EXCLUDED(mutex);
  bool HasMore(const absl::Status& turn) ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    ended.status.Update(turn);
    return ended.status.ok() && (HasTask() || begun < groups.size());
  }
  // Also frees what else holds the order's graphs.
  Ended Take() ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    groups.clear();
    ended.graphs = std::move(order.graphs);
    ended.purpose = order.purpose;
    return std::move(ended);
  }

  Order order;             // the preparing thread's until its tasks have run; then it stays
  size_t tasks_begun = 0;  // the preparing thread's
  absl::Mutex mutex;
  std::vector<Group> groups ABSL_GUARDED_BY(mutex);  // stay once there are any
  size_t begun ABSL_GUARDED_BY(mutex) = 0;           // number of groups
  int done ABSL_GUARDED_BY(mutex) = 0;
  std::vector<compiler::GraphLabel> full ABSL_GUARDED_BY(mutex);  // lanes without memory
  Ended ended ABSL_GUARDED_BY(mutex);
  bool finished ABSL_GUARDED_BY(mutex) = false;  // the preparing thread begins no more of it
};

void Preparer::Work::Arrange() {
  absl::MutexLock lock(&mutex);
  for (const compiler::GraphHandle& graph : order.graphs) {
    const std::string id = GraphStore::IdOf(graph);
    auto group = absl::c_find_if(groups, [&](const Group& other) { return other.id == id; });
    if (group == groups.end()) group = groups.insert(groups.end(), {id, {}});
    if (!absl::c_linear_search(group->uses, graph)) group->uses.push_back(graph);
  }
}

const Preparer::Group* Preparer::Work::Begin() {
  absl::MutexLock lock(&mutex);
  while (begun < groups.size() && ended.status.ok()) {
    const Group& group = groups[begun++];
    if (!absl::c_linear_search(full, LaneOf(group.label()))) return &group;
  }
  return nullptr;
}

absl::Status Preparer::Work::Note(const Group& group, WarmProgress progress,
                                  int WarmOutcome::*count) {
  absl::MutexLock lock(&mutex);
  ++(ended.counts.*count);
  const absl::Status& status = progress.entry.status;
  const bool is_told =
      !status.ok() && GetReason(status) != "GRAPH_COLD" && !device::IsFault(status);
  if (is_told) ended.failure_texts.push_back(FailureText(group.label(), status));
  if (absl::IsResourceExhausted(status) && order.purpose.displaces_nothing) {
    full.push_back(LaneOf(group.label()));
  }
  progress.done = ++done;
  progress.total = static_cast<int>(groups.size());
  const bool goes_on = !order.progress || order.progress(progress);
  if (device::IsFault(status) || order.whole) RETURN_IF_ERROR(status);
  return goes_on ? absl::OkStatus() : StoppedError();
}

Preparer::Preparer(GraphStore& store, const std::atomic<bool>& stop, const Clock& clock,
                   std::function<void()> begin)
    : store_(store),
      stop_(stop),
      clock_(clock),
      thread_(StartThread("preparing", [this] { Loop(); })) {
  Run([&] {
    begin();
    return absl::OkStatus();
  }).IgnoreError();
}

std::shared_ptr<Preparer::Work> Preparer::Add(Order order) {
  auto work = std::make_shared<Work>(std::move(order));
  Queue added = {work};
  absl::MutexLock lock(&mutex_);
  Queue& queue = queues_[static_cast<size_t>(work->order.priority)];
  queue.splice(queue.end(), added);
  return work;
}

void Preparer::Submit(Order order) { Add(std::move(order)); }

void Preparer::Withdraw(uint64_t key) {
  Queue withdrawn;  // freed without the lock
  absl::MutexLock lock(&mutex_);
  for (Queue& queue : queues_) {
    const auto found = absl::c_find_if(queue, [&](const auto& w) { return w->order.key == key; });
    if (found != queue.end()) withdrawn.splice(withdrawn.end(), queue, found);
  }
}

Preparer::Ended Preparer::Prepare(Order order) {
  const bool helps = order.priority == Priority::kStart;
  const std::shared_ptr<Work> work = Add(std::move(order));
  while (helps && TakeTurn(*work)) continue;
  {
    absl::MutexLock lock(&work->mutex);
    work->mutex.Await(absl::Condition(&work->finished));
  }
  return work->Take();
}

absl::Status Preparer::Run(const std::function<absl::Status()>& task) {
  return Prepare({.whole = true, .tasks = {[&](Order&) { return task(); }}}).status;
}

void Preparer::Flush() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &Preparer::IsIdle));
}

void Preparer::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

bool Preparer::HasOrder() const {
  return absl::c_any_of(queues_, [](const Queue& queue) { return !queue.empty(); });
}

bool Preparer::IsIdle() const { return !busy_ && !HasOrder(); }

bool Preparer::TakeNext(Queue& turn) {
  absl::MutexLock lock(&mutex_);
  if (!turn.empty()) {
    Queue& queue = queues_[static_cast<size_t>(turn.front()->order.priority)];
    queue.splice(queue.end(), turn);
  }
  busy_ = false;
  mutex_.Await(absl::Condition(this, &Preparer::HasWork));
  for (Queue& queue : queues_) {
    if (queue.empty()) continue;
    turn.splice(turn.end(), queue, queue.begin());
    busy_ = true;
    return true;
  }
  return false;
}

void Preparer::Loop() {
  Queue turn;  // the order that has the thread: an entry that changes places needs no memory
  while (TakeNext(turn)) {
    Work& work = *turn.front();
    bool more = TakeTurn(work);
    while (more && work.order.whole) more = TakeTurn(work);
    if (more) continue;
    Finish(work);
    turn.clear();
  }
}

void Preparer::Finish(Work& work) {
  if (work.order.end) {
    CatchOutOfMemory([&] { work.order.end(work.Take()); }).IgnoreError();  // a border
    return;
  }
  absl::MutexLock lock(&work.mutex);
  work.finished = true;
}

bool Preparer::TakeTurn(Work& work) {
  // A border: the order ends, and the thread goes on.
  const absl::Status turn = CatchOutOfMemory([&] {
    if (stop_ && !work.order.whole) return StoppedError();
    return work.HasTask() ? RunTask(work) : PrepareNext(work);
  });
  return work.HasMore(turn);
}

absl::Status Preparer::RunTask(Work& work) {
  RETURN_IF_ERROR(work.order.tasks[work.tasks_begun++](work.order));
  if (!work.HasTask()) work.Arrange();
  return absl::OkStatus();
}

absl::Status Preparer::Get(Work& work, const compiler::GraphHandle& graph,
                           const compiler::Purpose& purpose) {
  if (work.order.compile_only) return store_.Compile(graph, purpose);
  ASSIGN_OR_RETURN(compiler::ExecutablePointer executable, store_.Get(graph, purpose));
  if (!work.order.whole) return absl::OkStatus();
  absl::MutexLock lock(&work.mutex);
  work.ended.executables.push_back(std::move(executable));
  return absl::OkStatus();
}

absl::Status Preparer::PrepareNext(Work& work) {
  const Group* group = work.Begin();
  if (group == nullptr) return absl::OkStatus();
  const absl::Time begin = clock_.Monotonic();
  const auto before = store_.Find(group->id);
  const bool was_ready = absl::c_all_of(group->uses, [this](const compiler::GraphHandle& use) {
    return store_.StatusOf(use).state == GraphState::kReady;
  });
  compiler::Purpose purpose = work.order.purpose;
  const bool again = before.ok() && before->state == GraphState::kFailed;
  if (again && purpose.mode == GetMode::kRetry) purpose.reason = compiler::Reason::kRetry;
  absl::Status status;
  for (const compiler::GraphHandle& use : group->uses) {
    const absl::Status gotten = Get(work, use, purpose);
    if (!gotten.ok()) work.NoteFailure(use, gotten);
    status.Update(gotten);
  }
  const compiler::GraphLabel& label = group->label();
  const auto after = store_.Find(group->id);
  const WarmProgress done = {
      .entry = {.id = group->id,
                .component = label.component,
                .bucket = {label.width, label.height, label.frames},
                .status = status},
      .compiled = before.ok() && after.ok() && after->compilations > before->compilations,
      .duration = clock_.Monotonic() - begin};
  return work.Note(*group, done,
                   !status.ok()    ? &WarmOutcome::failed
                   : done.compiled ? &WarmOutcome::compiled
                   : was_ready     ? &WarmOutcome::ready_before
                                   : &WarmOutcome::loaded);
}

}  // namespace latentd::engine
