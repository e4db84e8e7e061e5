#include "server/http/videos/video_jobs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"

namespace latentd::server::http {
namespace {

constexpr absl::Duration kTryAgain = absl::Seconds(5);

absl::Status NoSuchVideo() {
  return WithReason(
      absl::NotFoundError("there is no such video: it was deleted, was dropped after its time, "
                          "belongs to another caller, or the server has started again since"),
      "NO_SUCH_VIDEO");
}

}  // namespace

absl::Status VideoJobs::CheckRoom() {
  DropUntil(limits_.bytes - 1);
  if (held_bytes() < limits_.bytes) return absl::OkStatus();
  return WithRetryDelay(
      WithReason(absl::ResourceExhaustedError(
                     absl::StrCat("files of videos hold more than the ", limits_.bytes,
                                  " bytes that are for them, and none of them can be dropped now")),
                 "TOO_MANY_VIDEOS"),
      kTryAgain);
}

void VideoJobs::Add(const std::string& caller, std::shared_ptr<VideoJob> job) {
  absl::MutexLock lock(&mutex_);
  entries_.push_back({caller, std::move(job)});
}

VideoJobs::Entries::const_iterator VideoJobs::Look(const std::string& caller,
                                                   absl::string_view id) const {
  return std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.caller == caller && entry.job->id() == id;
  });
}

absl::StatusOr<std::shared_ptr<VideoJob>> VideoJobs::Find(const std::string& caller,
                                                          absl::string_view id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = Look(caller, id);
  if (found == entries_.end()) return NoSuchVideo();
  return found->job;
}

absl::Status VideoJobs::Delete(const std::string& caller, absl::string_view id) {
  std::shared_ptr<VideoJob> job;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = Look(caller, id);
    if (found == entries_.end()) return NoSuchVideo();
    job = Take(found);
  }
  if (!job->use().is_over) job->Delete();
  return absl::OkStatus();
}

std::vector<std::shared_ptr<VideoJob>> VideoJobs::Of(const std::string& caller) const {
  std::vector<std::shared_ptr<VideoJob>> jobs;
  absl::MutexLock lock(&mutex_);
  for (const Entry& entry : entries_) {
    if (entry.caller == caller) jobs.push_back(entry.job);
  }
  return jobs;
}

void VideoJobs::DropOld() { DropUntil(limits_.bytes); }

void VideoJobs::DropUntil(int64_t most_bytes) {
  std::vector<std::shared_ptr<VideoJob>> dropped, kept;  // gone once nothing is locked
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = clock_.Monotonic();
    for (auto oldest = Oldest(); oldest != entries_.end(); oldest = Oldest()) {
      const bool is_old = now - oldest->job->use().ended >= limits_.time;
      if (!is_old && !IsTooMuch(most_bytes)) break;
      dropped.push_back(Take(oldest));
    }
    for (const Entry& entry : entries_) kept.push_back(entry.job);
  }
  for (const auto& job : kept) {
    if (!job->use().is_over) job->LeaveIfAborted();
  }
}

void VideoJobs::EndAll() {
  Entries entries;
  {
    absl::MutexLock lock(&mutex_);
    entries = entries_;
  }
  for (const Entry& entry : entries) {
    if (!entry.job->use().is_over) entry.job->Delete();
  }
}

VideoJobs::Entries::const_iterator VideoJobs::Oldest() const {
  auto oldest = entries_.end();
  absl::Time ended = absl::InfiniteFuture();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const VideoJob::Use use = entry->job->use();
    if (!use.is_over || use.ended >= ended) continue;
    oldest = entry;
    ended = use.ended;
  }
  return oldest;
}

std::shared_ptr<VideoJob> VideoJobs::Take(Entries::const_iterator entry) {
  std::shared_ptr<VideoJob> job = entry->job;
  std::erase_if(dropped_, [](const auto& file) { return file.expired(); });
  if (const auto file = job->state().file) dropped_.push_back(file);
  entries_.erase(entry);
  return job;
}

bool VideoJobs::IsTooMuch(int64_t most_bytes) const {
  size_t ended = 0;
  int64_t bytes = 0;
  for (const Entry& entry : entries_) {
    const VideoJob::Use use = entry.job->use();
    ended += use.is_over ? 1 : 0;
    bytes += use.bytes;
  }
  return ended > limits_.ended || bytes > most_bytes;
}

int64_t VideoJobs::held_bytes() const {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.job->use().bytes;
  for (const auto& dropped : dropped_) {
    const auto file = dropped.lock();
    if (file != nullptr) bytes += static_cast<int64_t>(file->size());
  }
  return bytes;
}

}  // namespace latentd::server::http
