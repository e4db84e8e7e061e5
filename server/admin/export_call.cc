#include "server/admin/export_call.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/out_of_memory.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "server/admin/graph_bytes_reader.h"
#include "server/admin/worker_call.h"
#include "server/calls/queued_stream.h"

namespace latentd::server::admin {
namespace {

namespace v1 = ::latent::v1;

using Stream = calls::QueuedStream<v1::GraphBytes>;

constexpr size_t kMaxNamed = 8;

absl::Status NotCompiled(const std::vector<std::string>& ids) {
  return WithReason(absl::FailedPreconditionError(
                        absl::StrCat("these graphs are not compiled: ", ListSome(ids, kMaxNamed))),
                    "NOT_COMPILED");
}

// The graphs left to send. Touched by one at a time: the worker, or the stream's OnTaken.
class Export {
 public:
  Export(engine::GraphAdmin& graphs, AdminWorker& worker, std::string peer,
         std::shared_ptr<void> ticket)
      : graphs_(graphs), worker_(worker), peer_(std::move(peer)), ticket_(std::move(ticket)) {}
  // Its client may have left before the end.
  ~Export() {
    if (!ended_) LogAdminCall("ExportGraphs", peer_, absl::CancelledError());
  }
  Export(const Export&) = delete;
  Export& operator=(const Export&) = delete;

  // On the worker: finds out what there is, and begins.
  void Begin(const std::shared_ptr<Stream>& stream, const engine::GraphSelector& selector) {
    Go(*stream, [&]() -> absl::Status {
      RETURN_IF_ERROR(List(selector));
      return Fetch(*stream);
    });
  }

  // The client has taken what was sent.
  void Advance(Stream& stream) {
    Go(stream, [&] {
      if (offset_ < artifact_.size()) return SendChunk(stream);
      worker_.Continue(
          [this, stream = stream.Share()] { Go(*stream, [&] { return Fetch(*stream); }); });
      return absl::OkStatus();
    });
  }

  // The ticket goes first, so that a client that sees the end may start another export.
  void End(Stream& stream, const absl::Status& status) {
    ticket_.reset();
    ended_ = true;
    LogAdminCall("ExportGraphs", peer_, status);
    stream.End(status);
  }

 private:
  // A border: the stream ends with the error.
  template <typename Work>
  void Go(Stream& stream, const Work& work) {
    const absl::Status status = CatchOutOfMemory(work);
    if (!status.ok()) End(stream, status);
  }

  absl::Status List(const engine::GraphSelector& selector) {
    ASSIGN_OR_RETURN(const std::vector<engine::GraphEntry> entries, graphs_.List(selector));
    std::vector<std::string> missing;
    for (const engine::GraphEntry& entry : entries) {
      if (!engine::IsCompiled(entry.state)) missing.push_back(entry.id);
      left_.push_back(entry.id);
    }
    return missing.empty() ? absl::OkStatus() : NotCompiled(missing);
  }

  absl::Status Fetch(Stream& stream) {
    if (stream.cancelled()) return absl::OkStatus();
    if (left_.empty()) {
      End(stream, absl::OkStatus());
      return absl::OkStatus();
    }
    artifact_.clear();
    offset_ = 0;
    const auto take = [this](std::string artifact) {
      artifact_ = std::move(artifact);
      return true;
    };
    const engine::GraphSelector next = {.ids = {std::move(left_.front())}};
    left_.pop_front();
    RETURN_IF_ERROR(graphs_.Export(next, take));
    return SendChunk(stream);
  }

  absl::Status SendChunk(Stream& stream) {
    v1::GraphBytes message;
    if (offset_ == 0) message.set_total_bytes(static_cast<int64_t>(artifact_.size()));
    message.set_data(artifact_.substr(offset_, kMaxGraphChunkBytes));
    offset_ += message.data().size();
    stream.Send(std::move(message));
    return absl::OkStatus();
  }

  engine::GraphAdmin& graphs_;
  AdminWorker& worker_;
  const std::string peer_;
  std::shared_ptr<void> ticket_;
  bool ended_ = false;
  std::deque<std::string> left_;  // ids
  std::string artifact_;
  size_t offset_ = 0;  // offset of its unsent rest
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartExport(generation::CallEnvironment environment,
                                                        AdminWorker& worker,
                                                        engine::GraphSelector selector,
                                                        std::shared_ptr<void> ticket,
                                                        grpc::CallbackServerContext& context) {
  // Lives as long as the stream, which every piece of its work holds.
  const auto sending = std::make_shared<Export>(environment.engine.graphs(), worker, context.peer(),
                                                std::move(ticket));
  const auto stream = Stream::Start(environment, context);
  const absl::Status queued = CatchOutOfMemory([&] {
    stream->OnTaken([sending, raw = stream.get()] { sending->Advance(*raw); });
    return worker.Add([raw = sending.get(), stream, selector = std::move(selector)] {
      raw->Begin(stream, selector);
    });
  });
  if (!queued.ok()) sending->End(*stream, queued);
  return stream.get();
}

}  // namespace latentd::server::admin
