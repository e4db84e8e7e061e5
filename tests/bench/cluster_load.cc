// Steady load by latentd's own client, for cluster.py: asks for the requests in turn, each worker
// through a client of its own, until each was asked for once and the time is over.
//
// Usage: cluster_load SERVER SECONDS WORKERS    with one request a line on standard input
// (latent.v1.GenerateRequest in protobuf's text format)
//
// Prints a line for every request that ended: its number in the input, seconds from start to end,
// how often it was tried again, the gRPC code, the digest of its picture.
#include <google/protobuf/text_format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "client/rpc/latent_client.h"
#include "core/base/text/digest.h"

namespace latentd::bench {
namespace {

namespace v1 = ::latent::v1;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes kTimeout(2);

class Load {
 public:
  Load(std::string server, double seconds, std::vector<v1::GenerateRequest> requests)
      : server_(std::move(server)),
        requests_(std::move(requests)),
        end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}

  void Work() {
    client::Client client(server_);
    for (size_t number; (number = next_++) < requests_.size() || Clock::now() < end_;) {
      Draw(client, number % requests_.size());
    }
  }

 private:
  void Draw(client::Client& client, size_t number) {
    std::string digest = "-";
    int retries = 0;
    const Clock::time_point start = Clock::now();
    const grpc::Status status = client.Generate(
        requests_[number],
        {.on_image = [&](const v1::Image& image) { digest = DigestOf(image.data()).ToString(); },
         .on_retry = [&](const client::Retry& retry) { Tell(retry, retries); }},
        kTimeout);
    const std::chrono::duration<double> seconds = Clock::now() - start;
    absl::MutexLock lock(&mutex_);
    std::cout << absl::StreamFormat("%d %.6f %d %d %s\n", number, seconds.count(), retries,
                                    static_cast<int>(status.error_code()), digest)
              << std::flush;
    if (!status.ok()) std::cerr << "cluster_load: lost: " << status.error_message() << "\n";
  }

  void Tell(const client::Retry& retry, int& retries) {
    ++retries;
    absl::MutexLock lock(&mutex_);
    std::cerr << absl::StreamFormat(
        "cluster_load: again in %.2f s: %d %s\n", absl::ToDoubleSeconds(retry.pause),
        static_cast<int>(retry.status.error_code()), retry.status.error_message());
  }

  const std::string server_;
  const std::vector<v1::GenerateRequest> requests_;
  const Clock::time_point end_;
  std::atomic<size_t> next_ = 0;
  absl::Mutex mutex_;  // held while a line is printed
};

int Run(const std::string& server, double seconds, int workers) {
  std::vector<v1::GenerateRequest> requests;
  for (std::string line; std::getline(std::cin, line);) {
    if (!google::protobuf::TextFormat::ParseFromString(line, &requests.emplace_back())) return 2;
  }
  if (requests.empty()) return 2;
  Load load(server, seconds, std::move(requests));
  std::vector<std::thread> threads;
  for (int i = 0; i < workers; ++i) threads.emplace_back(&Load::Work, &load);
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace
}  // namespace latentd::bench

int main(int argc, char** argv) {
  const double seconds = argc == 4 ? std::atof(argv[2]) : -1;
  const int workers = argc == 4 ? std::atoi(argv[3]) : 0;
  if (seconds < 0 || workers <= 0) {
    std::cerr << "usage: cluster_load SERVER SECONDS WORKERS < REQUESTS\n";
    return 2;
  }
  return latentd::bench::Run(argv[1], seconds, workers);
}
