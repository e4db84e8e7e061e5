"""Keys of --api-key-file at both ways in, by stock clients."""

import http.client
import os
import pathlib
import tempfile
import unittest

import grpc

from server_process import DEADLINE, Api, Server, wait_until

FIRST, SECOND = "the-first-key-of-all", "the-second-key-of-all"


class ApiKeysTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "keys"
        self.put(FIRST)
        self.server = Server("--http-listen=127.0.0.1:0", f"--api-key-file={self.file}")
        self.addCleanup(self.server.kill)
        self.api = Api(self.server.start().address)
        self.addCleanup(self.api.close)
        self.http = self.server.wait_for_log(
            lambda entry: entry["message"].startswith("http on "))["message"].removeprefix("http on ")

    def put(self, key):
        new = self.file.with_suffix(".new")
        new.touch(0o600)
        new.write_text(f"web {key}\n")
        os.replace(new, self.file)

    def by_http(self, key):
        connection = http.client.HTTPConnection(self.http, timeout=DEADLINE)
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
        return connection.getresponse().status

    def draw(self, key, request_id):
        metadata = (("authorization", f"Bearer {key}"),)
        return self.api.start_generate(self.api.request(request_id=request_id), metadata=metadata).result(DEADLINE)

    def test_a_key_opens_both_ways_in(self):
        self.assertEqual((self.by_http(FIRST), self.by_http(SECOND)), (200, 401))
        self.assertEqual(len(self.draw(FIRST, "with-a-key").images), 1)
        with self.assertRaises(grpc.RpcError) as caught:
            self.draw(SECOND, "without")
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAUTHENTICATED)
        self.assertEqual(self.api.health(), "SERVING")
        self.put(SECOND)
        wait_until(lambda: self.by_http(SECOND) == 200, "the new key does not count")
        self.assertEqual(self.by_http(FIRST), 401)
        for key in (FIRST, SECOND):
            self.assertNotIn(key, self.server.log())


if __name__ == "__main__":
    unittest.main()
