"""DNS as a cluster has it: one name, of which the addresses change."""

import socket
import struct
import threading

ADDRESS, INTERNET, NO_SUCH_NAME = 1, 1, 3
ANSWER = 0x8400  # an answer, and from who knows


class NameServer:
    """Answers for `name`, with what `addresses` is at that time; knows no other name, and no IPv6."""

    def __init__(self, name):
        self.addresses = []
        self._name = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
        self._socket = socket.socket(type=socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:{}".format(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while True:
            query, client = self._socket.recvfrom(65535)
            if len(query) < 12:  # close()'s
                return
            self._socket.sendto(self._answer(query), client)

    def _answer(self, query):
        end = query.index(b"\0", 12) + 1
        name, question = query[12:end], query[12:end + 4]
        kind, = struct.unpack("!H", question[-4:-2])
        known = name.lower() == self._name
        found = self.addresses if known and kind == ADDRESS else []
        records = b"".join(struct.pack("!HHHIH", 0xC00C, ADDRESS, INTERNET, 1, 4) + socket.inet_aton(address)
                           for address in found)
        return query[:2] + struct.pack("!HHHHH", ANSWER if known else ANSWER | NO_SUCH_NAME, 1, len(found), 0, 0) + question + records

    def close(self):
        self._socket.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()
