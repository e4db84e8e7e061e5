// The latentd side of the bench: draws through gRPC when told to, on standard input, and says how
// long it took, on standard output, as peer.py does for diffusers.
//
// Usage: bench_client SERVER REQUEST    (REQUEST: a latent.v1.GenerateRequest in protobuf's text
// format)
#include <google/protobuf/text_format.h>

#include <chrono>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "client/rpc/latent_client.h"

namespace latentd::bench {
namespace {

namespace v1 = ::latent::v1;
using HealthResponse = grpc::health::v1::HealthCheckResponse;
using Clock = std::chrono::steady_clock;

constexpr auto kPollInterval = std::chrono::milliseconds(2);

struct Drawing {
  std::string picture;  // an encoded file
  double seconds = 0;
  double end = 0;  // on the monotonic clock that Python reads, too
};

double SecondsOf(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// The server answers while it loads; this waits until it serves. False when it cannot be reached.
bool WaitUntilServing(client::Client& client) {
  HealthResponse::ServingStatus status = HealthResponse::UNKNOWN;
  while (client.CheckHealth("", status).ok()) {
    if (status == HealthResponse::SERVING) return true;
    std::this_thread::sleep_for(kPollInterval);
  }
  return false;
}

grpc::Status Draw(client::Client& client, const v1::GenerateRequest& request, Drawing& drawing) {
  const Clock::time_point start = Clock::now();
  grpc::Status status = client.Generate(request, {.on_image = [&](v1::Image image) {
                                          drawing.picture = std::move(*image.mutable_data());
                                        }});
  const Clock::time_point end = Clock::now();
  drawing.seconds = SecondsOf(end - start);
  drawing.end = SecondsOf(end.time_since_epoch());
  return status;
}

std::string Report(const std::vector<Drawing>& drawings) {
  std::ostringstream json;
  json << std::fixed << std::setprecision(6) << "{\"seconds\": [";
  for (size_t i = 0; i < drawings.size(); ++i) json << (i == 0 ? "" : ", ") << drawings[i].seconds;
  json << "], \"first_end\": " << drawings.front().end << "}";
  return json.str();
}

// One line of input: "draw N FILE".
bool Serve(client::Client& client, const v1::GenerateRequest& request, const std::string& line) {
  std::istringstream words(line);
  std::string verb, file;
  size_t count = 0;
  if (!(words >> verb >> count >> file) || verb != "draw" || count == 0) {
    std::cerr << "bench_client: expected `draw N FILE`, not: " << line << "\n";
    return false;
  }
  std::vector<Drawing> drawings(count);
  for (Drawing& drawing : drawings) {
    const grpc::Status status = Draw(client, request, drawing);
    if (!status.ok()) {
      std::cerr << "bench_client: " << status.error_message() << "\n";
      return false;
    }
  }
  std::ofstream(file, std::ios::binary) << drawings.back().picture;
  std::cout << Report(drawings) << std::endl;
  return true;
}

int Run(const std::string& server, const std::string& text) {
  v1::GenerateRequest request;
  if (!google::protobuf::TextFormat::ParseFromString(text, &request)) return 2;
  std::string line;
  if (!std::getline(std::cin, line)) return 0;
  client::Client client(server);
  if (!WaitUntilServing(client)) {
    std::cerr << "bench_client: " << server << " does not answer\n";
    return 3;
  }
  do {
    if (!Serve(client, request, line)) return 1;
  } while (std::getline(std::cin, line));
  return 0;
}

}  // namespace
}  // namespace latentd::bench

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: bench_client SERVER REQUEST\n";
    return 2;
  }
  return latentd::bench::Run(argv[1], argv[2]);
}
