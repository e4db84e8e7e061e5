// Tells ThreadSanitizer what gRPC does, as abseil.cc does for Abseil: what a thread did before it
// gave gRPC a batch of operations comes before what is done once the batch has ended, on whichever
// thread that is. Debian's gRPC is not built with the sanitizer, but much of it is templates that
// are compiled into our programs.

#include <dlfcn.h>
#include <grpc/grpc.h>
#include <grpcpp/support/server_callback.h>
#include <link.h>

#include <algorithm>
#include <utility>
#include <vector>

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}

namespace {

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

using AddressRange = std::pair<uintptr_t, uintptr_t>;

int AddCode(dl_phdr_info* library, size_t, void* ranges) {
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = library->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const uintptr_t begin = library->dlpi_addr + segment.p_vaddr;
    static_cast<std::vector<AddressRange>*>(ranges)->emplace_back(begin, begin + segment.p_memsz);
  }
  return 0;
}

// Tags are functors where the callback API is used, which begin with a function, and elsewhere
// objects, which begin with a table.
bool IsFunctor(const void* tag) {
  static const std::vector<AddressRange> code = [] {
    std::vector<AddressRange> ranges;
    dl_iterate_phdr(AddCode, &ranges);
    return ranges;
  }();
  const uintptr_t first = *static_cast<const uintptr_t*>(tag);
  return std::any_of(code.begin(), code.end(), [first](const AddressRange& range) {
    return range.first <= first && first < range.second;
  });
}

// Stand for all calls, all answers and all ends of calls, since nothing here knows which belong
// together. Threads that make no call, and end no server, get no order from them.
char calls, answers, ends;

// Stands for a functor while its batch is under way.
struct Ordered : grpc_completion_queue_functor {
  explicit Ordered(grpc_completion_queue_functor* functor)
      : grpc_completion_queue_functor(*functor), original(functor) {
    functor_run = Run;
  }

  static void Run(grpc_completion_queue_functor* functor, int ok) {
    __tsan_acquire(functor);
    __tsan_acquire(&calls);
    auto* const self = static_cast<Ordered*>(functor);
    grpc_completion_queue_functor* const original = self->original;
    delete self;
    original->functor_run(original, ok);
  }

  grpc_completion_queue_functor* original;
};

bool Has(const grpc_op* ops, size_t count, grpc_op_type type) {
  return std::any_of(ops, ops + count, [type](const grpc_op& op) { return op.op == type; });
}

// A client's call comes before its handler, and what a server sends before a blocking client's
// pluck.
void OrderCalls(const grpc_op* ops, size_t count) {
  if (Has(ops, count, GRPC_OP_RECV_INITIAL_METADATA)) __tsan_release(&calls);
  if (Has(ops, count, GRPC_OP_RECV_CLOSE_ON_SERVER)) __tsan_acquire(&calls);
  if (Has(ops, count, GRPC_OP_SEND_MESSAGE)) __tsan_release(&answers);
  if (Has(ops, count, GRPC_OP_SEND_STATUS_FROM_SERVER)) __tsan_release(&answers);
}

}  // namespace

extern "C" {

// The end of a call: the threads whose batches it waited for are counted down inside the library,
// and the last of them destroys what the call held. Nothing of ours is destroyed there: reactors go
// in OnDone, before.
const char* __tsan_default_suppressions() {
  return "race:grpc::internal::Callback*Handler*::ServerCallback*Impl::~ServerCallback";
}

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count, void* tag,
                                      void* reserved) {
  static auto* const next = Next<decltype(grpc_call_start_batch)>("grpc_call_start_batch");
  OrderCalls(ops, count);
  if (!IsFunctor(tag)) {  // a blocking client's: of a call, or a message of its stream
    __tsan_release(tag);
    __tsan_release(&calls);
    return next(call, ops, count, tag, reserved);
  }
  auto* const ordered = new Ordered(static_cast<grpc_completion_queue_functor*>(tag));
  __tsan_release(ordered);
  const grpc_call_error error = next(call, ops, count, ordered, reserved);
  if (error != GRPC_CALL_OK) delete ordered;
  return error;
}

// A call's handler comes before its server's end.
void grpc_call_unref(grpc_call* call) {
  static auto* const next = Next<decltype(grpc_call_unref)>("grpc_call_unref");
  __tsan_release(&ends);
  next(call);
}

void grpc_server_destroy(grpc_server* server) {
  static auto* const next = Next<decltype(grpc_server_destroy)>("grpc_server_destroy");
  next(server);
  __tsan_acquire(&ends);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline,
                                      void* reserved) {
  static auto* const next =
      Next<decltype(grpc_completion_queue_next)>("grpc_completion_queue_next");
  const grpc_event event = next(queue, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}

grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag,
                                       gpr_timespec deadline, void* reserved) {
  static auto* const next =
      Next<decltype(grpc_completion_queue_pluck)>("grpc_completion_queue_pluck");
  const grpc_event event = next(queue, tag, deadline, reserved);
  if (event.type != GRPC_OP_COMPLETE) return event;
  __tsan_acquire(tag);
  __tsan_acquire(&answers);
  return event;
}

}  // extern "C"

namespace grpc::internal {

// Counts down to the call's end, partly in gRPC's library.
void ServerCallbackCall::ScheduleOnDone(bool inline_ondone) {
  static auto* const next = Next<void(ServerCallbackCall*, bool)>(
      "_ZN4grpc8internal18ServerCallbackCall14ScheduleOnDoneEb");
  __tsan_acquire(&callbacks_outstanding_);
  next(this, inline_ondone);
}

}  // namespace grpc::internal
