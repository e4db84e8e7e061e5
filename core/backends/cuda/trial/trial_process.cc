#include "core/backends/cuda/trial/trial_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/backends/cuda/trial/trial_packets.h"
#include "core/base/errors/status_macros.h"
#include "core/device/device_fault.h"

namespace latentd::backends::cuda {
namespace {

// A shape's candidates that end a child are few; more say that something else is wrong.
constexpr size_t kMostFaults = 4;
// Children in a row that end before they name an algorithm: one may just have had nothing to do.
constexpr int kMostIdleEnds = 2;
// A child has to load and to open the GPU first.
constexpr absl::Duration kStartPatience = absl::Minutes(1);
constexpr absl::Duration kIdle = absl::Seconds(10);
// Life of a child that hangs, and whose parent has ended.
constexpr unsigned kMostSeconds = 120;
constexpr size_t kMostPacketBytes = size_t{64} << 10;

// Waits until there is something to read, or the other side has gone; false: neither in that time.
bool AwaitReadable(int socket, absl::Duration patience) {
  pollfd readable = {.fd = socket, .events = POLLIN, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(patience)));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

// nullopt: the other side has gone.
std::optional<std::string> ReceivePacket(int socket) {
  std::string packet(kMostPacketBytes, '\0');
  ssize_t size = 0;
  do {
    size = recv(socket, packet.data(), packet.size(), 0);
  } while (size < 0 && errno == EINTR);
  if (size <= 0) return std::nullopt;
  packet.resize(static_cast<size_t>(size));
  return packet;
}

bool SendPacket(int socket, const std::string& packet) {
  ssize_t size = 0;
  do {
    size = send(socket, packet.data(), packet.size(), MSG_NOSIGNAL);
  } while (size < 0 && errno == EINTR);
  return size == static_cast<ssize_t>(packet.size());
}

// In a group of its own, so that a terminal's signals are not sent to it, with signals as a program
// starts with, and with no file of ours but the socket, and standard error.
absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& command, int socket) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, socket, STDIN_FILENO);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  pid_t process = 0;
  const int error =
      posix_spawn(&process, arguments[0], &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error == 0) return process;
  return absl::UnavailableError(absl::StrCat("starting ", command[0], ": ", strerror(error)));
}

}  // namespace

TrialProcess::~TrialProcess() {
  absl::MutexLock lock(&mutex_);
  if (child_.has_value()) End();
}

absl::Status TrialProcess::Start() {
  std::array<int, 2> ends = {};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return absl::UnavailableError(absl::StrCat("a socket for trials: ", strerror(errno)));
  }
  FileDescriptor ours(ends[0]);
  const FileDescriptor theirs(ends[1]);
  ASSIGN_OR_RETURN(const pid_t process, Spawn(options_.command, theirs.get()));
  child_.emplace(Child{process, std::move(ours)});
  return absl::OkStatus();
}

std::string TrialProcess::End() {
  int status = 0;
  const pid_t process = child_->process;
  child_.reset();
  // One that ended by itself says how all the same.
  kill(process, SIGKILL);
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? absl::StrCat("signal ", WTERMSIG(status))
                             : absl::StrCat("exit code ", WEXITSTATUS(status));
}

std::optional<TrialReport> TrialProcess::Receive(absl::Duration patience) {
  if (!AwaitReadable(child_->socket.get(), patience)) return std::nullopt;
  const std::optional<std::string> packet = ReceivePacket(child_->socket.get());
  if (!packet.has_value()) return std::nullopt;
  absl::StatusOr<TrialReport> report = ReadReport(*packet);
  if (!report.ok()) return std::nullopt;
  return *std::move(report);
}

std::optional<absl::StatusOr<Choice>> TrialProcess::Ask(const TrialTask& task, std::string& at) {
  if (!SendPacket(child_->socket.get(), Write(task))) return std::nullopt;
  while (true) {
    std::optional<TrialReport> report = Receive(at.empty() ? kStartPatience : options_.patience);
    if (!report.has_value()) return std::nullopt;
    if (report->number != task.number) continue;  // the report of a task that was given up
    if (report->answer.has_value()) return std::move(report->answer);
    at = std::move(report->algorithm);
  }
}

void TrialProcess::LeaveOut(std::string algorithm, const std::string& how, TrialTask& task) const {
  task.left_out.push_back(std::move(algorithm));
  if (options_.on_fault) options_.on_fault();
  if (!options_.warn) return;
  options_.warn(absl::StrCat("an algorithm of cuBLASLt is left out for ", task.shape.Key(),
                             ": the process that tried it ended with ", how));
}

absl::Status TrialProcess::NoUse() {
  const bool known = std::exchange(of_no_use_, true);
  if (!known && options_.warn) {
    options_.warn(
        "algorithms of cuBLASLt are tried in this process, which one that faults would end: no "
        "process of their own stays");
  }
  return absl::UnavailableError("no process that tries algorithms stays");
}

absl::StatusOr<Choice> TrialProcess::Choose(const ProductShape& shape) {
  absl::MutexLock lock(&mutex_);
  TrialTask task{.number = ++tasks_, .shape = shape, .left_out = {}};
  for (int idle_ends = 0; idle_ends < kMostIdleEnds && !of_no_use_;) {
    if (!child_.has_value() && !Start().ok()) break;
    std::string at;
    if (auto answer = Ask(task, at)) return *std::move(answer);
    const std::string how = End();
    if (at.empty()) {
      ++idle_ends;
      continue;
    }
    LeaveOut(std::move(at), how, task);
    if (task.left_out.size() == kMostFaults) {
      return absl::InternalError(
          absl::StrCat("processes that tried algorithms for ", shape.Key(), " ended one by one"));
    }
  }
  return NoUse();
}

int ServeTrials(int socket, const TryProduct& try_product) {
  // Signals that stop the parent are ignored: this process ends with it.
  for (const int stop : {SIGTERM, SIGINT, SIGHUP}) signal(stop, SIG_IGN);
  uint32_t number = 0;
  const auto announce = [&](absl::string_view algorithm) {
    alarm(kMostSeconds);
    SendPacket(socket, Write(TrialReport{number, std::string(algorithm), std::nullopt}));
  };
  while (AwaitReadable(socket, kIdle)) {
    const std::optional<std::string> packet = ReceivePacket(socket);
    if (!packet.has_value()) return 0;
    const absl::StatusOr<TrialTask> task = ReadTask(*packet);
    if (!task.ok()) return 1;
    number = task->number;
    const absl::StatusOr<Choice> chosen =
        try_product(task->shape, {.left_out = task->left_out, .announce = announce});
    if (device::IsFault(chosen.status())) _exit(1);  // work on the device may hang
    if (!SendPacket(socket, Write(TrialReport{number, "", chosen}))) return 0;
    alarm(0);
  }
  return 0;
}

}  // namespace latentd::backends::cuda
