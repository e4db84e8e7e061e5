#include "server/process/ports/plain_text_ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "core/base/files/files.h"

namespace latentd::server::process {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTlsHello = "\x16\x03\x01 and so on";

// Accepts and reads as gRPC does.
class PlainTextPortsTest : public ::testing::Test {
 protected:
  PlainTextPortsTest() : listener_(socket(AF_INET6, SOCK_STREAM, 0)) {
    address_.sin6_family = AF_INET6;
    address_.sin6_addr = in6addr_loopback;
    socklen_t size = sizeof(address_);
    EXPECT_EQ(bind(listener_.get(), Address(), size), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    EXPECT_EQ(getsockname(listener_.get(), Address(), &size), 0);
  }

  // The log after a client has sent these words, one after the other.
  std::string LogOf(const std::vector<std::string>& words) {
    const FileDescriptor client(socket(AF_INET6, SOCK_STREAM, 0));
    EXPECT_EQ(connect(client.get(), Address(), sizeof(address_)), 0);
    const FileDescriptor connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ::testing::internal::CaptureStdout();
    for (const std::string& word : words) {
      EXPECT_EQ(send(client.get(), word.data(), word.size(), 0), ssize_t(word.size()));
      EXPECT_EQ(Receive(connection.get()), word);
    }
    return ::testing::internal::GetCapturedStdout();
  }

  int port() const { return ntohs(address_.sin6_port); }

 private:
  static std::string Receive(int connection) {
    std::string text(100, '\0');
    iovec part = {text.data(), text.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    text.resize(recvmsg(connection, &message, 0));
    return text;
  }

  sockaddr* Address() { return reinterpret_cast<sockaddr*>(&address_); }

  const FileDescriptor listener_;
  sockaddr_in6 address_ = {};
};

TEST_F(PlainTextPortsTest, TlsIsLoggedWhereNobodyExpectsIt) {
  const auto is_logged = HasSubstr("the client speaks TLS, and this port does not");
  EXPECT_THAT(LogOf({kTlsHello}), Not(is_logged));
  ExpectPlainText(port());
  EXPECT_THAT(LogOf({"PRI * HTTP/2.0"}), Not(is_logged));
  EXPECT_THAT(LogOf({"P", kTlsHello}), Not(is_logged));
  EXPECT_THAT(LogOf({kTlsHello}), is_logged);
}

}  // namespace
}  // namespace latentd::server::process
