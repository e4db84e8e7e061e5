// A client of HTTP/1.1 that sends the bytes that it is told to, and reads one answer at a time.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace latentd::server::http {

struct Received {
  int code = 0;                                // 0: the connection was closed
  std::map<std::string, std::string> headers;  // by their names in lower case
  std::string body;
};

class HttpClient {
 public:
  // "127.0.0.1:PORT". `from` is the address of this machine's that it comes from: to the server,
  // 127.0.0.2 is another host.
  explicit HttpClient(const std::string& address, const char* from = "127.0.0.1")
      : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in own = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    inet_pton(AF_INET, from, &own.sin_addr);
    to.sin_port =
        htons(static_cast<uint16_t>(std::atoi(address.substr(address.rfind(':') + 1).c_str())));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = bind(socket_, reinterpret_cast<sockaddr*>(&own), sizeof(own)) == 0 &&
                 connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  }
  virtual ~HttpClient() { Close(); }
  HttpClient(const HttpClient&) = delete;

  bool connected() const { return connected_; }

  void Close() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }

  void Send(const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t now = SendSome(bytes.data() + sent, bytes.size() - sent);
      if (now <= 0) return;
      sent += static_cast<size_t>(now);
    }
  }

  // A request; more headers are lines, each with its end.
  static std::string Format(const std::string& method, const std::string& path,
                            const std::string& body = "", const std::string& headers = "") {
    return absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers,
                        body.empty() ? "" : absl::StrCat("Content-Length: ", body.size(), "\r\n"),
                        "\r\n", body);
  }
  Received Ask(const std::string& method, const std::string& path, const std::string& body = "",
               const std::string& headers = "") {
    Send(Format(method, path, body, headers));
    return Read(method != "HEAD");
  }

  // The next answer, whole.
  Received Read(bool has_body = true) {
    Received received = ReadHead();
    if (received.code == 0 || !has_body) return received;
    if (received.headers.count("content-length") > 0) {
      received.body =
          Take(static_cast<size_t>(std::atoll(received.headers["content-length"].c_str())));
    } else if (received.headers["transfer-encoding"] == "chunked") {
      for (std::string chunk = ReadChunk(); !chunk.empty(); chunk = ReadChunk())
        received.body += chunk;
    } else {
      while (Fill()) {
      }
      received.body = std::exchange(buffer_, "");
    }
    return received;
  }

  Received ReadHead() {
    Received received;
    size_t end = std::string::npos;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!Fill()) return received;
    }
    const std::string head = Take(end + 4);
    bool first = true;
    for (const absl::string_view line : absl::StrSplit(head, "\r\n")) {
      if (std::exchange(first, false)) {
        received.code = std::atoi(std::string(line.substr(9, 3)).c_str());
      } else if (const size_t colon = line.find(": "); colon != absl::string_view::npos) {
        received.headers[absl::AsciiStrToLower(line.substr(0, colon))] =
            std::string(line.substr(colon + 2));
      }
    }
    return received;
  }

  // The next chunk of a stream; empty: it has ended.
  std::string ReadChunk() {
    size_t end = std::string::npos;
    while ((end = buffer_.find("\r\n")) == std::string::npos) {
      if (!Fill()) return "";
    }
    const size_t size = std::stoul(Take(end + 2), nullptr, 16);
    std::string chunk = Take(size + 2);
    return chunk.substr(0, size);
  }

  // True once the server has closed the connection.
  bool IsClosed() { return !Fill(); }

 protected:
  virtual ssize_t SendSome(const char* bytes, size_t size) {
    return send(socket_, bytes, size, MSG_NOSIGNAL);
  }
  virtual ssize_t ReceiveSome(char* bytes, size_t size) { return recv(socket_, bytes, size, 0); }

  int descriptor() const { return socket_; }

 private:
  bool Fill() {
    char bytes[4096];
    const ssize_t size = ReceiveSome(bytes, sizeof(bytes));
    if (size > 0) buffer_.append(bytes, static_cast<size_t>(size));
    return size > 0;
  }

  std::string Take(size_t size) {
    while (buffer_.size() < size && Fill()) {
    }
    std::string taken = buffer_.substr(0, size);
    buffer_.erase(0, taken.size());
    return taken;
  }

  int socket_;
  bool connected_ = false;
  std::string buffer_;
};

}  // namespace latentd::server::http
