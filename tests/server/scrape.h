// A plain HTTP client, and what a scrape says in Prometheus' text format.
#pragma once

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/files/files.h"
#include "core/metrics/families.h"

namespace latentd::testing {

// To HOST:PORT; one that could not be made reads as the end.
class TcpConnection {
 public:
  explicit TcpConnection(const std::string& address) : socket_(Connect(address)) {}

  void Send(absl::string_view bytes) {
    const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    (void)sent;  // a failure shows in the answer
  }

  // Ends what another thread does with it.
  void Shutdown() { shutdown(socket_.get(), SHUT_RDWR); }

  // Until the other side ends.
  std::string ReadAll() {
    std::string all;
    char buffer[4096];
    for (ssize_t count; (count = recv(socket_.get(), buffer, sizeof(buffer), 0)) > 0;) {
      all.append(buffer, static_cast<size_t>(count));
    }
    return all;
  }

 private:
  static int Connect(const std::string& address) {
    const size_t colon = address.rfind(':');
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(address.substr(0, colon).c_str(), address.c_str() + colon + 1, &hints,
                    &found) != 0) {
      return -1;
    }
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, &freeaddrinfo);
    for (const addrinfo* target = found; target != nullptr; target = target->ai_next) {
      const int descriptor = socket(target->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (connect(descriptor, target->ai_addr, target->ai_addrlen) == 0) return descriptor;
      close(descriptor);
    }
    return -1;
  }

  FileDescriptor socket_;
};

// The whole answer: status line, headers, body. Empty if there was none.
inline std::string HttpAsk(TcpConnection& connection, const std::string& method,
                           const std::string& path) {
  connection.Send(
      absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"));
  return connection.ReadAll();
}

inline std::string HttpGet(TcpConnection& connection, const std::string& path) {
  return HttpAsk(connection, "GET", path);
}

inline std::string HttpGet(const std::string& address, const std::string& path) {
  TcpConnection connection(address);
  return HttpGet(connection, path);
}

struct ScrapedFamily {
  std::string help, type;
  std::map<std::string, std::set<std::string>> labels;  // values by name; without le and quantile
};
using Scrape = std::map<std::string, ScrapedFamily>;

inline const char* TypeName(metrics::Type type) {
  switch (type) {
    case metrics::Type::kGauge:
      return "gauge";
    case metrics::Type::kHistogram:
      return "histogram";
    case metrics::Type::kCounter:
      break;
  }
  return "counter";
}

// Adds the labels of `name{a="b",c="d"} 1`, whose values hold no comma.
inline void AddLabels(absl::string_view line, ScrapedFamily& family) {
  const size_t begin = line.find('{'), end = line.rfind('}');
  if (begin == line.npos) return;
  const absl::string_view labels = line.substr(begin + 1, end - begin - 1);
  for (absl::string_view label : absl::StrSplit(labels, ',')) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(label, absl::MaxSplits('=', 1));
    if (parts.first == "le" || parts.first == "quantile") continue;
    family.labels[parts.first].insert(parts.second.substr(1, parts.second.size() - 2));
  }
}

inline Scrape ParseScrape(absl::string_view answer) {
  Scrape scrape;
  ScrapedFamily* current = nullptr;
  for (absl::string_view line : absl::StrSplit(answer, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 3));
    if (absl::StartsWith(line, "# HELP ")) {
      current = &scrape[words[2]];
      current->help = words[3];
    } else if (absl::StartsWith(line, "# TYPE ")) {
      current = &scrape[words[2]];
      current->type = words[3];
    } else if (current != nullptr) {
      AddLabels(line, *current);
    }
  }
  return scrape;
}

}  // namespace latentd::testing
