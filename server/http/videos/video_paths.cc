#include "server/http/videos/video_paths.h"

#include <memory>
#include <utility>

#include "core/base/errors/out_of_memory.h"
#include "core/engine/api/serving.h"
#include "server/http/exchange/error_body.h"
#include "server/http/exchange/http_status.h"
#include "server/http/openai/openai_dialect.h"
#include "server/http/videos/video_answer.h"

namespace latentd::server::http {
namespace {

// Empty until the checkpoints are loaded.
std::vector<ServedModel> VideoModels(const engine::Engine& engine) {
  if (!engine::CheckServing(engine.status()).ok()) return {};
  return VideoModelsOf(engine.capabilities());
}

// With the id of the request, by which the server's log knows it.
Answer WithRequestId(Answer answer, const VideoJob& job) {
  answer.headers.emplace_back("x-request-id", job.request_id());
  return answer;
}

}  // namespace

Answer VideoPaths::Say(const nlohmann::ordered_json& json) const {
  return {.headers = {{"Cache-Control", "no-store"}}, .body = AnswerBody(ToText(json))};
}

Answer VideoPaths::Create(Request http, generation::Client client) const {
  if (const absl::Status room = jobs_.CheckRoom(); !room.ok()) return OpenAiRefusal(room);
  const std::string caller = client.caller;
  const auto job = std::make_shared<VideoJob>(
      environment_, std::move(client), VideoModels(environment_.engine), jobs_.limits().bytes);
  if (const absl::Status entered = job->Enter(); !entered.ok()) return OpenAiRefusal(entered);
  const absl::Status started = job->Start(std::move(http));
  if (!started.ok()) return WithRequestId(OpenAiRefusal(started, job->form().names), *job);
  const absl::Status listed = CatchOutOfMemory([&] { jobs_.Add(caller, job); });
  if (!listed.ok()) {
    job->Delete();
    return WithRequestId(OpenAiRefusal(listed), *job);
  }
  return WithRequestId(Say(VideoJson(*job, jobs_.limits().time)), *job);
}

Answer VideoPaths::List(const std::string& caller, absl::string_view query) const {
  jobs_.DropOld();
  const auto list = VideoList(jobs_.Of(caller), query, jobs_.limits().time);
  return list.ok() ? Say(*list) : OpenAiRefusal(list.status());
}

Answer VideoPaths::Show(const std::string& caller, absl::string_view id) const {
  jobs_.DropOld();
  const auto job = jobs_.Find(caller, id);
  return job.ok() ? Say(VideoJson(**job, jobs_.limits().time)) : OpenAiRefusal(job.status());
}

Answer VideoPaths::Fetch(const std::string& caller, absl::string_view id,
                         absl::string_view query) const {
  jobs_.DropOld();
  const auto job = jobs_.Find(caller, id);
  if (!job.ok()) return OpenAiRefusal(job.status());
  auto content = VideoContent(**job, query);
  return content.ok() ? *std::move(content) : OpenAiRefusal(content.status());
}

Answer VideoPaths::Delete(const std::string& caller, absl::string_view id) const {
  const absl::Status deleted = jobs_.Delete(caller, id);
  if (!deleted.ok()) return OpenAiRefusal(deleted);
  return Say({{"id", id}, {"object", "video.deleted"}, {"deleted", true}});
}

}  // namespace latentd::server::http
