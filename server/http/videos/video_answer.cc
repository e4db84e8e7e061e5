#include "server/http/videos/video_answer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "server/http/exchange/error_body.h"
#include "server/http/exchange/proto_json.h"
#include "server/http/exchange/target.h"

namespace latentd::server::http {
namespace {

using Json = nlohmann::ordered_json;
using Jobs = std::vector<std::shared_ptr<VideoJob>>;
using VideoStatus = VideoJob::Status;

constexpr int kDefaultPage = 20, kLargestPage = 100;
constexpr char kUnreadPrompt[] =
    "the prompt is not read: the model sets the image in motion, and knows no words";

const char* StatusName(VideoStatus status) {
  switch (status) {
    case VideoStatus::kQueued:
      return "queued";
    case VideoStatus::kInProgress:
      return "in_progress";
    case VideoStatus::kCompleted:
      return "completed";
    case VideoStatus::kFailed:
      break;
  }
  return "failed";
}

// Details that OpenAI's clients pass over.
Json OwnDetails(const VideoJob& job, const VideoJob::State& state) {
  Json details = {{"request_id", job.request_id()}};
  if (state.status == VideoStatus::kQueued) details["position"] = state.position;
  details["step"] = state.step;
  details["total_steps"] = state.total_steps;
  if (state.file != nullptr) {
    details["mime_type"] = state.mime_type;
    details["bytes"] = state.file->size();
    Json all = ToJson(state.completed);
    for (auto& [name, value] : all.items()) details[name] = std::move(value);
  }
  if (!job.form().prompt.empty()) details["warnings"].push_back(kUnreadPrompt);
  return details;
}

// "b" of a query such as "a=1&after=b". Nothing: it is not there.
std::optional<std::string> QueryValue(absl::string_view query, absl::string_view name) {
  for (const absl::string_view pair : absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(pair, absl::MaxSplits('=', 1));
    if (DecodePercent(parts.first) == name) return DecodePercent(parts.second);
  }
  return std::nullopt;
}

absl::StatusOr<size_t> PageLimit(absl::string_view query) {
  const std::optional<std::string> text = QueryValue(query, "limit");
  int limit = kDefaultPage;
  if (text && (!absl::SimpleAtoi(*text, &limit) || limit < 1 || limit > kLargestPage)) {
    return InvalidFields({{"limit", absl::StrCat("must be from 1 to ", kLargestPage, ", is ",
                                                 latentd::Excerpt(*text))}});
  }
  return static_cast<size_t>(limit);
}

// In the order that the query asks for: by default the newest first.
absl::StatusOr<Jobs> InOrder(Jobs jobs, absl::string_view query) {
  const std::string order = QueryValue(query, "order").value_or("desc");
  if (order != "asc" && order != "desc") {
    return InvalidFields(
        {{"order", absl::StrCat("must be asc or desc, is ", latentd::Excerpt(order))}});
  }
  if (order == "desc") std::reverse(jobs.begin(), jobs.end());
  return jobs;
}

// The first one behind that of `after`; nothing: it is none of them.
std::optional<size_t> PageBegin(const Jobs& jobs, const std::optional<std::string>& after) {
  if (!after) return 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i]->id() == *after) return i + 1;
  }
  return std::nullopt;
}

Json FailureOf(const absl::Status& status) {
  const Json error = OpenAiError(status)["error"];
  return {{"code", error["code"]}, {"message", error["message"]}};
}

}  // namespace

Json VideoJson(const VideoJob& job, absl::Duration kept_for) {
  const VideoJob::State state = job.state();
  const VideoForm& form = job.form();
  const bool is_over =
      state.status == VideoStatus::kCompleted || state.status == VideoStatus::kFailed;
  Json video = {{"id", job.id()},
                {"object", "video"},
                {"model", form.model},
                {"status", StatusName(state.status)},
                {"progress", state.progress},
                {"created_at", absl::ToUnixSeconds(job.created())},
                {"completed_at", nullptr},
                {"expires_at", nullptr},
                {"size", form.size},
                {"seconds", form.seconds},
                {"prompt", form.prompt},
                {"remixed_from_video_id", nullptr},
                {"error", nullptr}};
  if (state.status == VideoStatus::kCompleted)
    video["completed_at"] = absl::ToUnixSeconds(state.ended);
  if (is_over) video["expires_at"] = absl::ToUnixSeconds(state.ended + kept_for);
  if (state.status == VideoStatus::kFailed) video["error"] = FailureOf(state.error);
  video["latentd"] = OwnDetails(job, state);
  return video;
}

absl::StatusOr<Json> VideoList(const Jobs& jobs, absl::string_view query, absl::Duration kept_for) {
  ASSIGN_OR_RETURN(const size_t limit, PageLimit(query));
  ASSIGN_OR_RETURN(const Jobs ordered, InOrder(jobs, query));
  const std::optional<size_t> begin = PageBegin(ordered, QueryValue(query, "after"));
  if (!begin) return InvalidFields({{"after", "is the id of no video of this caller"}});
  const size_t end = std::min(ordered.size(), *begin + limit);
  Json data = Json::array();
  for (size_t i = *begin; i < end; ++i) data.push_back(VideoJson(*ordered[i], kept_for));
  Json list = {{"object", "list"},
               {"first_id", nullptr},
               {"last_id", nullptr},
               {"has_more", end < ordered.size()}};
  if (!data.empty()) {
    list["first_id"] = data.front()["id"];
    list["last_id"] = data.back()["id"];
  }
  list["data"] = std::move(data);
  return list;
}

absl::StatusOr<Answer> VideoContent(const VideoJob& job, absl::string_view query) {
  const std::string variant = QueryValue(query, "variant").value_or("video");
  if (variant != "video") {
    return InvalidFields(
        {{"variant", absl::StrCat("must be video, is ", latentd::Excerpt(variant))}});
  }
  const VideoJob::State state = job.state();
  if (state.status == VideoStatus::kFailed) {
    return WithReason(
        absl::NotFoundError(absl::StrCat("the video has failed: ", state.error.message())),
        "VIDEO_FAILED");
  }
  if (state.file == nullptr) {
    return WithReason(absl::NotFoundError(
                          absl::StrCat("the video is not ready: it is ", StatusName(state.status))),
                      "VIDEO_NOT_READY");
  }
  Answer answer = {.content_type = state.mime_type, .headers = {{"Cache-Control", "no-store"}}};
  answer.body.AddBytes(*state.file, state.file);
  return answer;
}

}  // namespace latentd::server::http
