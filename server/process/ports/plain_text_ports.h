// Clients that speak TLS to a port in plain text. gRPC closes such a connection and says nothing;
// this logs it, once a second at most.
//
// It looks at the first bytes that are read from a connection, as gRPC reads them: through recvmsg.
#pragma once

namespace latentd::server::process {

// TCP's `port` of this machine is in plain text from now on. Thread-safe.
void ExpectPlainText(int port);

// `connection` is new and came to `listener`; both are sockets. Thread-safe.
void NoteConnection(int listener, int connection);

}  // namespace latentd::server::process
